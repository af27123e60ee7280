//! The shared libraries that services ran with, and where those differ. They ask the allocator: another version of one can
//! change what an allocator needs by a factor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use heaptrial_model::MappedLibrary;

use crate::document::{Arm, Report};
use crate::text::names;

/// Libraries whose builds differ are named up to this many.
const NAMED: usize = 4;

/// All libraries of a report but the allocators of its arms, each build once.
fn of(report: &Report) -> BTreeSet<&MappedLibrary> {
    let allocators: BTreeSet<&Path> = report
        .arms
        .iter()
        .filter_map(|arm| arm.identity.as_ref()?.path.as_deref())
        .filter(|path| !is_c_library(path))
        .collect();
    let libraries = report.arms.iter().flat_map(|arm| &arm.libraries);
    libraries.filter(|library| !allocators.contains(library.path.as_path())).collect()
}

fn is_c_library(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc.so"))
}

/// What to mind where arms of one run did not all run with the same libraries.
pub(crate) fn difference_of_arms(report: &Report) -> Option<String> {
    let libraries = of(report);
    let own = |arm: &Arm| libraries.iter().filter(|known| arm.libraries.contains(known)).copied().collect();
    let arms = report.arms.iter().filter(|arm| !arm.libraries.is_empty());
    let sides: Vec<(&str, Vec<&MappedLibrary>)> = arms.map(|arm| (arm.name.as_str(), own(arm))).collect();
    let differ = differences(&sides)?;
    Some(format!(
        "Services ran with different libraries, which change what an allocator is asked for: {differ}."
    ))
}

/// The libraries of a report but the allocators, once each, for a comparison with others.
pub(crate) fn all(report: &Report) -> Vec<MappedLibrary> {
    of(report).into_iter().cloned().collect()
}

/// Where libraries of one name are of different builds: what each side had. A side that did not map a library at all
/// does not differ: programs load some only when they need them.
pub(crate) fn differences(sides: &[(&str, Vec<&MappedLibrary>)]) -> Option<String> {
    type Sides<'a> = BTreeMap<&'a MappedLibrary, Vec<&'a str>>;
    let mut builds: BTreeMap<&str, Sides<'_>> = BTreeMap::new();
    for (side, libraries) in sides {
        for library in libraries {
            let named = builds.entry(&library.name).or_default().entry(*library).or_default();
            if !named.contains(side) {
                named.push(side);
            }
        }
    }
    let unlike: Vec<String> = builds
        .into_iter()
        .filter(|(_, builds)| builds.len() > 1)
        .map(|(name, builds)| {
            let each =
                builds.iter().map(|(library, sides)| format!("{} ({})", library.build(), sides.join(", ")));
            format!("{name} {}", each.collect::<Vec<_>>().join(" and "))
        })
        .collect();
    (!unlike.is_empty()).then(|| names(&unlike, NAMED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, version: &str, build_id: &str) -> MappedLibrary {
        MappedLibrary {
            name: name.to_owned(),
            path: format!("/lib/{name}").into(),
            package: Some("p".to_owned()),
            version: Some(version.to_owned()),
            build_id: Some(build_id.to_owned()),
        }
    }

    #[test]
    fn builds_of_one_name_that_differ_are_named_with_their_sides() {
        let (old, new) = (library("libzstd.so.1", "1.5.4", "aa"), library("libzstd.so.1", "1.5.7", "bb"));
        let same = library("libz.so.1", "1.2", "cc");
        let sides = [("a", vec![&old, &same]), ("b", vec![&new, &same]), ("c", vec![&old])];
        assert_eq!(differences(&sides).unwrap(), "libzstd.so.1 1.5.4 (a, c) and 1.5.7 (b)");
        assert_eq!(differences(&sides[..1]), None);
        // One of them not mapped by the other is no difference of builds.
        assert_eq!(differences(&[("a", vec![&old]), ("b", vec![&same])]), None);
        // A rebuild of the same version is another build.
        let rebuilt = library("libzstd.so.1", "1.5.4", "dd");
        assert!(differences(&[("a", vec![&old]), ("b", vec![&rebuilt])]).is_some());
    }
}
