//! Libraries that are installed on this host.

use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_host::{HostRoot, package_of};

use crate::c_library::MULTIARCH;
use crate::catalog::Family;
use crate::licence::{self, LicenceText};

/// Installed files with one of the family's names, each file once.
pub(super) fn libraries(family: &Family) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    let folders = folders();
    for name in &family.library_names {
        for path in folders.iter().map(|folder| folder.join(name)) {
            if let Ok(real) = path.canonicalize() {
                if !seen.contains(&real) {
                    seen.push(real);
                    found.push(path);
                }
            }
        }
    }
    found
}

/// The licence of the package that an installed library belongs to.
pub(super) fn licences(path: &Path) -> Vec<LicenceText> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let owner = package_of(&HostRoot::default(), &real);
    owner.map_or(Vec::new(), |package| licence::of_package(Path::new("/"), &package))
}

/// Folders that the dynamic loader searches, and those of compiler runtimes.
fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = [format!("/usr/lib/{MULTIARCH}"), format!("/usr/local/lib/{MULTIARCH}")]
        .map(PathBuf::from)
        .into_iter()
        .chain(["/usr/lib64", "/usr/lib", "/usr/local/lib"].map(PathBuf::from))
        .collect();
    for toolchain in subfolders(Path::new("/usr/lib"), "llvm-") {
        let versions = subfolders(&toolchain.join("lib/clang"), "");
        folders.extend(versions.into_iter().map(|version| version.join("lib/linux")));
    }
    folders
}

fn subfolders(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && !path.is_symlink())
        .collect();
    paths.sort();
    paths
}
