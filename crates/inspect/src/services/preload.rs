//! What `LD_PRELOAD` asks for, and whether it was heard: ld.so(8) goes on without a library that it cannot load.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use heaptrial_host::systemd::Unit;
use heaptrial_host::{HostRoot, Mapping, Process};
use serde::{Deserialize, Serialize};

use crate::environment_file;
use crate::services::NextStart;
use crate::unit_environment::{assignments, sets};

pub(crate) const LD_PRELOAD: &str = "LD_PRELOAD";

/// A library that `LD_PRELOAD` asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preload {
    /// The library as it is asked for: a path or a name.
    pub library: String,
    /// Whether the process has it mapped; `None` where that may not be seen.
    pub loaded: Option<bool>,
}

impl Preload {
    /// Whether another of these is of the same name without its version and is loaded: people list what several releases have.
    pub fn is_alternative(&self, all: &[Self]) -> bool {
        let stem = |library: &Self| {
            let name = file_name(&library.library);
            name.split(".so").next().unwrap_or(name).to_owned()
        };
        all.iter().any(|other| other != self && other.loaded == Some(true) && stem(other) == stem(self))
    }

    pub(crate) fn of(root: &HostRoot, process: &Process, unit: &Unit) -> Vec<Self> {
        let own = process.environ().ok().filter(|_| !process.environ_is_overwritten().unwrap_or(true));
        let environment = own.unwrap_or_else(|| NextStart::of(root, unit).variables());
        let asked = environment.iter().find(|(name, _)| name == LD_PRELOAD).map(|(_, value)| value.as_str());
        let libraries: Vec<&str> = words(asked.unwrap_or_default()).collect();
        if libraries.is_empty() {
            return Vec::new();
        }
        let mappings = process.mappings().ok();
        libraries
            .into_iter()
            .map(|library| Self {
                library: library.to_owned(),
                loaded: mappings.as_deref().map(|mappings| is_mapped(process, mappings, library)),
            })
            .collect()
    }
}

/// Whether code of a library is mapped, under its name or that of a file that it leads to: of one that the loader refused, as on
/// a file system without the right to run code, its first part stays.
fn is_mapped(process: &Process, mappings: &[Mapping], library: &str) -> bool {
    let inode = |path: &Path| Some(fs::metadata(process.seen_path(path)).ok()?.ino());
    let name = file_name(library);
    let asked = Some(Path::new(library)).filter(|path| path.is_absolute()).and_then(inode);
    let is_it = |file: &Mapping| {
        let path = Path::new(&file.name);
        // The loader looks for a name without a path.
        let link = asked.or_else(|| inode(&path.with_file_name(name)));
        file_name(&file.name) == name || (link.is_some() && link == inode(path))
    };
    mappings.iter().filter(|mapping| mapping.is_file() && mapping.is_executable()).any(is_it)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The libraries of a value of `LD_PRELOAD`, which colons and spaces separate.
pub(crate) fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split([':', ' ']).filter(|library| !library.is_empty())
}

/// The libraries of `/etc/ld.so.preload`, which every program loads after those of `LD_PRELOAD` (ld.so(8)).
pub fn host_preloads(root: &HostRoot) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.path("/etc/ld.so.preload")).unwrap_or_default();
    let uncommented = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names = uncommented.flat_map(|line| line.split([' ', '\t', ':'])).filter(|name| !name.is_empty());
    names.map(PathBuf::from).collect()
}

/// The files that make up a unit, of those that set `LD_PRELOAD`: unit file, drop-ins, files of variables, in the order in which
/// they apply.
pub fn files_with_preload(root: &HostRoot, unit: &Unit) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for file in unit.unit_file.iter().chain(&unit.drop_ins) {
        for value in assignments(root, file, "Environment") {
            match value.is_empty() {
                true => files.clear(),
                false if sets(&value, LD_PRELOAD) => files.push(file.clone()),
                false => {}
            }
        }
    }
    let of_files = environment_file::read(root, &unit.environment_files);
    files.extend(of_files.into_iter().filter(|found| found.name == LD_PRELOAD).map(|found| found.file));
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_loaded_where_code_of_it_is_mapped() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::at(dir.path());
        let seen = dir.path().join("proc/9/root");
        for path in ["opt/a.so", "usr/lib/a.so"] {
            fs::create_dir_all(seen.join(path).parent().unwrap()).unwrap();
            fs::write(seen.join(path), path).unwrap();
        }
        let loaded = |permissions: &str, name: &str, asked: &str| {
            let line = format!("7f0000000000-7f0000001000 {permissions} 00000000 08:01 4711 {name}\n");
            fs::write(dir.path().join("proc/9/maps"), line).unwrap();
            let process = Process::new(&root, 9);
            is_mapped(&process, &process.mappings().unwrap(), asked)
        };
        assert!(loaded("r-xp", "/opt/a.so", "/opt/a.so") && loaded("r-xp", "/usr/lib/a.so", "a.so"));
        std::os::unix::fs::symlink("usr/lib", seen.join("lib")).unwrap();
        std::os::unix::fs::symlink("a.so", seen.join("usr/lib/link.so")).unwrap();
        assert!(loaded("r-xp", "/usr/lib/a.so", "/lib/a.so") && loaded("r-xp", "/usr/lib/a.so", "link.so"));
        assert!(!loaded("r--p", "/opt/a.so", "/opt/a.so"), "refused by the loader");
        assert!(!loaded("r-xp", "/usr/lib/a.so", "/opt/b.so"));
    }

    #[test]
    fn one_of_several_versions_of_a_library_is_enough() {
        let preload = |library: &str, loaded| Preload { library: library.to_owned(), loaded: Some(loaded) };
        let all = [
            preload("libjemalloc.so.1", false),
            preload("libjemalloc.so.2", true),
            preload("libx.so", false),
        ];
        assert_eq!(all.clone().map(|preload| preload.is_alternative(&all)), [true, false, false]);
    }

    #[test]
    fn files_that_set_the_variable_are_told_from_those_that_speak_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("x.service", "# LD_PRELOAD=no\n[Service]\nEnvironment=A=1\n");
        write("a.conf", "[Service]\n  Environment=\"LD_PRELOAD=/usr/lib/a.so\" B=2\n");
        write("b.conf", "[Service]\nUnsetEnvironment=LD_PRELOAD\n");
        write("vars", "LD_PRELOAD=/usr/lib/b.so\n");
        let mut unit = crate::services::tests::unit("x.service");
        unit.unit_file = Some("/x.service".into());
        unit.drop_ins = ["/a.conf", "/b.conf", "/gone.conf"].map(PathBuf::from).to_vec();
        unit.environment_files = vec!["/vars".into()];
        let found = files_with_preload(&HostRoot::at(dir.path()), &unit);
        assert_eq!(found, ["/a.conf", "/vars"].map(PathBuf::from));
    }
}
