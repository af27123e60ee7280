//! The file of an open database: whether it is still the one at its path, and copies of it.
//!
//! SQLite goes on with a file that was deleted or replaced under it: whoever has it open reads and writes what nobody
//! else sees, and it is gone with the last of them. So whoever stays looks, and copies while it is still open.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::{Store, StoreError};

/// What is beside a database in WAL mode.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// What stands at the path of an open database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The file that is open; also where that cannot be told.
    Same,
    Gone,
    Replaced,
}

type FileId = (u64, u64);

/// The file that was opened, and those beside it that belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFile {
    main: Option<FileId>,
    beside: [Option<FileId>; 2],
}

impl OpenFile {
    pub(crate) fn at(path: &Path) -> Self {
        Self { main: id(path).ok(), beside: beside(path) }
    }
}

impl Store {
    /// What stands at its path now.
    pub fn place(&mut self) -> Place {
        match id(&self.path) {
            Ok(now) if self.file.main == Some(now) => {
                self.file.beside = beside(&self.path);
                Place::Same
            }
            Ok(_) => Place::Replaced,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Place::Gone
            }
            Err(_) => Place::Same,
        }
    }

    /// Writes the whole database back to its path, where nothing stands any more, and opens it there.
    pub fn put_back(&self) -> Result<Self, StoreError> {
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(copying(&self.path))?;
        }
        let copy = self.copied()?;
        self.remove_beside()?;
        publish(&copy, &self.path).map_err(copying(&self.path))?;
        Self::create(&self.path)
    }

    /// Writes the whole database to a file of its own beside its path, `PATH.lost-1` or the next that is free; gives
    /// which.
    pub fn keep_beside(&self) -> Result<PathBuf, StoreError> {
        let copy = self.copied()?;
        let mut number = 1;
        loop {
            let place = with_suffix(&self.path, &format!(".lost-{number}"));
            match publish(&copy, &place) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                result => return result.map(|()| place.clone()).map_err(copying(&place)),
            }
        }
    }

    /// Removes what is beside its path and belongs to the file that is open: whoever opens another file there would take
    /// it for that one's. What is in it is read through the open files.
    pub fn remove_beside(&self) -> Result<(), StoreError> {
        for (suffix, own) in BESIDE.iter().zip(self.file.beside) {
            let path = with_suffix(&self.path, suffix);
            if own.is_some() && id(&path).ok() == own {
                fs::remove_file(&path).map_err(copying(&path))?;
            }
        }
        Ok(())
    }

    /// Databases that were kept beside this path, by name.
    pub fn kept_beside(path: &Path) -> Vec<PathBuf> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return Vec::new();
        };
        let prefix = format!("{name}.lost-");
        let is_kept =
            |name: &str| name.strip_prefix(&prefix).is_some_and(|number| number.parse::<u64>().is_ok());
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut kept: Vec<PathBuf> = entries
            .filter(|entry| entry.file_name().to_str().is_some_and(is_kept))
            .map(|e| e.path())
            .collect();
        kept.sort();
        kept
    }

    /// A copy on disk, under a name that nobody looks at.
    fn copied(&self) -> Result<PathBuf, StoreError> {
        let place = with_suffix(&self.path, ".copy");
        for suffix in ["", "-journal", "-wal", "-shm"] {
            match fs::remove_file(with_suffix(&place, suffix)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(copying(&place)(error)),
                _ => {}
            }
        }
        let copy = || -> rusqlite::Result<StepResult> {
            let mut to = Connection::open(&place)?;
            Backup::new(&self.connection, &mut to)?.step(-1)
        };
        match copy().map_err(StoreError::query(&place, "copying the database"))? {
            StepResult::Done => {}
            _ => return Err(copying(&place)(io::Error::from(ErrorKind::ResourceBusy))),
        }
        File::open(&place).and_then(|file| file.sync_all()).map_err(copying(&place))?;
        Ok(place)
    }
}

/// Gives a finished copy its name, unless there is something of that name.
fn publish(copy: &Path, place: &Path) -> io::Result<()> {
    fs::hard_link(copy, place)?;
    fs::remove_file(copy)?;
    match place.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn beside(path: &Path) -> [Option<FileId>; 2] {
    BESIDE.map(|suffix| id(&with_suffix(path, suffix)).ok())
}

fn id(path: &Path) -> io::Result<FileId> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn copying(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| match source.kind() {
        ErrorKind::StorageFull => StoreError::DiskFull { path: path.to_owned() },
        _ => StoreError::Copy { path: path.to_owned(), source },
    }
}
