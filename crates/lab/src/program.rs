//! Finding programs.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why a name is no program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramProblem {
    /// There is no file of that name.
    Missing,
    Folder,
    /// It is a file that nobody may execute.
    NotExecutable,
}

impl fmt::Display for ProgramProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "was not found",
            Self::Folder => "is a folder, not a program",
            Self::NotExecutable => {
                "is not executable; chmod +x makes it so, or name its interpreter before it"
            }
        })
    }
}

/// Finds a program as a shell does: by its path, or in the folders of `PATH`.
pub fn find_program(name: &OsStr) -> Result<PathBuf, ProgramProblem> {
    let path = Path::new(name);
    if name.is_empty() {
        return Err(ProgramProblem::Missing);
    }
    if name.as_encoded_bytes().contains(&b'/') {
        check(path)?;
        return Ok(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut problem = ProgramProblem::Missing;
    for candidate in std::env::split_paths(&folders).map(|folder| folder.join(name)) {
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            // What a shell would go on from as well.
            Err(ProgramProblem::Missing | ProgramProblem::Folder) => {}
            Err(found) => problem = found,
        }
    }
    Err(problem)
}

fn check(path: &Path) -> Result<(), ProgramProblem> {
    match std::fs::metadata(path) {
        Err(_) => Err(ProgramProblem::Missing),
        Ok(found) if found.is_dir() => Err(ProgramProblem::Folder),
        Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => Ok(()),
        Ok(_) => Err(ProgramProblem::NotExecutable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        let found = |path: &Path| find_program(path.as_os_str());
        assert_eq!(found(&file), Err(ProgramProblem::NotExecutable));
        assert_eq!(found(folder.path()), Err(ProgramProblem::Folder));
        assert_eq!(found(&folder.path().join("none")), Err(ProgramProblem::Missing));
        assert_eq!(find_program(OsStr::new("")), Err(ProgramProblem::Missing));
        assert_eq!(find_program(OsStr::new("no-such-program-anywhere")), Err(ProgramProblem::Missing));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found(&file), Ok(file.clone()));
        assert!(find_program(OsStr::new("sh")).unwrap().is_absolute());
    }
}
