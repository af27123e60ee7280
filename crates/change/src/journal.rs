//! The journal of a transaction: one JSON record a line, on disk before what it announces is done.
//!
//! It is a file of its own beside the samples' database: reverting a fleet must not depend on a database that may be
//! damaged, nor on space for a transaction, and whoever has to revert by hand can read it. A line that was cut by a
//! crash is the last one, announces nothing that was done, and is left out.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use heaptrial_model::{Identity, LifeKey, ServiceName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::edges::{Disk, ThisDisk};
use crate::error::ChangeError;
use crate::files::{self, FileError, FileState, digest};
use crate::state::{Stage, TrialStage};

/// Name of the journal in a trial's folder.
pub const JOURNAL: &str = "journal.jsonl";
/// Folder of saved originals in a trial's folder; each is named by its SHA-256.
const ORIGINALS: &str = "originals";

/// A file that a transaction changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub path: PathBuf,
    pub before: FileState,
    /// What is there once it is done.
    pub after: FileState,
    /// Folders that did not exist before, outermost first.
    pub made_folders: Vec<PathBuf>,
}

/// What a process does with a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Gives services their treatments for the first time.
    Start,
    Resume,
    Revert,
    /// Puts right what a process that is gone left: what the recovery timer runs.
    Recover,
    /// Takes a service out of it.
    Drop,
    /// Ends it; services keep what they run.
    Stop,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Resume => "resumption",
            Self::Revert => "reversion",
            Self::Recover => "recovery",
            Self::Drop => "taking a service out",
            Self::Stop => "end",
        })
    }
}

/// What happens to a service or to the transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Event {
    /// A process began to work on it.
    Opened { action: Action, tool_version: String, pid: u32 },
    /// Files are about to change: those of a service, whose life that ran before is `life`, and which is restarted then;
    /// or those of no single service, such as libraries, the agent's unit and the recovery timer.
    Intent { service: Option<ServiceName>, arm: Option<String>, changes: Vec<Change>, life: Option<LifeKey> },
    /// The life was proved to run what the service's arm wants.
    Committed { service: ServiceName, life: LifeKey, identity: Option<Identity> },
    /// How far a service is put back: it is about to be, `why` if it did not become what its arm wants; its files are as
    /// before, and it runs what it ran; or it could not be put back, and why.
    Revert { service: ServiceName, stage: Stage, why: Option<String> },
    /// A person takes a service out: it is put back, or stays as it is where it is given up. No resume comes to it.
    Dropped { service: ServiceName, given_up: bool },
    /// Something that whoever uses the transaction wants to know later; it is not looked at here.
    Note { note: Value },
    /// The process that worked on it is through at this stage; `why` not everything was done, if it was not.
    Ended { stage: TrialStage, why: Option<String> },
}

/// A record of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub wall_us: i64,
    #[serde(flatten)]
    pub event: Event,
}

/// The journal of one transaction, open for reading and appending.
pub(crate) struct Journal<'a> {
    pub(crate) disk: &'a dyn Disk,
    folder: PathBuf,
    records: Vec<Record>,
    /// Length of the file in bytes: that of its whole records.
    length: u64,
}

impl<'a> Journal<'a> {
    /// Opens the journal in a transaction's folder, which exists; makes an empty one where there is none.
    pub(crate) fn open(disk: &'a dyn Disk, folder: &Path) -> Result<Self, ChangeError> {
        let path = folder.join(JOURNAL);
        let (records, length) = read_records(disk, &path)?;
        let originals = folder.join(ORIGINALS);
        match disk.make_folder(&originals) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(FileError::new("making the folder", &originals))?,
        }
        // A line that a crash cut off would spoil the next one.
        disk.cut(&path, length).map_err(FileError::new("cutting off the torn end of", &path))?;
        disk.sync_folder(folder).map_err(FileError::new("syncing", folder))?;
        Ok(Self { disk, folder: folder.to_owned(), records, length })
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Appends a record; it is on disk when this returns.
    pub(crate) fn append(&mut self, wall_us: i64, event: Event) -> Result<(), ChangeError> {
        let disk = self.disk;
        let record = Record { wall_us, event };
        let path = self.folder.join(JOURNAL);
        let fail = |doing| FileError::new(doing, &path);
        let mut line = serde_json::to_vec(&record).map_err(|error| fail("writing")(error.into()))?;
        line.push(b'\n');
        let written = disk.append(&path, &line).and_then(|()| disk.sync(&path));
        if let Err(error) = written {
            // On a full disk half a line may stand there; the next record must not follow it.
            let _ = disk.cut(&path, self.length);
            return Err(fail("writing the journal")(error).into());
        }
        self.length += line.len() as u64;
        self.records.push(record);
        Ok(())
    }

