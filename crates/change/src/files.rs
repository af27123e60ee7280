//! Files as a transaction changes them: a crash leaves either the old one, with all that belongs to it, or the new one.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::edges::{Disk, ThisDisk};

/// Why a file could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {path}: {source}")]
pub struct FileError {
    pub doing: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl FileError {
    pub(crate) fn new(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { doing, path, source }
    }
}

/// Everything about a file that a revert brings back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    Absent,
    File {
        /// SHA-256 of its bytes in hexadecimal.
        sha256: String,
        mode: u32,
        uid: u32,
        gid: u32,
        /// Modification time in nanoseconds since 1970; of a file that is yet to be written 0.
        modified_ns: i64,
        /// Extended attributes, name and value in hexadecimal.
        attributes: Vec<(String, String)>,
    },
    /// A symbolic link to this place.
    Link {
        target: PathBuf,
    },
    /// Something that is neither: a folder, a device, a socket.
    Other,
}

impl FileState {
    /// A regular file of who runs this program that all may read.
    pub fn readable(bytes: &[u8]) -> Self {
        Self::of_this_user(digest(bytes), 0o644)
    }

    /// A regular file that only who runs this program reads and writes.
    pub(crate) fn own(bytes: &[u8]) -> Self {
        Self::of_this_user(digest(bytes), 0o600)
    }

    /// A regular file of who runs this program. What root makes is the group's of root, too.
    pub(crate) fn of_this_user(sha256: String, mode: u32) -> Self {
        let uid = rustix::process::geteuid();
        let gid = if uid.is_root() { 0 } else { rustix::process::getegid().as_raw() };
        Self::File { sha256, mode, uid: uid.as_raw(), gid, modified_ns: 0, attributes: Vec::new() }
    }

    /// Whether nobody but root and who runs this program can have changed a file in this state.
    pub(crate) fn is_untouched_by_others(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        matches!(self, Self::File { uid, mode, .. } if [0, own].contains(uid) && mode & 0o022 == 0)
    }

    /// Whether a file in this state is what `other` says, times apart. Attributes count where both have some: what the
    /// kernel gives a new file (labels, inherited access lists) is not ours to know.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::File { sha256, mode, uid, gid, attributes, .. },
                Self::File {
                    sha256: sha2, mode: mode2, uid: uid2, gid: gid2, attributes: attributes2, ..
                },
            ) => {
                let same_attributes =
                    attributes.is_empty() || attributes2.is_empty() || attributes == attributes2;
                (sha256, mode, uid, gid) == (sha2, mode2, uid2, gid2) && same_attributes
            }
            (one, other) => one == other,
        }
    }

    /// That of a file of this host; a link is not followed.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Ok(read(&ThisDisk, path)?.0)
    }
}

/// A file as it is to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) state: FileState,
    /// Of a regular file.
    pub(crate) bytes: Vec<u8>,
}

impl File {
    /// A text of who runs this program.
    pub(crate) fn text(path: PathBuf, text: &str) -> Self {
        Self { path, state: FileState::readable(text.as_bytes()), bytes: text.as_bytes().to_vec() }
    }

    pub(crate) fn link(path: PathBuf, target: &str) -> Self {
        Self { path, state: FileState::Link { target: target.into() }, bytes: Vec::new() }
    }
}

pub fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// A file's state and, of a regular file, its bytes. A link is not followed.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<(FileState, Vec<u8>), FileError> {
    disk.look(path).map_err(FileError::new("reading", path))
}

