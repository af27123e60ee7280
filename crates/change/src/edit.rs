//! Making and undoing the changes of files, and telling drift.

use std::path::{Path, PathBuf};

use heaptrial_relay::{TorrcEdit, TorrcRefusal};
use similar::TextDiff;

use crate::edges::RelayError;
use crate::files::{self, FileError, FileState};
use crate::journal::{Change, Journal, JournalError};
use crate::ledger::Left;
use crate::treatment::{Content, Desired, Mark};

/// Larger files, and what is no text, are told to differ and not how.
const LARGEST_DIFF: usize = 65_536;

/// Why a file is not changed, or not put back.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error(transparent)]
    File(#[from] FileError),
    /// The journal could not be written or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file that only Heaptrial writes is there already, and not by this trial.
    #[error(
        "{path} exists already and this trial did not write it; it begins with `{begins}`. If another trial wrote it, end that one first; if you did, move it away"
    )]
    Foreign { path: PathBuf, begins: String },
    /// Somebody else changed the file meanwhile.
    #[error(
        "{path} was changed by somebody else since Heaptrial wrote it; it is left as it is. What is there (+) against what Heaptrial knows (-):\n{difference}\nPut it back to either, or remove what was added, and try again"
    )]
    Drift { path: PathBuf, difference: String },
    /// The path is not a regular file.
    #[error("{path} is {found} and not a regular file; Heaptrial does not replace it")]
    NotAFile { path: PathBuf, found: &'static str },
    /// A torrc cannot be edited.
    #[error("{path}: {source}")]
    Torrc { path: PathBuf, source: TorrcRefusal },
    /// A relay would not run with the torrc that was to be written.
    #[error("{path}: {source}")]
    Relay { path: PathBuf, source: RelayError },
}

/// A change with the bytes it writes.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) change: Change,
    pub(crate) bytes: Vec<u8>,
}

/// What has to change so that `desired` is there; saves what is there now. `left` is what an ended trial left there.
pub(crate) fn plan(
    desired: &Desired,
    left: Option<&Left>,
    mark: Mark<'_>,
    journal: &Journal<'_>,
) -> Result<Planned, EditError> {
    let path = &desired.path;
    let (before, present) = files::read(journal.disk, path)?;
    let is_free = before == FileState::Absent || left.is_some();
    let (after, bytes) = match &desired.content {
        Content::New(_) | Content::Link(_) if !is_free => return Err(foreign(path, &before, &present)),
        Content::New(bytes) => (FileState::readable(bytes), bytes.clone()),
        Content::Link(target) => (FileState::Link { target: target.clone() }, Vec::new()),
        Content::Origin { state, bytes } => (state.clone(), bytes.clone()),
        Content::Torrc(options) => {
            let FileState::File { mode, uid, gid, attributes, .. } = &before else {
                return Err(EditError::NotAFile { path: path.clone(), found: kind(&before) });
            };
            let marker = format!("{} {}", mark.trial, mark.id);
            let base = left.map_or(&present, |left| &left.bytes);
            let bytes = TorrcEdit::new(&marker, options)
                .and_then(|edit| edit.apply(base))
                .map_err(|source| EditError::Torrc { path: path.clone(), source })?;
            let after = FileState::File {
                sha256: files::digest(&bytes),
                mode: *mode,
                uid: *uid,
                gid: *gid,
                modified_ns: 0,
                attributes: attributes.clone(),
            };
            (after, bytes)
        }
    };
    if let FileState::File { .. } = before {
        journal.save_original(&present)?;
    }
    // A killed process is continued from these bytes.
    journal.save_original(&bytes)?;
    let made_folders = files::missing_folders(journal.disk, path);
    Ok(Planned { change: Change { path: path.clone(), before, after, made_folders }, bytes })
}

/// Makes a change that was announced, with the bytes that were saved; one that is made already is left alone.
pub(crate) fn make(change: &Change, journal: &Journal<'_>) -> Result<(), EditError> {
    make_from(change, journal, |sha256| Ok(journal.original(sha256)?))
}

