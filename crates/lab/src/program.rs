//! Programs by their names, as a shell finds them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const MISSING: &str = "was not found; check the name, or give its path";
const FOLDER: &str = "is a folder, not a program";
const NOT_EXECUTABLE: &str = "is not executable; chmod +x makes it so, or name its interpreter before it";

/// Finds a program as a shell does: by its path, or in the folders of `PATH`. The error is why there is none of that name.
pub(crate) fn find_program(name: &str) -> Result<PathBuf, String> {
    let path = Path::new(name);
    let fail = |problem: &str| format!("`{}` {problem}", path.display());
    if name.is_empty() {
        return Err(fail(MISSING));
    }
    if name.contains('/') {
        check(path).map_err(fail)?;
        return Ok(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut problem = MISSING;
    for candidate in std::env::split_paths(&folders).map(|folder| folder.join(name)) {
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(NOT_EXECUTABLE) => problem = NOT_EXECUTABLE,
            // A shell goes on as well.
            Err(_) => {}
        }
    }
    Err(fail(problem))
}

fn check(path: &Path) -> Result<(), &'static str> {
    match std::fs::metadata(path) {
        Err(_) => Err(MISSING),
        Ok(found) if found.is_dir() => Err(FOLDER),
        Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => Ok(()),
        Ok(_) => Err(NOT_EXECUTABLE),
    }
}