    /// Saves the bytes of a file before it is changed.
    pub(crate) fn save_original(&self, bytes: &[u8]) -> Result<(), ChangeError> {
        // It may hold what only its owner could read.
        let state = FileState::own(bytes);
        let path = self.folder.join(ORIGINALS).join(digest(bytes));
        match self.original(&state) {
            // A killed process may have saved it, and not brought it to where it lasts.
            Ok(_) => files::settle(self.disk, &path)?,
            Err(_) => files::put(self.disk, &path, &state, bytes)?,
        }
        Ok(())
    }

    /// The saved bytes of a file in this state; of what is no regular file none.
    pub(crate) fn original(&self, state: &FileState) -> Result<Vec<u8>, ChangeError> {
        saved_original(self.disk, &self.folder, state)
    }
}

/// The records of a transaction of this host, without opening its journal for writing.
pub fn read(folder: &Path) -> Result<Vec<Record>, ChangeError> {
    records(&ThisDisk, folder)
}

/// The records of a transaction, without opening its journal for writing.
pub(crate) fn records(disk: &dyn Disk, folder: &Path) -> Result<Vec<Record>, ChangeError> {
    Ok(read_records(disk, &folder.join(JOURNAL))?.0)
}

/// The bytes of an original that was saved in a transaction's folder.
pub(crate) fn saved_original(
    disk: &dyn Disk,
    folder: &Path,
    state: &FileState,
) -> Result<Vec<u8>, ChangeError> {
    let FileState::File { sha256, .. } = state else { return Ok(Vec::new()) };
    let path = folder.join(ORIGINALS).join(sha256);
    match disk.read(&path) {
        Ok(bytes) if digest(&bytes) == *sha256 => Ok(bytes),
        _ => Err(ChangeError::Failed(format!(
            "{}: the saved original is damaged or missing; its SHA-256 should be its name",
            path.display()
        ))),
    }
}

/// The records, and the length of the file up to the last whole one.
fn read_records(disk: &dyn Disk, path: &Path) -> Result<(Vec<Record>, u64), ChangeError> {
    let bytes = match disk.read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.map_err(FileError::new("reading the journal", path))?,
    };
    let mut records = Vec::new();
    let mut length = 0;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        match serde_json::from_slice(line) {
            Ok(record) if line.ends_with(b"\n") => {
                records.push(record);
                length += line.len() as u64;
            }
            // What a process that was cut short left: a part of a line, or one of which a block was never written.
            _ if lines.peek().is_none() && (!line.ends_with(b"\n") || line.contains(&0)) => break,
            Ok(_) => break,
            Err(source) => {
                return Err(ChangeError::Failed(format!(
                    "{}: line {} is damaged ({source}); nothing is changed on the ground of a damaged journal. Compare it with \
                     a copy, or revert by hand: each line before it names the files, and their originals are next to it in \
                     {ORIGINALS}/",
                    path.display(),
                    index + 1
                )));
            }
        }
    }
    Ok((records, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(count: usize) -> (tempfile::TempDir, Vec<Record>) {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(&ThisDisk, folder.path()).unwrap();
        for number in 0..count {
            journal.append(1, Event::Note { note: format!("{number}").into() }).unwrap();
        }
        let records = journal.records().to_vec();
        (folder, records)
    }

    #[test]
    fn a_torn_end_is_left_out_wherever_it_was_torn() {
        let (folder, records) = written(3);
        let path = folder.path().join(JOURNAL);
        let whole = std::fs::read(&path).unwrap();
        let two = whole.len() - whole.len() / 3;
        for length in two..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let mut journal = Journal::open(&ThisDisk, folder.path()).unwrap();
            assert_eq!(journal.records(), &records[..2], "{length}");
            journal.append(1, Event::Note { note: Value::Null }).unwrap();
            assert_eq!(read(folder.path()).unwrap().len(), 3);
        }
    }

    #[test]
    fn a_last_line_that_is_whole_and_damaged_is_refused_and_one_with_an_unwritten_block_is_torn() {
        let (folder, records) = written(3);
        let path = folder.path().join(JOURNAL);
        let whole = std::fs::read(&path).unwrap();
        let last = whole.len() - whole.len() / 3;
        let with = |byte: u8| {
            let mut bytes = whole.clone();
            bytes[last + 10..last + 20].fill(byte);
            std::fs::write(&path, bytes).unwrap();
            Journal::open(&ThisDisk, folder.path())
        };
        let error = with(1).err().unwrap();
        assert!(error.to_string().contains("line 3 is damaged"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap().len(), whole.len(), "nothing is cut off");
        assert_eq!(with(0).unwrap().records(), &records[..2]);
    }
}
