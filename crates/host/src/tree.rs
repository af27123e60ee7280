//! Which processes belong to a service: everything below its main process.

use std::collections::HashMap;
use std::fs;

use crate::reader::parse_stat;
use crate::{HostError, HostRoot};

/// Parents and children of all processes of a host at one moment.
#[derive(Debug, Clone, Default)]
pub struct ProcessTree {
    children: HashMap<i32, Vec<i32>>,
    zombies: Vec<i32>,
}

impl ProcessTree {
    /// Reads the parent of each process. A process that ends meanwhile is left out, and one of another user where the host hides
    /// those; what else cannot be read is an error, since whoever is below it would be missing as well.
    pub fn scan(root: &HostRoot) -> Result<Self, HostError> {
        let path = root.path("/proc");
        let mut tree = Self::default();
        for entry in fs::read_dir(&path).map_err(HostError::read(&path))? {
            let name = entry.map_err(HostError::read(&path))?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let path = root.process_dir(pid).join("stat");
            let stat = match fs::read(&path) {
                Ok(stat) => stat,
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => continue,
                Err(source) => match (HostError::Read { path, source }) {
                    gone if gone.is_gone() => continue,
                    error => return Err(error),
                },
            };
            let reading = parse_stat(&stat).ok_or_else(|| HostError::Parse {
                path,
                expected: "52 fields",
                found: String::from_utf8_lossy(&stat).into_owned(),
            })?;
            tree.children.entry(reading.parent).or_default().push(pid);
            if reading.zombie {
                tree.zombies.push(pid);
            }
        }
        for pids in tree.children.values_mut() {
            pids.sort_unstable();
        }
        Ok(tree)
    }

    /// `pid` and all below it, parents before children, without those that only wait to be collected.
    pub fn family(&self, pid: i32) -> Vec<i32> {
        self.below(pid, |child| !self.zombies.contains(child))
    }

    /// Everything below `pid`, also what only waits to be collected.
    pub fn descendants(&self, pid: i32) -> Vec<i32> {
        self.below(pid, |_| true).split_off(1)
    }

    fn below(&self, pid: i32, wanted: impl Fn(&i32) -> bool) -> Vec<i32> {
        let mut found = vec![pid];
        let mut next = 0;
        while let Some(parent) = found.get(next) {
            let children = self.children.get(parent).map_or(&[][..], Vec::as_slice);
            found.extend(children.iter().filter(|child| wanted(child)));
            next += 1;
        }
        found
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceProcesses {
    main: i32,
    supervisor: Option<i32>,
}

impl ServiceProcesses {
    /// Its main process and all below that.
    pub fn below(main: i32) -> Self {
        Self { main, supervisor: None }
    }

    /// All below a supervisor, without that: as their subreaper it inherits processes whose parents have ended, which are below
    /// the main one no more.
    pub fn kept_by(supervisor: i32, main: i32) -> Self {
        Self { main, supervisor: Some(supervisor) }
    }

    pub fn main(&self) -> i32 {
        self.main
    }

    /// Those that run, the main one first.
    pub fn running(&self, tree: &ProcessTree) -> Vec<i32> {
        let Some(supervisor) = self.supervisor else { return tree.family(self.main) };
        let others = tree.family(supervisor).into_iter().skip(1).filter(|pid| *pid != self.main);
        std::iter::once(self.main).chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{host, process};

    fn fixture(processes: &[(i32, i32, char)]) -> (tempfile::TempDir, HostRoot) {
        let (dir, root) = host(&[("proc/sys/kernel/hostname", "here\n")]);
        for (pid, parent, state) in processes {
            process(dir.path(), *pid, *parent, *state, 8);
        }
        (dir, root)
    }

    #[test]
    fn a_tree_of_which_a_part_cannot_be_read_is_no_tree() {
        let (dir, root) = fixture(&[(1, 0, 'S'), (10, 1, 'S'), (11, 10, 'S')]);
        // A process that ended since the list was read.
        fs::remove_file(dir.path().join("proc/11/stat")).unwrap();
        assert_eq!(ProcessTree::scan(&root).unwrap().family(10), [10]);
        // As with no descriptor left: it is there, and cannot be read.
        fs::remove_file(dir.path().join("proc/10/stat")).unwrap();
        fs::create_dir(dir.path().join("proc/10/stat")).unwrap();
        let scanned = ProcessTree::scan(&root);
        assert!(matches!(&scanned, Err(error) if !error.is_gone()), "{scanned:?}");
    }

    #[test]
    fn who_lost_its_parent_is_below_the_supervisor() {
        let (_dir, root) = fixture(&[
            (1, 0, 'S'),
            (9, 1, 'S'),
            (10, 9, 'S'),
            (11, 10, 'S'),
            (12, 9, 'S'),
            (13, 12, 'S'),
            (14, 9, 'Z'),
            (20, 1, 'S'),
        ]);
        let tree = ProcessTree::scan(&root).unwrap();
        let kept = ServiceProcesses::kept_by(9, 10);
        assert_eq!(kept.running(&tree), [10, 12, 11, 13]);
        assert_eq!(ServiceProcesses::below(10).running(&tree), [10, 11]);
    }
}
