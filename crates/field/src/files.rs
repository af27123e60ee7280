//! Files as a transaction changes them: read with everything that has to come back, written so that a crash leaves
//! either the old file or the new one.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, Timespec, Timestamps, XattrFlags, futimens};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Why a file could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {path}: {source}")]
pub struct FileError {
    /// What was tried.
    pub doing: &'static str,
    /// On which file.
    pub path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

impl FileError {
    fn new(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { doing, path, source }
    }
}

/// Everything about a file that a revert brings back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// There is none.
    Absent,
    /// A regular file.
    File {
        /// SHA-256 of its bytes in hexadecimal.
        sha256: String,
        /// Permission bits.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Modification time in nanoseconds since 1970; of a file that is yet to be written 0.
        modified_ns: i64,
        /// Extended attributes, name and value in hexadecimal.
        attributes: Vec<(String, String)>,
    },
    /// A symbolic link to this place.
    Link {
        /// Where it points.
        target: PathBuf,
    },
    /// Something that is neither: a folder, a device, a socket.
    Other,
}

impl FileState {
    /// A regular file of root's that all may read.
    pub fn of_root(bytes: &[u8]) -> Self {
        let sha256 = digest(bytes);
        Self::File { sha256, mode: 0o644, uid: 0, gid: 0, modified_ns: 0, attributes: Vec::new() }
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

    /// Reads it, never following a link.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Ok(read(path)?.0)
    }
}

/// SHA-256 in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Reads a file's state and, of a regular file, its bytes. Never follows a link.
pub fn read(path: &Path) -> Result<(FileState, Vec<u8>), FileError> {
    let fail = |doing| FileError::new(doing, path);
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((FileState::Absent, Vec::new())),
        found => found.map_err(fail("reading"))?,
    };
    if found.is_symlink() {
        let target = fs::read_link(path).map_err(fail("reading the link"))?;
        return Ok((FileState::Link { target }, Vec::new()));
    }
    if !found.is_file() {
        return Ok((FileState::Other, Vec::new()));
    }
    let no_follow = OFlags::NOFOLLOW.bits() as i32;
    let mut file =
        fs::OpenOptions::new().read(true).custom_flags(no_follow).open(path).map_err(fail("opening"))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(fail("reading"))?;
    let metadata = file.metadata().map_err(fail("reading"))?;
    let state = FileState::File {
        sha256: digest(&bytes),
        mode: metadata.permissions().mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        modified_ns: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
        attributes: attributes(path).map_err(fail("reading the attributes of"))?,
    };
    Ok((state, bytes))
}

/// Puts a file into a state: what was there is replaced as a whole or not at all, and is on disk when this returns.
/// `bytes` are those of a regular file. Missing folders have to be made before ([`make_folders`]).
pub fn put(path: &Path, state: &FileState, bytes: &[u8]) -> Result<(), FileError> {
    let fail = |doing| FileError::new(doing, path);
    let folder = path.parent().unwrap_or(Path::new("/"));
    let beside = beside(path);
    match state {
        // Its folder may never have been made.
        FileState::Absent if !folder.exists() => return Ok(()),
        FileState::Absent => match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(fail("removing"))?,
        },
        FileState::Other => {
            let kind = io::Error::from(io::ErrorKind::InvalidInput);
            return Err(fail("making something other than a file of")(kind));
        }
        FileState::Link { .. } | FileState::File { .. } => {
            // Of an earlier try that was killed.
            let _ = fs::remove_file(&beside);
            let written = write_beside(&beside, state, bytes)
                .and_then(|()| fs::rename(&beside, path).map_err(fail("renaming to")));
            if let Err(error) = written {
                let _ = fs::remove_file(&beside);
                return Err(error);
            }
        }
    }
    sync_folder(folder).map_err(fail("syncing the folder of"))
}

/// Where the new file is written before it takes the place of the old one.
fn beside(path: &Path) -> PathBuf {
    let name = format!(".{}.heaptrial-new", path.file_name().unwrap_or_default().to_string_lossy());
    path.with_file_name(name)
}

/// Removes what a [`put`] that was killed left beside the file.
pub fn remove_leftover(path: &Path) -> Result<(), FileError> {
    let beside = beside(path);
    match fs::remove_file(&beside) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        removed => removed.map_err(FileError::new("removing", &beside)),
    }
}

