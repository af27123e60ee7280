//! The package file, put together by `dpkg-deb`: the same bytes for the same files.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::tool::Tool;

/// Seconds from 1970 to 2026-01-01: the time of all files.
const TIME: Duration = Duration::from_secs(1_767_225_600);

/// A file of an archive. All belong to root.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Path from the root folder, without a slash in front.
    path: String,
    mode: u32,
    bytes: Vec<u8>,
}

impl Entry {
    pub(super) fn file(path: String, bytes: Vec<u8>) -> Self {
        Self { path: path.trim_start_matches('/').to_owned(), mode: 0o644, bytes }
    }

    pub(super) fn program(path: String, bytes: Vec<u8>) -> Self {
        Self { mode: 0o755, ..Self::file(path, bytes) }
    }

    /// What it takes on a disk, in KiB, rounded up.
    pub(super) fn kibibytes(&self) -> u64 {
        (self.bytes.len() as u64).div_ceil(1024)
    }
}

/// A Debian package of these control files and files.
pub(super) fn debian_package(control: &[Entry], data: &[Entry]) -> io::Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let (root, file) = (folder.path().join("root"), folder.path().join("package.deb"));
    let mut folders = BTreeSet::new();
    for entry in data {
        write(&root, entry, &mut folders)?;
    }
    for entry in control {
        write(&root.join("DEBIAN"), entry, &mut folders)?;
    }
    for folder in folders.iter().filter(|folder| folder.starts_with(&root)) {
        finish(folder, 0o755)?;
    }
    // The default compression, xz, is not the same on machines with other numbers of processors.
    Tool::new("dpkg-deb")
        .args(["--root-owner-group", "-Zgzip", "-z9", "--build"])
        .args([&root, &file])
        .env("SOURCE_DATE_EPOCH", TIME.as_secs().to_string())
        .run()
        .map_err(io::Error::other)?;
    fs::read(file)
}

/// Writes a file, and notes the folders above it.
fn write(root: &Path, entry: &Entry, folders: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let path = root.join(&entry.path);
    folders.extend(path.ancestors().skip(1).map(Path::to_owned));
    fs::create_dir_all(path.parent().unwrap_or(root))?;
    fs::write(&path, &entry.bytes)?;
    finish(&path, entry.mode)
}

/// Sets mode and time, whatever the umask and the clock are.
fn finish(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    File::open(path)?.set_modified(SystemTime::UNIX_EPOCH + TIME)
}
