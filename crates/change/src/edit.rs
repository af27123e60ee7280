//! Making and undoing the changes of files, and showing what somebody else changed in them.

use std::collections::BTreeMap;
use std::path::Path;

use heaptrial_host::Mark;
use heaptrial_relay::TorrcEdit;
use similar::TextDiff;

use crate::error::ChangeError;
use crate::files::{self, File, FileState};
use crate::journal::{Change, Journal};

/// Of larger files, and of what is no text, only the digests are shown.
const LARGEST_DIFF: usize = 65_536;

/// What has to change so that `wanted` is there; saves what is there now. `is_left`: an ended trial left what is there.
pub(crate) fn plan(wanted: &File, is_left: bool, journal: &Journal<'_>) -> Result<Change, ChangeError> {
    let (before, present) = files::read(journal.disk, &wanted.path)?;
    if before != FileState::Absent && !is_left {
        return Err(foreign(&wanted.path, &before, &present));
    }
    // A killed process is continued from these bytes.
    journal.save_original(&wanted.bytes)?;
    planned(wanted, before, &present, journal)
}

/// What has to change so that a torrc has these options; `left` is what was there before an ended trial's.
pub(crate) fn plan_torrc(
    path: &Path,
    options: &BTreeMap<String, String>,
    mark: &Mark,
    left: Option<&File>,
    journal: &Journal<'_>,
) -> Result<Change, ChangeError> {
    let (before, present) = files::read(journal.disk, path)?;
    let base = left.map_or(&present, |left| &left.bytes);
    let bytes = TorrcEdit::new(&format!("{} {}", mark.name, mark.id), options)
        .and_then(|edit| edit.apply(base))
        .map_err(|why| ChangeError::Failed(format!("{}: {why}", path.display())))?;
    let mut state = before.clone();
    match &mut state {
        FileState::File { sha256, modified_ns, .. } => (*sha256, *modified_ns) = (files::digest(&bytes), 0),
        _ => return Err(not_a_file(path, &before)),
    }
    journal.save_original(&bytes)?;
    planned(&File { path: path.to_owned(), state, bytes }, before, &present, journal)
}

/// The change from what is there, which is saved, to what is wanted.
pub(crate) fn planned(
    wanted: &File,
    before: FileState,
    present: &[u8],
    journal: &Journal<'_>,
) -> Result<Change, ChangeError> {
    if let FileState::File { .. } = before {
        journal.save_original(present)?;
    }
    let made_folders = files::missing_folders(journal.disk, &wanted.path);
    Ok(Change { path: wanted.path.clone(), before, after: wanted.state.clone(), made_folders })
}

/// Makes a change that was announced, with the bytes that were saved; one that is made already is left alone.
pub(crate) fn make(change: &Change, journal: &Journal<'_>) -> Result<(), ChangeError> {
    make_with(change, &journal.original(&change.after)?, journal)
}

/// Makes a change that was announced with these bytes.
pub(crate) fn make_with(change: &Change, wanted: &[u8], journal: &Journal<'_>) -> Result<(), ChangeError> {
    let (present, bytes) = files::read(journal.disk, &change.path)?;
    if present.is_same(&change.after) {
        return Ok(files::settle(journal.disk, &change.path)?);
    }
    if !present.is_same(&change.before) {
        return Err(drift(change, &present, &bytes, &change.before, journal));
    }
    files::make_folders(journal.disk, &change.path)?;
    Ok(files::put(journal.disk, &change.path, &change.after, wanted)?)
}

/// Puts back what was there; what is there already is left alone.
pub(crate) fn undo(change: &Change, journal: &Journal<'_>) -> Result<(), ChangeError> {
    let is_made = is_made(change, journal)?;
    files::remove_leftover(journal.disk, &change.path)?;
    if is_made {
        files::put(journal.disk, &change.path, &change.before, &journal.original(&change.before)?)?;
    } else {
        files::settle(journal.disk, &change.path)?;
    }
    Ok(files::remove_empty_folders(journal.disk, &change.made_folders)?)
}

/// Whether a change is made; where it is not, the file is as before. An error where somebody else changed it.
pub(crate) fn is_made(change: &Change, journal: &Journal<'_>) -> Result<bool, ChangeError> {
    let (present, bytes) = files::read(journal.disk, &change.path)?;
    let is_made = present.is_same(&change.after);
    if is_made || present.is_same(&change.before) {
        return Ok(is_made);
    }
    Err(drift(change, &present, &bytes, &change.after, journal))
}

/// That a file is somebody else's.
pub(crate) fn foreign(path: &Path, state: &FileState, bytes: &[u8]) -> ChangeError {
    if !matches!(state, FileState::File { .. }) {
        return not_a_file(path, state);
    }
    let text = String::from_utf8_lossy(bytes);
    let begins: String = text.lines().next().unwrap_or_default().chars().take(120).collect();
    ChangeError::Failed(format!(
        "{} exists already and this trial did not write it; it begins with `{begins}`. If another trial wrote it, end that one \
         first; if you did, move it away",
        path.display()
    ))
}

fn not_a_file(path: &Path, state: &FileState) -> ChangeError {
    ChangeError::Failed(format!(
        "{} is {} and not a regular file; Heaptrial does not replace it",
        path.display(),
        kind(state)
    ))
}

/// That a file of a change is not as it is known.
pub(crate) fn drift(
    change: &Change,
    present: &FileState,
    bytes: &[u8],
    known: &FileState,
    journal: &Journal<'_>,
) -> ChangeError {
    let known_bytes = journal.original(known).ok();
    let text = known_bytes.as_deref().and_then(|old| std::str::from_utf8(old).ok());
    let mut difference = match (text, std::str::from_utf8(bytes)) {
        (Some(old), Ok(new)) if old.len().max(new.len()) <= LARGEST_DIFF => {
            TextDiff::from_lines(old, new).unified_diff().context_radius(2).to_string()
        }
        _ => String::new(),
    };
    // Also where no line differs: mode or owner do.
    if difference.is_empty() {
        difference = format!("-({})\n+({})\n", described(known), described(present));
    }
    ChangeError::Failed(format!(
        "{} was changed by somebody else since Heaptrial wrote it; it is left as it is. What is there (+) against what \
         Heaptrial knows (-):\n{difference}\nPut it back to either, or remove what was added, and try again",
        change.path.display()
    ))
}

fn described(state: &FileState) -> String {
    match state {
        FileState::File { sha256, mode, uid, gid, .. } => {
            format!("a file with SHA-256 {sha256}, owner {uid}:{gid}, mode {mode:o}")
        }
        other => kind(other).to_owned(),
    }
}

fn kind(state: &FileState) -> &'static str {
    match state {
        FileState::Absent => "missing",
        FileState::File { .. } => "a file",
        FileState::Link { .. } => "a symbolic link",
        FileState::Other => "neither a file nor a link",
    }
}