fn write_beside(beside: &Path, state: &FileState, bytes: &[u8]) -> Result<(), FileError> {
    let fail = |doing| FileError::new(doing, beside);
    let FileState::File { mode, uid, gid, modified_ns, attributes, .. } = state else {
        let FileState::Link { target } = state else { return Ok(()) };
        return symlink(target, beside).map_err(fail("linking"));
    };
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(beside)
        .map_err(fail("creating"))?;
    file.write_all(bytes).map_err(fail("writing"))?;
    fchown(&file, Some(*uid), Some(*gid)).map_err(fail("changing the owner of"))?;
    file.set_permissions(fs::Permissions::from_mode(*mode)).map_err(fail("changing the mode of"))?;
    for (name, value) in attributes {
        let value = unhex(value).unwrap_or_default();
        rustix::fs::fsetxattr(&file, name, &value, XattrFlags::empty())
            .map_err(|error| fail("setting an attribute of")(error.into()))?;
    }
    if *modified_ns != 0 {
        let time = Timespec {
            tv_sec: modified_ns.div_euclid(1_000_000_000),
            tv_nsec: modified_ns.rem_euclid(1_000_000_000),
        };
        let times = Timestamps { last_access: time, last_modification: time };
        futimens(&file, &times).map_err(|error| fail("setting the times of")(error.into()))?;
    }
    file.sync_all().map_err(fail("syncing"))
}

/// Makes the missing folders above `path`, readable by all; gives those that it made, outermost first.
pub fn make_folders(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let missing = missing_folders(path);
    for folder in &missing {
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(FileError::new("making the folder", folder))?,
        }
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder, mode).map_err(FileError::new("changing the mode of", folder))?;
        let above = folder.parent().unwrap_or(Path::new("/"));
        sync_folder(above).map_err(FileError::new("syncing", above))?;
    }
    Ok(missing)
}

/// The folders above `path` that do not exist, outermost first.
pub fn missing_folders(path: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1).take_while(|folder| !folder.exists());
    let mut missing: Vec<PathBuf> = above.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Removes folders that are empty, innermost first; those that are not, stay.
pub fn remove_empty_folders(folders: &[PathBuf]) -> Result<(), FileError> {
    for folder in folders.iter().rev() {
        match fs::remove_dir(folder) {
            Ok(()) => {
                let above = folder.parent().unwrap_or(Path::new("/"));
                sync_folder(above).map_err(FileError::new("syncing", above))?;
            }
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {}
            Err(error) => return Err(FileError::new("removing the folder", folder)(error)),
        }
    }
    Ok(())
}

/// Makes what was renamed or removed in a folder last through a power cut.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn attributes(path: &Path) -> io::Result<Vec<(String, String)>> {
    let mut names = vec![0_u8; 4096];
    let length = match rustix::fs::llistxattr(path, &mut names[..]) {
        // A file system without attributes.
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        length => length?,
    };
    let mut found = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = String::from_utf8_lossy(name).into_owned();
        let mut value = vec![0_u8; 65_536];
        let length = rustix::fs::lgetxattr(path, &name, &mut value[..])?;
        found.push((name, hex(&value[..length])));
    }
    found.sort();
    Ok(found)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_with_bytes_mode_and_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("torrc");
        fs::write(&path, b"ORPort 1\n\xff").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let (before, bytes) = read(&path).unwrap();
        put(&path, &FileState::of_root(b"new"), b"new").unwrap_or_else(|error| {
            // Giving a file to root takes root.
            assert_eq!(error.source.kind(), io::ErrorKind::PermissionDenied);
        });
        put(&path, &before, &bytes).unwrap();
        assert_eq!(read(&path).unwrap(), (before, bytes));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn absent_links_and_folders_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link");
        assert_eq!(FileState::read(&path).unwrap(), FileState::Absent);
        let link = FileState::Link { target: "../x.timer".into() };
        put(&path, &link, b"").unwrap();
        assert_eq!(FileState::read(&path).unwrap(), link);
        assert_eq!(FileState::read(folder.path()).unwrap(), FileState::Other);
        put(&path, &FileState::Absent, b"").unwrap();
        put(&path, &FileState::Absent, b"").unwrap();
        assert_eq!(FileState::read(&path).unwrap(), FileState::Absent);
    }

    #[test]
    fn only_folders_that_were_made_and_are_empty_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c.conf");
        let made = make_folders(&path).unwrap();
        assert_eq!(made, [folder.path().join("a"), folder.path().join("a/b")]);
        assert_eq!(make_folders(&path).unwrap(), Vec::<PathBuf>::new());
        fs::write(folder.path().join("a/other"), "").unwrap();
        remove_empty_folders(&made).unwrap();
        assert!(folder.path().join("a/other").exists() && !folder.path().join("a/b").exists());
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/file");
        let error = put(&path, &FileState::of_root(b"x"), b"x").unwrap_err();
        assert!(error.to_string().contains("missing/"), "{error}");
    }
}
