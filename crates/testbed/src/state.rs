//! What is known of a container beyond the process that booted it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroups;
use crate::folder::Lock;
use crate::{TestbedError, disk, tree};

/// A container's folder below the testbed's, and what has to be undone. Written before anything is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    /// Name of the container, of its folder and in the names of its cgroups.
    pub(crate) name: String,
    /// Host path and container path of folders that it sees read-only.
    pub(crate) binds: Vec<(PathBuf, PathBuf)>,
    /// The same of folders that it can write to.
    #[serde(default)]
    pub(crate) shares: Vec<(PathBuf, PathBuf)>,
    /// Limit of what it can write.
    pub(crate) disk_bytes: u64,
    pub(crate) cgroups: Cgroups,
    /// Process id of its systemd, while it runs.
    pub(crate) leader: Option<u32>,
    /// It outlives the process that booted it.
    pub(crate) kept: bool,
}

impl State {
    pub(crate) fn path(folder: &Path) -> PathBuf {
        folder.join("state.json")
    }

    pub(crate) fn read(folder: &Path) -> Result<Self, TestbedError> {
        let path = Self::path(folder);
        let bytes = fs::read(&path).map_err(TestbedError::file("cannot read", &path))?;
        serde_json::from_slice(&bytes).map_err(|error| TestbedError::file("cannot read", path)(error.into()))
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), TestbedError> {
        let path = Self::path(folder);
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| TestbedError::file("cannot write", &path)(error.into()))?;
        // Whoever looks for leftovers meanwhile finds the one before or this one, and not a part of it.
        let whole = path.with_extension("json.new");
        fs::write(&whole, text).map_err(TestbedError::file("cannot write", &whole))?;
        fs::rename(&whole, &path).map_err(TestbedError::file("cannot rename", whole))
    }

    /// Ends all processes of the container and removes its mounts, cgroups and folder.
    pub(crate) fn remove(&self, folder: &Path) -> Result<(), TestbedError> {
        self.cgroups.end_all()?;
        self.cgroups.remove()?;
        disk::unmount(folder)?;
        tree::remove(folder)
    }
}

pub(crate) fn run_folder(testbed: &Path) -> PathBuf {
    testbed.join("run")
}

/// A new container's folder, and the lock that shows that its owner lives. The caller holds the testbed's lock.
pub(crate) fn create_folder(testbed: &Path, name: &str) -> Result<(PathBuf, Lock), TestbedError> {
    let folder = run_folder(testbed).join(name);
    fs::create_dir_all(run_folder(testbed)).map_err(TestbedError::file("cannot create", &folder))?;
    fs::create_dir(&folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => TestbedError::Refused(format!("there is a container `{name}` already")),
        _ => TestbedError::file("cannot create", &folder)(error),
    })?;
    let lock = Lock::wait(&folder.join("owner.lock"))?;
    Ok((folder, lock))
}

/// Removes containers whose owner has ended without doing so. The caller holds the testbed's lock.
pub(crate) fn remove_leftovers(testbed: &Path) -> Result<(), TestbedError> {
    let run = run_folder(testbed);
    let entries = match fs::read_dir(&run) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(TestbedError::file("cannot list", run)(error)),
    };
    for entry in entries {
        let folder = entry.map_err(TestbedError::file("cannot list", &run))?.path();
        let _lock = match Lock::attempt(&folder.join("owner.lock")) {
            Ok(Some(lock)) => lock,
            Ok(None) => continue,
            // Its owner removed it since the folder was listed, which takes no lock of the testbed.
            Err(_) if !folder.exists() => continue,
            Err(error) => return Err(error),
        };
        match State::read(&folder) {
            Ok(state) if state.kept => {}
            Ok(state) => state.remove(&folder)?,
            // Its owner came no further than making the folder.
            Err(_) => tree::remove(&folder)?,
        }
    }
    Ok(())
}