/// Makes a change that was announced with these bytes.
pub(crate) fn make_with(change: &Change, bytes: &[u8], journal: &Journal<'_>) -> Result<(), EditError> {
    make_from(change, journal, |_| Ok(bytes.to_vec()))
}

fn make_from(
    change: &Change,
    journal: &Journal<'_>,
    wanted: impl FnOnce(&str) -> Result<Vec<u8>, EditError>,
) -> Result<(), EditError> {
    let (present, bytes) = files::read(journal.disk, &change.path)?;
    if present.is_same(&change.after) {
        return Ok(files::settle(journal.disk, &change.path)?);
    }
    if !present.is_same(&change.before) {
        return Err(drift(change, &present, &bytes, &change.before, journal));
    }
    let wanted = match &change.after {
        FileState::File { sha256, .. } => wanted(sha256)?,
        _ => Vec::new(),
    };
    files::make_folders(journal.disk, &change.path)?;
    Ok(files::put(journal.disk, &change.path, &change.after, &wanted)?)
}

/// Puts back what was there; what is there already is left alone.
pub(crate) fn undo(change: &Change, journal: &Journal<'_>) -> Result<(), EditError> {
    let (present, bytes) = files::read(journal.disk, &change.path)?;
    if present.is_same(&change.before) {
        files::remove_leftover(journal.disk, &change.path)?;
        files::settle(journal.disk, &change.path)?;
    } else {
        if !present.is_same(&change.after) {
            return Err(drift(change, &present, &bytes, &change.after, journal));
        }
        files::remove_leftover(journal.disk, &change.path)?;
        let original = match &change.before {
            FileState::File { sha256, .. } => journal.original(sha256)?,
            _ => Vec::new(),
        };
        files::put(journal.disk, &change.path, &change.before, &original)?;
    }
    Ok(files::remove_empty_folders(journal.disk, &change.made_folders)?)
}

/// Whether a change is made.
pub(crate) fn is_made(change: &Change, journal: &Journal<'_>) -> Result<bool, EditError> {
    Ok(files::read(journal.disk, &change.path)?.0.is_same(&change.after))
}

/// Whether a change can be undone: the file is as it was before or after.
pub(crate) fn check_undo(change: &Change, journal: &Journal<'_>) -> Result<(), EditError> {
    let (present, bytes) = files::read(journal.disk, &change.path)?;
    if present.is_same(&change.before) || present.is_same(&change.after) {
        return Ok(());
    }
    Err(drift(change, &present, &bytes, &change.after, journal))
}

/// That a file is somebody else's.
pub(crate) fn foreign(path: &Path, state: &FileState, bytes: &[u8]) -> EditError {
    match state {
        FileState::File { .. } => {
            let text = String::from_utf8_lossy(bytes);
            let begins = text.lines().next().unwrap_or_default().chars().take(120).collect();
            EditError::Foreign { path: path.to_owned(), begins }
        }
        other => EditError::NotAFile { path: path.to_owned(), found: kind(other) },
    }
}

/// That a file of a change is not as it is known.
pub(crate) fn drift(
    change: &Change,
    present: &FileState,
    bytes: &[u8],
    known: &FileState,
    journal: &Journal<'_>,
) -> EditError {
    let known_bytes = match known {
        FileState::File { sha256, .. } => journal.original(sha256).ok(),
        _ => Some(Vec::new()),
    };
    let text = known_bytes.as_deref().and_then(|old| std::str::from_utf8(old).ok());
    let mut difference = match (text, std::str::from_utf8(bytes)) {
        (Some(old), Ok(new)) if old.len().max(new.len()) <= LARGEST_DIFF => {
            TextDiff::from_lines(old, new).unified_diff().context_radius(2).to_string()
        }
        _ => [("-", known), ("+", present)]
            .iter()
            .filter_map(|(sign, state)| digest_line(sign, state))
            .collect(),
    };
    if let (
        FileState::File { mode, uid, gid, .. },
        FileState::File { mode: old_mode, uid: old_uid, gid: old_gid, .. },
    ) = (present, known)
    {
        if (mode, uid, gid) != (old_mode, old_uid, old_gid) {
            difference += &format!(
                "-mode {old_mode:o}, owner {old_uid}:{old_gid}\n+mode {mode:o}, owner {uid}:{gid}\n"
            );
        }
    }
    if !matches!(present, FileState::File { .. }) {
        difference += &format!("+(it is {} now)\n", kind(present));
    }
    EditError::Drift { path: change.path.clone(), difference }
}