/// Puts a file into a state: what was there is replaced as a whole or not at all, and is on disk when this returns.
/// `bytes` are those of a regular file. Missing folders have to be made before ([`make_folders`]).
pub(crate) fn put(disk: &dyn Disk, path: &Path, state: &FileState, bytes: &[u8]) -> Result<(), FileError> {
    let fail = |doing| FileError::new(doing, path);
    let folder = path.parent().unwrap_or(Path::new("/"));
    let beside = beside(path);
    match state {
        // Its folder may never have been made.
        FileState::Absent if !disk.exists(folder) => return Ok(()),
        FileState::Absent => missing_is_fine(disk.remove(path)).map_err(fail("removing"))?,
        FileState::Other => {
            let kind = io::Error::from(io::ErrorKind::InvalidInput);
            return Err(fail("making something other than a file of")(kind));
        }
        FileState::Link { .. } | FileState::File { .. } => {
            // Of an earlier try that was killed.
            let _ = disk.remove(&beside);
            let written = write_beside(disk, &beside, state, bytes)
                .and_then(|()| disk.rename(&beside, path).map_err(fail("renaming to")));
            if let Err(error) = written {
                let _ = disk.remove(&beside);
                return Err(error);
            }
        }
    }
    disk.sync_folder(folder).map_err(fail("syncing the folder of"))
}

/// Where the new file is written before it takes the place of the old one.
fn beside(path: &Path) -> PathBuf {
    let name = format!(".{}.heaptrial-new", path.file_name().unwrap_or_default().to_string_lossy());
    path.with_file_name(name)
}

/// Makes what was renamed or removed beside a file last; what a killed process did may not have.
pub(crate) fn settle(disk: &dyn Disk, path: &Path) -> Result<(), FileError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    missing_is_fine(disk.sync_folder(folder)).map_err(FileError::new("syncing", folder))
}

/// Removes what a [`put`] that was killed left beside the file; that lasts once the folder is synced.
pub(crate) fn remove_leftover(disk: &dyn Disk, path: &Path) -> Result<(), FileError> {
    let beside = beside(path);
    missing_is_fine(disk.remove(&beside)).map_err(FileError::new("removing", &beside))
}

fn missing_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        removed => removed,
    }
}

fn write_beside(disk: &dyn Disk, beside: &Path, state: &FileState, bytes: &[u8]) -> Result<(), FileError> {
    disk.create(beside, state, bytes).map_err(FileError::new("writing", beside))?;
    match state {
        FileState::File { .. } => disk.sync(beside).map_err(FileError::new("syncing", beside)),
        // A link is nothing but its name.
        _ => Ok(()),
    }
}

/// Makes the missing folders above `path`, readable by all.
pub(crate) fn make_folders(disk: &dyn Disk, path: &Path) -> Result<(), FileError> {
    let missing = missing_folders(disk, path);
    // The last one that is there may have been made by a process that was killed before it lasted.
    if let Some(there) = path.ancestors().nth(missing.len() + 1) {
        settle(disk, there)?;
    }
    for folder in &missing {
        match disk.make_folder(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(FileError::new("making the folder", folder))?,
        }
        let above = folder.parent().unwrap_or(Path::new("/"));
        disk.sync_folder(above).map_err(FileError::new("syncing", above))?;
    }
    Ok(())
}

/// The folders above `path` that do not exist, outermost first.
pub(crate) fn missing_folders(disk: &dyn Disk, path: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1).take_while(|folder| !disk.exists(folder));
    let mut missing: Vec<PathBuf> = above.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Removes folders that are empty, innermost first; those that are not, stay.
pub(crate) fn remove_empty_folders(disk: &dyn Disk, folders: &[PathBuf]) -> Result<(), FileError> {
    for folder in folders.iter().rev() {
        match disk.remove_folder(folder) {
            // One that is gone may be so by a process that was killed before it lasted.
            Ok(()) => settle(disk, folder)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => settle(disk, folder)?,
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) => return Err(FileError::new("removing the folder", folder)(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const DISK: &ThisDisk = &ThisDisk;

    #[test]
    fn a_file_comes_back_with_bytes_mode_and_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("torrc");
        fs::write(&path, b"ORPort 1\n\xff").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let (before, bytes) = read(DISK, &path).unwrap();
        put(DISK, &path, &FileState::readable(b"new"), b"new").unwrap_or_else(|error| {
            // Giving a file to root takes root.
            assert_eq!(error.source.kind(), io::ErrorKind::PermissionDenied);
        });
        put(DISK, &path, &before, &bytes).unwrap();
        assert_eq!(read(DISK, &path).unwrap(), (before, bytes));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
