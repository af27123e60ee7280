use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_host::HostRoot;
use heaptrial_host::systemd::Unit;

use crate::environment_file;
use crate::services::preload::{LD_PRELOAD, words};

/// The variables with which systemd would start a service now, as far as its unit decides: those of Environment=, over them
/// those of the files of EnvironmentFile= as they are, less those of UnsetEnvironment= (systemd.exec(5)). A unit does not show
/// the manager's own environment, nor of what a wrapper sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NextStart {
    variables: BTreeMap<String, String>,
}

impl NextStart {
    /// Of a unit as it is loaded; its files of variables are read.
    pub fn of(root: &HostRoot, unit: &Unit) -> Self {
        let mut variables: BTreeMap<String, String> = unit.environment.iter().cloned().collect();
        let of_files = environment_file::read(root, &unit.environment_files);
        variables.extend(of_files.into_iter().map(|variable| (variable.name, variable.value)));
        let unset = |name: &str, value: &str| {
            unit.unset_environment.iter().any(|unset| match unset.split_once('=') {
                Some(pair) => pair == (name, value),
                None => unset == name,
            })
        };
        variables.retain(|name, value| !unset(name, value));
        Self { variables }
    }

    /// The value of a variable.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// All of them, by name.
    pub fn variables(&self) -> Vec<(String, String)> {
        self.variables.clone().into_iter().collect()
    }

    /// What `LD_PRELOAD` names: paths, or names for which the loader looks.
    pub fn preloads(&self) -> Vec<&str> {
        words(self.value(LD_PRELOAD).unwrap_or_default()).collect()
    }

    /// What of that is a library that processes map by its real path: by that, by a link to it, or by a name alone where it
    /// lies in a folder in which the loader looks.
    pub fn preload_of(&self, root: &HostRoot, object: &Path) -> Option<&str> {
        let leads_there = |word: &&str| {
            let path = object.with_file_name(word);
            path == object || real(root, &path).is_some_and(|real| real == object)
        };
        self.preloads().into_iter().find(leads_there)
    }
}

/// Where a path leads to, below the root.
fn real(root: &HostRoot, path: &Path) -> Option<PathBuf> {
    let found = fs::canonicalize(root.path(path)).ok()?;
    let below = fs::canonicalize(root.path("/")).ok()?;
    Some(Path::new("/").join(found.strip_prefix(below).unwrap_or(&found)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::tests::unit;

    #[test]
    fn a_file_wins_over_the_unit_and_what_is_unset_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::at(dir.path());
        fs::write(dir.path().join("vars"), "LD_PRELOAD=\"/lib/b.so /lib/c.so\"\nA=file\nGONE=1\nSTAYS=2\n")
            .unwrap();
        fs::write(dir.path().join("b.so.1"), "").unwrap();
        std::os::unix::fs::symlink("b.so.1", dir.path().join("b.so")).unwrap();
        let mut own = unit("x.service");
        own.environment = [("LD_PRELOAD", "/lib/a.so"), ("A", "unit"), ("A", "later"), ("B", "2")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        own.environment_files = vec!["/vars".into(), "/missing".into()];
        own.unset_environment = ["GONE", "STAYS=3", "B=2"].map(str::to_owned).to_vec();
        let next = NextStart::of(&root, &own);
        assert_eq!(next.preloads(), ["/lib/b.so", "/lib/c.so"]);
        let names: Vec<String> = next.variables().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["A", "LD_PRELOAD", "STAYS"]);
        assert_eq!(next.value("A"), Some("file"));
        own.environment_files.clear();
        own.environment = vec![("LD_PRELOAD".to_owned(), "/b.so".to_owned())];
        let next = NextStart::of(&root, &own);
        assert_eq!(next.preload_of(&root, Path::new("/b.so.1")), Some("/b.so"));
        assert_eq!(next.preload_of(&root, Path::new("/other/b.so.1")), None);
    }
}