/// A file whose bytes cannot be shown.
fn digest_line(sign: &str, state: &FileState) -> Option<String> {
    let FileState::File { sha256, .. } = state else { return None };
    Some(format!("{sign}(a file with SHA-256 {sha256})\n"))
}

fn kind(state: &FileState) -> &'static str {
    match state {
        FileState::Absent => "missing",
        FileState::File { .. } => "a file",
        FileState::Link { .. } => "a symbolic link",
        FileState::Other => "neither a file nor a link",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edges::ThisDisk;

    struct Bed {
        folder: tempfile::TempDir,
        journal: Journal<'static>,
    }

    fn bed() -> Bed {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let journal = Journal::open(&ThisDisk, &state).unwrap();
        Bed { folder, journal }
    }

    impl Bed {
        fn desired(&self) -> Desired {
            let path = self.folder.path().join("tor@a.service.d/zz-heaptrial.conf");
            Desired { path, content: Content::New(b"[Service]\nEnvironment=A=1\n".to_vec()) }
        }

        fn planned(&self) -> Planned {
            plan(&self.desired(), None, Mark { trial: "t", id: "i" }, &self.journal).unwrap()
        }
    }

    // Files of the transaction are root's.
    fn root() -> bool {
        rustix::process::geteuid().is_root()
    }

    #[test]
    fn a_change_is_made_and_undone_as_often_as_one_likes() {
        let bed = bed();
        let planned = bed.planned();
        if !root() {
            return;
        }
        for _ in 0..2 {
            make(&planned.change, &bed.journal).unwrap();
            assert_eq!(std::fs::read(&planned.change.path).unwrap(), planned.bytes);
        }
        for _ in 0..2 {
            undo(&planned.change, &bed.journal).unwrap();
            assert!(!bed.folder.path().join("tor@a.service.d").exists(), "a folder that was made is removed");
        }
    }

    #[test]
    fn what_a_killed_write_left_goes_with_the_change() {
        let bed = bed();
        let planned = bed.planned();
        files::make_folders(&ThisDisk, &planned.change.path).unwrap();
        std::fs::write(planned.change.path.with_file_name(".zz-heaptrial.conf.heaptrial-new"), "half")
            .unwrap();
        undo(&planned.change, &bed.journal).unwrap();
        assert!(!bed.folder.path().join("tor@a.service.d").exists());
    }

    #[test]
    fn drift_is_refused_with_the_difference() {
        let bed = bed();
        let planned = bed.planned();
        if !root() {
            return;
        }
        make(&planned.change, &bed.journal).unwrap();
        std::fs::write(&planned.change.path, "[Service]\nEnvironment=A=2\n").unwrap();
        for error in [
            undo(&planned.change, &bed.journal).unwrap_err(),
            make(&planned.change, &bed.journal).unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(matches!(error, EditError::Drift { .. }) && text.contains("+Environment=A=2"), "{text}");
        }
        assert_eq!(std::fs::read_to_string(&planned.change.path).unwrap(), "[Service]\nEnvironment=A=2\n");
    }

    #[test]
    fn a_file_of_somebody_else_is_not_replaced() {
        let bed = bed();
        let desired = bed.desired();
        std::fs::create_dir_all(desired.path.parent().unwrap()).unwrap();
        std::fs::write(&desired.path, "# mine\n").unwrap();
        let error = plan(&desired, None, Mark { trial: "t", id: "i" }, &bed.journal).unwrap_err();
        assert!(error.to_string().contains("`# mine`"), "{error}");
    }
}
