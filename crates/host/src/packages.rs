//! Which Debian package a file belongs to, from dpkg's lists (`/var/lib/dpkg/info/NAME.list`), and how apt reaches its archive.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::HostRoot;

const LISTS: &str = "/var/lib/dpkg/info";
/// Where dpkg keeps which packages are installed in which version; changed by every installation.
pub const PACKAGE_STATUS: &str = "/var/lib/dpkg/status";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: Option<String>,
}

/// The package that a file belongs to, if any; of several the first by name.
pub fn package_of(root: &HostRoot, path: &Path) -> Option<String> {
    packages_of(root, &[path]).into_values().next().map(|package| package.name)
}

/// The packages that files belong to, by path, in one pass over dpkg's lists (tens of milliseconds on a server).
pub fn packages_of(root: &HostRoot, paths: &[&Path]) -> BTreeMap<PathBuf, Package> {
    let by_name: HashMap<PathBuf, &Path> =
        paths.iter().flat_map(|path| names_of(path).into_iter().map(move |name| (name, *path))).collect();
    let entries = fs::read_dir(root.path(LISTS)).into_iter().flatten().flatten();
    let mut lists: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "list"))
        .collect();
    lists.sort();
    let mut owners: BTreeMap<PathBuf, Package> = BTreeMap::new();
    for list in lists {
        // `libc6:amd64.list`, where several architectures can be installed.
        let Some(package) = list.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let name = package.split(':').next().unwrap_or(package);
        let text = fs::read_to_string(&list).unwrap_or_default();
        for path in text.lines().filter_map(|line| by_name.get(Path::new(line))) {
            owners
                .entry((*path).to_owned())
                .or_insert_with(|| Package { name: name.to_owned(), version: None });
        }
    }
    let versions = if owners.is_empty() { HashMap::new() } else { versions(root) };
    for package in owners.values_mut() {
        package.version = versions.get(&package.name).cloned();
    }
    owners
}

fn versions(root: &HostRoot) -> HashMap<String, String> {
    let text = fs::read_to_string(root.path(PACKAGE_STATUS)).unwrap_or_default();
    let paragraphs = text.split("\n\n").filter_map(|paragraph| {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name));
        let installed = field("Status: ").is_some_and(|status| status.ends_with(" installed"));
        Some((field("Package: ")?.to_owned(), field("Version: ")?.to_owned())).filter(|_| installed)
    });
    paragraphs.collect()
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
        let status = "Package: libx1\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:2.0-3\n\n\
                      Package: y\nStatus: deinstall ok config-files\nVersion: 9\n";
        let (folder, root) = crate::fixture::host(&[
            ("var/lib/dpkg/info/libx1:amd64.list", "/.\n/lib\n/lib/libx.so.1\n"),
            ("var/lib/dpkg/info/y.list", "/.\n/usr/lib/y.so\n"),
            ("var/lib/dpkg/info/y.md5sums", "/usr/lib/z.so\n"),
            ("var/lib/dpkg/status", status),
        ]);
        let found = packages_of(
            &root,
            &[Path::new("/usr/lib/libx.so.1"), Path::new("/usr/lib/y.so"), Path::new("/q")],
        );
        let found: Vec<_> =
            found.values().map(|package| (package.name.as_str(), package.version.as_deref())).collect();
        assert_eq!(found, [("libx1", Some("1:2.0-3")), ("y", None)]);
        let owner = |path: &str| package_of(&root, Path::new(path));
        assert_eq!(owner("/usr/lib/libx.so.1").as_deref(), Some("libx1"));
        assert_eq!(owner("/usr/lib/y.so").as_deref(), Some("y"));
        assert_eq!(owner("/usr/lib/z.so"), None);
        assert_eq!(package_of(&HostRoot::at(folder.path().join("none")), Path::new("/usr/lib/y.so")), None);
    }
}
