//! What a container or a machine has of this host.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::cgroup::Cgroups;
use crate::folder::Lock;
use crate::{Base, TestbedError, disk, tree};

/// A folder below the testbed's, with a disk over the base, control groups, and the lock that shows that the owner lives.
/// Dropping it removes all of that.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) cgroups: Cgroups,
    _owner: Lock,
}

impl Place {
    /// `name` is that of the folder, and in the names of the control groups.
    pub(crate) fn new(base: &Base, name: &str, disk_bytes: u64) -> Result<Self, TestbedError> {
        let cgroups = Cgroups::for_container(name)?;
        let (folder, owner) = {
            let _alone = Lock::wait(&base.folder.join("lock"))?;
            create_folder(&base.folder, name)?
        };
        // From here on dropping it undoes what has been done.
        let place = Self { folder, cgroups, _owner: owner };
        let path = cgroups_file(&place.folder);
        let text = serde_json::to_vec(&place.cgroups)
            .map_err(|error| TestbedError::file("cannot write", &path)(error.into()))?;
        fs::write(&path, text).map_err(TestbedError::file("cannot write", &path))?;
        disk::mount_new(&place.folder, base.root(), disk_bytes)?;
        Ok(place)
    }

    pub(crate) fn root(&self) -> PathBuf {
        disk::root(&self.folder)
    }

    pub(crate) fn console_file(&self) -> PathBuf {
        self.folder.join("console")
    }

    pub(crate) fn console(&self) -> String {
        fs::read_to_string(self.console_file()).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.folder, Some(&self.cgroups)) {
            eprintln!("{} could not be removed: {error}", self.folder.display());
        }
    }
}

fn cgroups_file(folder: &Path) -> PathBuf {
    folder.join("cgroups.json")
}

/// Ends all processes and removes control groups, mounts and folder.
fn remove(folder: &Path, cgroups: Option<&Cgroups>) -> Result<(), TestbedError> {
    if let Some(cgroups) = cgroups {
        cgroups.end_all()?;
        cgroups.remove()?;
    }
    disk::unmount(folder)?;
    tree::remove(folder)
}

/// A new folder, and the lock that shows that its owner lives. The caller holds the testbed's lock.
fn create_folder(testbed: &Path, name: &str) -> Result<(PathBuf, Lock), TestbedError> {
    let run = testbed.join("run");
    let folder = run.join(name);
    fs::create_dir_all(&run).map_err(TestbedError::file("cannot create", &run))?;
    fs::create_dir(&folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => TestbedError::Refused(format!("there is a container `{name}` already")),
        _ => TestbedError::file("cannot create", &folder)(error),
    })?;
    let lock = Lock::wait(&folder.join("owner.lock"))?;
    Ok((folder, lock))
}

/// Removes what owners have left that ended without doing so. The caller holds the testbed's lock.
pub(crate) fn remove_leftovers(testbed: &Path) -> Result<(), TestbedError> {
    let run = testbed.join("run");
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
        // Its owner may have come no further than making the folder.
        let written = fs::read(cgroups_file(&folder)).unwrap_or_default();
        remove(&folder, serde_json::from_slice(&written).ok().as_ref())?;
    }
    Ok(())
}
