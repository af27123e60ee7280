//! Files of a container at one moment, to prove later that they are what they were.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::{Container, TestbedError};

/// Everything below some folders of a container: kinds, modes, owners and content, a line for each path. Times do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    entries: BTreeMap<PathBuf, String>,
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

    /// What is different in `later`, one line for each file, in order of their paths; nothing if all is equal.
    pub fn difference(&self, later: &Self) -> Vec<String> {
        let mut paths: Vec<&PathBuf> = self.entries.keys().chain(later.entries.keys()).collect();
        paths.sort();
        paths.dedup();
        let change = |path: &PathBuf| match (self.entries.get(path), later.entries.get(path)) {
            (Some(before), Some(after)) if before == after => None,
            (Some(before), Some(after)) => Some(format!("{}: {before}, now {after}", path.display())),
            (Some(_), None) => Some(format!("{}: is gone", path.display())),
            (None, _) => Some(format!("{}: is new", path.display())),
        };
        paths.into_iter().filter_map(change).collect()
    }
}

type Failure = (PathBuf, io::Error);

/// Adds the file at `real`, which is `shown` inside, and all below it.
fn add(
    entries: &mut BTreeMap<PathBuf, String>,
    real: &Path,
    shown: &Path,
    found: &Metadata,
) -> Result<(), Failure> {
    let failed = |error| (shown.to_owned(), error);
    let file_type = found.file_type();
    let kind = if file_type.is_symlink() {
        format!("link to {}", fs::read_link(real).map_err(failed)?.display())
    } else if file_type.is_dir() {
        "folder".to_owned()
    } else if file_type.is_file() {
        let mut digest = Sha256::new();
        let mut file = File::open(real).map_err(failed)?;
        let bytes = io::copy(&mut file, &mut digest).map_err(failed)?;
        format!("{bytes} bytes {}", hex::encode(&digest.finalize()[..8]))
    } else {
        "socket, FIFO or device".to_owned()
    };
    let (mode, uid, gid) = (found.mode() & 0o7777, found.uid(), found.gid());
    entries.insert(shown.to_owned(), format!("{kind} {mode:04o} {uid}:{gid}"));
    if file_type.is_dir() {
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
