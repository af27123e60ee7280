//! The shared libraries that a process maps, with the packages that they are of.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_host::{PACKAGE_STATUS, Package, Process, packages_of};
use heaptrial_model::MappedLibrary;

use super::files::Files;
use super::objects::MappedObject;
use crate::file_key::FileKey;

/// Packages of files, by the state of the packages that they were looked up in. dpkg's lists are long, and the processes of
/// a host map much the same libraries.
#[derive(Default)]
pub(super) struct Packages {
    known: RefCell<HashMap<Asked, Option<Package>>>,
}

/// The state of the packages, and a file.
type Asked = (Option<FileKey>, PathBuf);

impl Packages {
    fn of(&self, process: &Process, paths: &[&Path]) -> Vec<Option<Package>> {
        let root = process.seen_root();
        let state = fs::metadata(root.path(PACKAGE_STATUS)).ok().map(|metadata| FileKey::of(&metadata));
        let mut known = self.known.borrow_mut();
        // What was looked up before packages were installed or removed is no longer asked for.
        known.retain(|(at, _), _| *at == state);
        let key = |path: &Path| (state.clone(), path.to_owned());
        let missing: Vec<&Path> =
            paths.iter().copied().filter(|path| !known.contains_key(&key(path))).collect();
        if !missing.is_empty() {
            let mut found = packages_of(&root, &missing);
            for path in missing {
                known.insert(key(path), found.remove(path));
            }
        }
        paths.iter().map(|path| known.get(&key(path)).cloned().flatten()).collect()
    }
}

/// All of them but the program itself, ordered by name.
pub(super) fn mapped(
    process: &Process,
    objects: &[MappedObject<'_>],
    program: &MappedObject<'_>,
    files: &Files,
) -> Vec<MappedLibrary> {
    let objects: Vec<&MappedObject<'_>> =
        objects.iter().filter(|object| object.name != program.name).collect();
    let paths: Vec<&Path> = objects.iter().map(|object| Path::new(&object.name)).collect();
    let packages = files.packages.of(process, &paths);
    // Packages are those of today: of a file that was replaced since, they tell the one in its place.
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
