//! Whether the file of an open database is still the one at its path.
//!
//! SQLite goes on with a file that was deleted or replaced under it: what it writes then nobody else sees.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Store;

/// What is beside a database in WAL mode.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// Device and number of a file.
type FileId = (u64, u64);

/// The file that was opened, and those beside it that belong to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenFile {
    main: Option<FileId>,
    beside: [Option<FileId>; 2],
}

impl OpenFile {
    pub(crate) fn at(path: &Path) -> Self {
        Self { main: id(path).ok(), beside: BESIDE.map(|suffix| id(&with_suffix(path, suffix)).ok()) }
    }
}

impl Store {
    /// Whether its file is still at its path; also where that cannot be seen.
    pub fn is_in_place(&self) -> bool {
        match id(&self.path) {
            Ok(found) => self.file.main == Some(found),
            Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        }
    }

    /// Gives up a file that is not in its place any more. What is beside its path and belongs to it is removed: whoever
    /// opens another file there would take it for that one's.
    pub fn abandon(self) -> io::Result<()> {
        for (suffix, own) in BESIDE.iter().zip(self.file.beside) {
            let path = with_suffix(&self.path, suffix);
            if own.is_some() && id(&path).ok() == own {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

fn id(path: &Path) -> io::Result<FileId> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
