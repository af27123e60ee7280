//! Removing folders in which something may be mounted.

use std::fs;
use std::io;
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
    let text = fs::read_to_string(MOUNTS).map_err(TestbedError::file("cannot read", MOUNTS))?;
    let places = text.lines().filter_map(|line| line.split(' ').nth(4));
    // Blanks are octal there (proc_pid_mountinfo(5)).
    let places = places.map(|place| PathBuf::from(place.replace("\\040", " ")));
    Ok(places.filter(|place| place.starts_with(folder)).collect())
}
