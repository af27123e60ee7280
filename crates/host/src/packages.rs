//! Which Debian package a file belongs to, from dpkg's lists (`/var/lib/dpkg/info/NAME.list`), and how apt reaches its archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::HostRoot;

const LISTS: &str = "/var/lib/dpkg/info";

/// The package that a file belongs to; `None` where it belongs to none, or the host has no dpkg. Of several packages
/// the first by name.
pub fn package_of(root: &HostRoot, path: &Path) -> Option<String> {
    let names = names_of(path);
    let mut lists: Vec<PathBuf> =
        fs::read_dir(root.path(LISTS)).ok()?.flatten().map(|entry| entry.path()).collect();
    lists.sort();
    lists.into_iter().filter(|list| list.extension().is_some_and(|ending| ending == "list")).find_map(
        |list| {
            let text = fs::read_to_string(&list).ok()?;
            let listed = text.lines().any(|line| names.iter().any(|name| Path::new(line) == name));
            let package = list.file_stem()?.to_str()?;
            // `libc6:amd64.list`, where several architectures can be installed.
            listed.then(|| package.split(':').next().unwrap_or(package).to_owned())
        },
    )
}

/// Options of apt by which this host reaches its package archive: proxies and the like. None where there is no apt.
pub fn apt_options() -> Vec<String> {
    const PASSED_ON: [&str; 4] =
        ["Acquire::http::Proxy", "Acquire::https::", "Acquire::Check-", "Acquire::Retries"];
    let Ok(output) = Command::new("apt-config").arg("dump").output() else { return Vec::new() };
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| PASSED_ON.iter().any(|prefix| line.starts_with(prefix)) && !line.ends_with("\"\";"))
        .map(|line| line.trim_end_matches(';').to_owned())
        .collect()
}

/// A file's names in lists: packages from before /lib and /usr/lib became one list it without `/usr`.
fn names_of(path: &Path) -> Vec<PathBuf> {
    let short = path.strip_prefix("/usr").ok().map(|rest| Path::new("/").join(rest));
    std::iter::once(path.to_owned()).chain(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_package_that_lists_it() {
        let folder = tempfile::tempdir().unwrap();
        let lists = folder.path().join("var/lib/dpkg/info");
        fs::create_dir_all(&lists).unwrap();
        fs::write(lists.join("libx1:amd64.list"), "/.\n/lib\n/lib/libx.so.1\n").unwrap();
        fs::write(lists.join("y.list"), "/.\n/usr/lib/y.so\n").unwrap();
        fs::write(lists.join("y.md5sums"), "/usr/lib/z.so\n").unwrap();
        let root = HostRoot::at(folder.path());
        let owner = |path: &str| package_of(&root, Path::new(path));
        assert_eq!(owner("/usr/lib/libx.so.1").as_deref(), Some("libx1"));
        assert_eq!(owner("/usr/lib/y.so").as_deref(), Some("y"));
        assert_eq!(owner("/usr/lib/z.so"), None);
        assert_eq!(package_of(&HostRoot::at(folder.path().join("none")), Path::new("/usr/lib/y.so")), None);
    }
}
