//! The shared libraries that a process maps, with the packages that they are of.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use heaptrial_host::{Package, Process, packages_of};
use heaptrial_model::MappedLibrary;

use super::objects::MappedObject;

/// Packages of files. dpkg's lists are long, and the processes of a host map much the same libraries.
#[derive(Debug, Default)]
pub(super) struct Packages {
    known: Mutex<HashMap<PathBuf, Option<Package>>>,
}

impl Packages {
    fn of(&self, process: &Process, paths: &[&Path]) -> Vec<Option<Package>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<&Path> = paths.iter().copied().filter(|path| !known.contains_key(*path)).collect();
        if !missing.is_empty() {
            let mut found = packages_of(&process.seen_root(), &missing);
            known.extend(missing.into_iter().map(|path| (path.to_owned(), found.remove(path))));
        }
        paths.iter().map(|path| known.get(*path).cloned().flatten()).collect()
    }
}

/// All of them but the program itself, ordered by name.
pub(super) fn mapped(
    process: &Process,
    objects: &[MappedObject<'_>],
    program: &MappedObject<'_>,
    packages: &Packages,
) -> Vec<MappedLibrary> {
    let objects: Vec<&MappedObject<'_>> =
        objects.iter().filter(|object| object.name != program.name).collect();
    let paths: Vec<&Path> = objects.iter().map(|object| Path::new(&object.name)).collect();
    let packages = packages.of(process, &paths);
    // Packages are those of today: of a file that was replaced since, they name the one in its place.
    let packages = objects.iter().zip(packages).map(|(object, package)| package.filter(|_| !object.deleted));
    let library = |(object, package): (&&MappedObject<'_>, Option<Package>)| MappedLibrary {
        name: object.elf.soname().unwrap_or_else(|| object.file_name().to_owned()),
        path: PathBuf::from(&object.name),
        version: package.as_ref().and_then(|package| package.version.clone()),
        package: package.map(|package| package.name),
        build_id: object.elf.build_id(),
    };
    let mut libraries: Vec<MappedLibrary> = objects.iter().zip(packages).map(library).collect();
    libraries.sort();
    libraries
}
