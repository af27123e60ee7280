//! The shared libraries that services ran with, and where those differ. They ask the allocator: another version of one can
//! change what an allocator needs by a factor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use heaptrial_model::MappedLibrary;

use crate::document::{Arm, Report};
use crate::table::{Emphasis, Row, Table, text};

/// Libraries whose builds differ are named up to this many.
const NAMED: usize = 4;

/// All libraries of a report but the allocators of its arms, each build once with the arms that ran it.
fn of(report: &Report) -> BTreeMap<&MappedLibrary, Vec<&Arm>> {
    let allocators: BTreeSet<&Path> = report
        .arms
        .iter()
        .filter_map(|arm| arm.identity.as_ref()?.path.as_deref())
        .filter(|path| !is_c_library(path))
        .collect();
    let mut libraries: BTreeMap<&MappedLibrary, Vec<&Arm>> = BTreeMap::new();
    for arm in &report.arms {
        for library in arm.libraries.iter().filter(|library| !allocators.contains(library.path.as_path())) {
            libraries.entry(library).or_default().push(arm);
        }
    }
    libraries
}

fn is_c_library(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc.so"))
}

/// Library, package, version, build id, arms; `None` where nothing was recorded.
pub(crate) fn table(report: &Report) -> Option<Table> {
    let libraries = of(report);
    let known = report.arms.iter().filter(|arm| !arm.libraries.is_empty()).count();
    let rows: Vec<Row> = libraries
        .iter()
        .map(|(library, arms)| {
            let arms = match arms.len() {
                all if all == known => "all".to_owned(),
                _ => arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>().join(", "),
            };
            let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
            let cells = vec![
                library.name.clone(),
                known(&library.package),
                known(&library.version),
                known(&library.build_id),
                arms,
            ];
            Row { arm: None, emphasis: Emphasis::None, cells }
        })
        .collect();
    let columns = ["Library", "Package", "Version", "Build id", "Arms"].map(text).into();
    (!rows.is_empty()).then_some(Table { columns, rows })
}

/// What to mind where arms of one run did not all run with the same libraries.
pub(crate) fn difference_of_arms(report: &Report) -> Option<String> {
    let sides = report.arms.iter().filter(|arm| !arm.libraries.is_empty());
    let sides: Vec<(&str, Vec<&MappedLibrary>)> = sides
        .map(|arm| {
            (
                arm.name.as_str(),
                of(report).into_keys().filter(|library| arm.libraries.contains(library)).collect(),
            )
        })
        .collect();
    let differ = differences(&sides)?;
    Some(format!(
        "Services ran with different libraries, which change what an allocator is asked for: {differ}."
    ))
}

/// The libraries of a report but the allocators, once each, for a comparison with others.
pub(crate) fn all(report: &Report) -> Vec<MappedLibrary> {
    of(report).into_keys().cloned().collect()
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
    let more = unlike.len().saturating_sub(NAMED);
    let named = unlike.get(..NAMED).unwrap_or(&unlike).join("; ");
    match more {
        _ if unlike.is_empty() => None,
        0 => Some(named),
        more => Some(format!("{named}; and {more} more")),
    }
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

    #[test]
    fn many_differences_are_counted() {
        let of = |version: &str| {
            (0..7).map(|n| library(&format!("lib{n}.so"), version, version)).collect::<Vec<_>>()
        };
        let (old, new) = (of("1"), of("2"));
        let differ = differences(&[("a", old.iter().collect()), ("b", new.iter().collect())]).unwrap();
        assert!(differ.ends_with("; and 3 more"), "{differ}");
    }
}
