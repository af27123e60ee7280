//! Files of a container at one moment, to prove later that they are what they were.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::{Container, TestbedError};

/// Everything below some folders of a container: kinds, modes, owners and content. Times do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    entries: BTreeMap<PathBuf, Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is, with its content.
    pub kind: Kind,
    /// Permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// Kind and content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    File {
        bytes: u64,
        /// Digest of its content, in hexadecimal.
        sha256: String,
    },
    Folder,
    /// A symbolic link with its target.
    Link(PathBuf),
    /// A socket, FIFO or device.
    Other,
}

impl Snapshot {
    /// Reads all files below `folders`; paths that do not exist are left out, and count as absent later.
    pub fn of(container: &Container, folders: &[&str]) -> Result<Self, TestbedError> {
        let mut entries = BTreeMap::new();
        for folder in folders {
            let folder = Path::new(folder);
            let failed = |error: io::Error| container.failed("cannot examine", folder)(error);
            // The last part of the path may be a link, as /lib is.
            let opened = match container.open(folder, OFlags::PATH | OFlags::CLOEXEC) {
                Ok(opened) => opened,
                Err(rustix::io::Errno::NOENT) => continue,
                Err(error) => return Err(failed(error.into())),
            };
            let start = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
            let found = fs::metadata(&start).map_err(failed)?;
            add(&mut entries, &start, folder, &found)
                .map_err(|(path, error)| container.failed("cannot examine", &path)(error))?;
        }
        Ok(Self { entries })
    }

    /// All files by their path inside.
    pub fn entries(&self) -> &BTreeMap<PathBuf, Entry> {
        &self.entries
    }

    /// What is different in `later`, one line for each file, in order of their paths; nothing if all is equal.
    pub fn difference(&self, later: &Self) -> Vec<String> {
        let paths =
            self.entries.keys().chain(later.entries.keys().filter(|p| !self.entries.contains_key(*p)));
        let mut lines: Vec<(&PathBuf, String)> = paths
            .filter_map(|path| {
                let what = match (self.entries.get(path), later.entries.get(path)) {
                    (Some(before), Some(after)) => before.change(after)?,
                    (Some(_), None) => "is gone".to_owned(),
                    _ => "is new".to_owned(),
                };
                Some((path, format!("{}: {what}", path.display())))
            })
            .collect();
        lines.sort();
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

impl Entry {
    fn change(&self, after: &Self) -> Option<String> {
        let mut changes = Vec::new();
        if self.kind != after.kind {
            changes.push(match (&self.kind, &after.kind) {
                (Kind::File { bytes: before, .. }, Kind::File { bytes: after, .. }) if before == after => {
                    format!("other content of {after} bytes")
                }
                (Kind::File { bytes: before, .. }, Kind::File { bytes: after, .. }) => {
                    format!("{before} bytes, now {after}")
                }
                (before, after) => format!("{before:?}, now {after:?}"),
            });
        }
        if self.mode != after.mode {
            changes.push(format!("mode {:04o}, now {:04o}", self.mode, after.mode));
        }
        if (self.uid, self.gid) != (after.uid, after.gid) {
            changes.push(format!("owner {}:{}, now {}:{}", self.uid, self.gid, after.uid, after.gid));
        }
        (!changes.is_empty()).then(|| changes.join("; "))
    }
}

type Failure = (PathBuf, io::Error);

/// Adds the file at `real`, which is `shown` inside, and all below it.
fn add(
    entries: &mut BTreeMap<PathBuf, Entry>,
    real: &Path,
    shown: &Path,
    found: &Metadata,
) -> Result<(), Failure> {
    let failed = |error| (shown.to_owned(), error);
    let file_type = found.file_type();
    let kind = if file_type.is_symlink() {
        Kind::Link(fs::read_link(real).map_err(failed)?)
    } else if file_type.is_dir() {
        Kind::Folder
    } else if file_type.is_file() {
        let mut digest = Sha256::new();
        let mut file = File::open(real).map_err(failed)?;
        let bytes = io::copy(&mut file, &mut digest).map_err(failed)?;
        Kind::File { bytes, sha256: hex::encode(digest.finalize()) }
    } else {
        debug_assert!(
            file_type.is_socket()
                || file_type.is_fifo()
                || file_type.is_char_device()
                || file_type.is_block_device()
        );
        Kind::Other
    };
    let is_folder = kind == Kind::Folder;
    let entry = Entry { kind, mode: found.mode() & 0o7777, uid: found.uid(), gid: found.gid() };
    entries.insert(shown.to_owned(), entry);
    if is_folder {
        for child in fs::read_dir(real).map_err(failed)? {
            let child = child.map_err(|error| (shown.to_owned(), error))?;
            let shown = shown.join(child.file_name());
            let found = match child.metadata() {
                Ok(found) => found,
                // It was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err((shown, error)),
            };
            add(entries, &child.path(), &shown, &found)?;
        }
    }
    Ok(())
}
