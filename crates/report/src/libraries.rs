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
pub(crate) fn of(report: &Report) -> BTreeSet<&MappedLibrary> {
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
    let differ = differences(report.arms.iter().map(|arm| (arm.name.as_str(), own(arm))))?;
    Some(format!(
        "Services ran with different libraries, which change what an allocator is asked for: {differ}."
    ))
}

/// Where libraries of one name are of different builds: what each side had. A side that did not map a library at all
/// does not differ: programs load some only when they need them.
pub(crate) fn differences<'a>(
    sides: impl Iterator<Item = (&'a str, BTreeSet<&'a MappedLibrary>)>,
) -> Option<String> {
    let mut builds: BTreeMap<&str, BTreeMap<&MappedLibrary, Vec<&str>>> = BTreeMap::new();
    for (side, libraries) in sides {
        for library in libraries {
            builds.entry(&library.name).or_default().entry(library).or_default().push(side);
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
