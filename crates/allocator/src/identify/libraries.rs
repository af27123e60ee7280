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
    known: Mutex<HashMap<Mapped, Option<Package>>>,
}

/// A file by its path and by which one it is: an upgrade puts another one in its place.
type Mapped = (PathBuf, Option<(u64, u64)>);

impl Packages {
    fn of(&self, process: &Process, files: &[Mapped]) -> Vec<Option<Package>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<&Mapped> = files.iter().filter(|file| !known.contains_key(*file)).collect();
        if !missing.is_empty() {
            let paths: Vec<&Path> = missing.iter().map(|(path, _)| path.as_path()).collect();
            let mut found = packages_of(&process.seen_root(), &paths);
            known.extend(missing.into_iter().map(|file| (file.clone(), found.remove(&file.0))));
        }
        files.iter().map(|file| known.get(file).cloned().flatten()).collect()
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
    let file = |object: &&MappedObject<'_>| (PathBuf::from(&object.name), object.file_id());
    let packages = packages.of(process, &objects.iter().map(file).collect::<Vec<_>>());
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
