//! The folder of a watch: its plan, its state, its lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::watch::error::WatchError;
use crate::watch::plan::WatchPlan;
use crate::watch::state::WatchState;

const PLAN: &str = "watch.json";
const STATE: &str = "state.json";
const LOCK: &str = "lock";
/// Version of the layout of both.
pub(crate) const SCHEMA_VERSION: u32 = 1;
/// Only root reads what is about its services.
const MODE: u32 = 0o600;

#[derive(Deserialize)]
struct Versioned {
    schema_version: u32,
}

/// The folder of a watch, locked: checks do not run at the same time.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    name: String,
    _lock: File,
}

/// Where watches are, below the folder of what must last.
fn watches(state: &Path) -> PathBuf {
    state.join("watches")
}

/// Names of the watches of this host, in order.
pub fn names(state: &Path) -> Vec<String> {
    let entries = fs::read_dir(watches(state)).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join(PLAN).exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The plan of the watch with this folder, without its lock; `None` where there is none.
pub(crate) fn read_plan(folder: &Path) -> Result<Option<WatchPlan>, WatchError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    read(folder, &name, PLAN)
}

fn read<T: DeserializeOwned>(folder: &Path, name: &str, file: &str) -> Result<Option<T>, WatchError> {
    let path = folder.join(file);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(WatchError::file("reading", &path))?,
    };
    let damaged =
        |problem: String| WatchError::Damaged { path: path.clone(), problem, name: name.to_owned() };
    let found: Versioned = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    if found.schema_version != SCHEMA_VERSION {
        let version = found.schema_version;
        return Err(damaged(format!("its format is {version}, and this program knows {SCHEMA_VERSION}")));
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| damaged(error.to_string()))
}

/// There is no watch of a name.
fn unknown(state: &Path, name: &str) -> WatchError {
    let known = names(state);
    let known = if known.is_empty() { String::new() } else { format!("; there are {}", known.join(", ")) };
    WatchError::Refused(format!("there is no watch `{name}` on this host{known}"))
}

impl Folder {
    /// Makes the folder of a new watch.
    pub fn create(state: &Path, name: &str) -> Result<Self, WatchError> {
        let path = watches(state).join(name);
        if path.join(PLAN).exists() {
            return Err(WatchError::Exists { name: name.to_owned() });
        }
        fs::create_dir_all(&path).map_err(WatchError::file("making", &path))?;
        Self::lock(path, name)
    }

    /// Opens that of an existing watch, and waits until no other process works on it.
    pub fn open(state: &Path, name: &str) -> Result<Self, WatchError> {
        let path = watches(state).join(name);
        if !path.join(PLAN).exists() {
            return Err(unknown(state, name));
        }
        Self::lock(path, name)
    }

    fn lock(path: PathBuf, name: &str) -> Result<Self, WatchError> {
        let file = path.join(LOCK);
        let fail = WatchError::file("locking", &file);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(MODE);
        let lock = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&file);
        let lock = lock.and_then(|lock| {
            flock(&lock, FlockOperation::LockExclusive)?;
            Ok(lock)
        });
        Ok(Self { path, name: name.to_owned(), _lock: lock.map_err(fail)? })
    }

    pub fn plan(&self) -> Result<WatchPlan, WatchError> {
        let gone = || WatchError::Refused(format!("watch `{}` has ended", self.name));
        self.read(PLAN)?.ok_or_else(gone)
    }

    pub fn write_plan(&self, plan: &WatchPlan) -> Result<(), WatchError> {
        self.write(PLAN, plan)
    }

    /// What the last check left.
    pub fn state(&self) -> Result<WatchState, WatchError> {
        Ok(self.read(STATE)?.unwrap_or_default())
    }

    /// Writes what this check leaves.
    pub fn write_state(&self, state: &WatchState) -> Result<(), WatchError> {
        self.write(STATE, state)
    }

    /// Removes it with all that is in it, the plan last: what is cut short can be repeated.
    pub fn remove(self) -> Result<(), WatchError> {
        for file in [STATE, LOCK, PLAN] {
            remove_file(&self.path.join(file))?;
        }
        fs::remove_dir(&self.path).map_err(WatchError::file("removing", &self.path))?;
        if let Some(watches) = self.path.parent() {
            // Others may be in it.
            let _ = fs::remove_dir(watches);
        }
        Ok(())
    }

    fn read<T: DeserializeOwned>(&self, file: &str) -> Result<Option<T>, WatchError> {
        read(&self.path, &self.name, file)
    }

    fn write<T: Serialize>(&self, file: &str, value: &T) -> Result<(), WatchError> {
        let path = self.path.join(file);
        let text = serde_json::to_vec_pretty(value)
            .map_err(|error| WatchError::file("writing", &path)(io::Error::other(error)))?;
        replace(&path, &text, MODE).map_err(WatchError::file("writing", &path))
    }
}

/// Removes a file, which may be gone.
pub(crate) fn remove_file(path: &Path) -> Result<(), WatchError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(WatchError::file("removing", path)(error))
        }
        _ => Ok(()),
    }
}

/// Replaces a file as a whole or not at all; it is on disk when this returns. The file beside has one fixed name: what a
/// killed writer left is overwritten, and does not gather where others read.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let beside = folder.join(format!(".{name}.new"));
    // What a killed writer left; a new file is never written through a link.
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    file.write_all(bytes)?;
    rustix::fs::fchmod(&file, mode.into())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_kept_and_what_is_damaged_or_of_another_version_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let folder = Folder::create(state.path(), "five-way").unwrap();
        assert_eq!(folder.state().unwrap(), WatchState::default());
        let kept = WatchState { checked_at: Some(1.5), ..WatchState::default() };
        fs::write(folder.path.join(".state.json.new"), "of a killed writer").unwrap();
        folder.write_state(&kept).unwrap();
        assert_eq!(folder.state().unwrap(), kept);
        fs::write(folder.path.join(PLAN), "{").unwrap();
        for (text, why) in [("{", "EOF"), (r#"{"schema_version": 2}"#, "its format is 2")] {
            fs::write(folder.path.join(STATE), text).unwrap();
            let error = folder.state().unwrap_err().to_string();
            assert!(error.contains("state.json is damaged") && error.contains(why), "{error}");
        }
        folder.remove().unwrap();
        assert!(!state.path().join("watches").exists());
    }
}
