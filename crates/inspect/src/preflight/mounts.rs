//! Mounts and their options (proc_pid_mountinfo(5)).

use std::fs;
use std::path::{Path, PathBuf};

use crate::preflight::subject::Subject;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) point: PathBuf,
    options: Vec<String>,
}

impl Mount {
    pub(crate) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|own| own == option)
    }
}

/// The mount that a path is on, as the main process sees it, or else this process.
pub(crate) fn mount_of(subject: &Subject<'_>, path: &Path) -> Option<Mount> {
    let text = subject
        .process_file("mountinfo")
        .or_else(|| fs::read(subject.root.path("/proc/self/mountinfo")).ok())?;
    find(&String::from_utf8_lossy(&text), path)
}

fn find(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mounts = mountinfo.lines().filter_map(parse).filter(|mount| path.starts_with(&mount.point));
    // Of two mounts at one point the later one lies on top.
    mounts.max_by_key(|mount| mount.point.components().count())
}

fn parse(line: &str) -> Option<Mount> {
    let (own, _file_system) = line.split_once(" - ")?;
    let fields: Vec<&str> = own.split(' ').collect();
    let options = fields.get(5)?.split(',').map(str::to_owned).collect();
    Some(Mount { point: PathBuf::from(unescaped(fields.get(4)?)), options })
}

/// Spaces, tabs, line ends and backslashes are written as octal numbers.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_and_last_mount_counts() {
        let text = "20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                    21 20 8:2 / /usr ro,nosuid - ext4 /dev/sda2 ro\n\
                    22 20 8:2 / /usr/lib/a\\040b rw,noexec master:3 - tmpfs tmpfs rw\n\
                    23 20 8:2 / /usr rw,nodev - ext4 /dev/sda2 rw\n";
        assert!(find(text, Path::new("/usr/lib/a b/x.so")).unwrap().has("noexec"));
        let usr = find(text, Path::new("/usr/lib/x.so")).unwrap();
        assert!(usr.has("nodev") && !usr.has("nosuid"));
        assert_eq!(find(text, Path::new("/usrlocal")).unwrap().point, Path::new("/"));
    }
}
