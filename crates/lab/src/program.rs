//! Finding programs.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Finds a program as a shell does: by its path, or in the folders of `PATH`.
pub fn find_program(name: &OsStr) -> Option<PathBuf> {
    let executable = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let path = Path::new(name);
    if name.is_empty() {
        return None;
    }
    if path.components().count() > 1 {
        return executable(path).then(|| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| executable(path))
}
