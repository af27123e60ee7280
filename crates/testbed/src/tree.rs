//! Removing folders in which something may be mounted.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

use crate::TestbedError;

const MOUNTS: &str = "/proc/self/mountinfo";

/// Removes a folder with all that is in it, and nothing that is only mounted there: mounts are undone first. One that is
/// not there is no error.
pub(crate) fn remove(folder: &Path) -> Result<(), TestbedError> {
    // Links above it would hide what is mounted below it.
    let real = match folder.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        real => real.map_err(TestbedError::file("cannot resolve", folder))?,
    };
    for mount in mounts_below(&real)?.iter().rev() {
        unmount(mount, UnmountFlags::DETACH)
            .map_err(|error| TestbedError::file("cannot unmount", mount)(error.into()))?;
    }
    if let Some(left) = mounts_below(&real)?.first() {
        return Err(TestbedError::Refused(format!(
            "{}: something is mounted at {}; unmount it",
            folder.display(),
            left.display()
        )));
    }
    fs::remove_dir_all(&real).map_err(TestbedError::file("cannot remove", folder))
}

/// What this process sees mounted at a folder and below it, in the order in which that was done.
fn mounts_below(folder: &Path) -> Result<Vec<PathBuf>, TestbedError> {
    let text = fs::read(MOUNTS).map_err(TestbedError::file("cannot read", MOUNTS))?;
    let places = text.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    Ok(places.map(unescaped).filter(|place| place.starts_with(folder)).collect())
}

/// A path of mountinfo (proc_pid_mountinfo(5)), in which blanks and backslashes are octal.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let octal = text.get(at + 1..at + 4).filter(|_| text[at] == b'\\');
        let octal = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(text[at]));
        at += if octal.is_some() { 4 } else { 1 };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Entries of a folder whose name contains `part`.
pub(crate) fn entries_with(folder: &Path, part: &str) -> Result<Vec<PathBuf>, TestbedError> {
    let list = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    let entries = list().map_err(TestbedError::file("cannot list", folder))?;
    let has = |path: &PathBuf| {
        let name = path.file_name().map_or(&b""[..], OsStrExt::as_bytes);
        name.windows(part.len()).any(|window| window == part.as_bytes())
    };
    Ok(entries.into_iter().filter(has).collect())
}
