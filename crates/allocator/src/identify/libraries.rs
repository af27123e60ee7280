//! The shared libraries that a process maps, with the packages that they are of.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_host::{PACKAGE_STATUS, Package, Process, packages_of};
use heaptrial_model::MappedLibrary;

use super::objects::MappedObject;
use crate::file_key::FileKey;

/// Packages of files, as long as no package is installed or removed. dpkg's lists are long, and the processes of a host map
/// much the same libraries.
#[derive(Default)]
pub(super) struct Packages {
    known: RefCell<Known>,
}

#[derive(Default)]
struct Known {
    /// The state of the packages when they were looked up.
    state: Option<FileKey>,
    packages: HashMap<PathBuf, Option<Package>>,
}

impl Packages {
    fn of(&self, process: &Process, paths: &[&Path]) -> Vec<Option<Package>> {
        let root = process.seen_root();
        let state = fs::metadata(root.path(PACKAGE_STATUS)).ok().map(|metadata| FileKey::of(&metadata));
        let mut known = self.known.borrow_mut();
        if known.state != state {
            *known = Known { state, packages: HashMap::new() };
        }
        let packages = &mut known.packages;
        let missing: Vec<&Path> =
            paths.iter().copied().filter(|path| !packages.contains_key(*path)).collect();
        if !missing.is_empty() {
            let mut found = packages_of(&root, &missing);
            packages.extend(missing.into_iter().map(|path| (path.to_owned(), found.remove(path))));
        }
        paths.iter().map(|path| packages.get(*path).cloned().flatten()).collect()
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
