//! One process at a time changes the services of a host.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::edges::{Clock, Disk, HeldLock};
use crate::error::ChangeError;
use crate::files;
use crate::journal::Action;

/// Name of the lock's file in the folder of what must last.
const LOCK: &str = "lock";
/// What the recovery timer does is short, and whoever wants the lock then wants to go on from there.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(180);
const GAP: Duration = Duration::from_millis(200);

/// Who changes services, and what for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    pub action: Action,
    /// What its changes are for, such as `trial`.
    pub kind: String,
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({} of {} `{}`)", self.pid, self.action, self.kind, self.name)
    }
}

/// A held lock. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _held: Box<dyn HeldLock>,
}

impl Lock {
    /// Takes the lock, after a recovery, and after whoever works on the same and ends within `patience`: it was asked to.
    pub(crate) fn take_after(
        (disk, clock): (&dyn Disk, &dyn Clock),
        folder: &Path,
        holder: &Holder,
        patience: Duration,
    ) -> Result<Self, ChangeError> {
        let began = clock.now();
        let waits_for = |other: &Holder| match other.action {
            Action::Recover => RECOVERY_PATIENCE,
            Action::Start | Action::Resume if (&other.kind, &other.name) == (&holder.kind, &holder.name) => {
                patience
            }
            _ => Duration::ZERO,
        };
        loop {
            match Self::take(disk, folder, holder) {
                Err(ChangeError::Held { holder: Some(other), .. })
                    if clock.now() - began < waits_for(&other) =>
                {
                    clock.sleep(GAP);
                }
                taken => return taken,
            }
        }
    }

    /// Whether somebody holds the lock of a folder of this host now.
    pub fn is_held(folder: &Path) -> bool {
        let Ok(file) = File::open(folder.join(LOCK)) else { return false };
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    }

    /// Who holds the lock of a folder of this host now, where it says so.
    pub fn holder(folder: &Path) -> Option<Holder> {
        if !Self::is_held(folder) {
            return None;
        }
        serde_json::from_slice(&std::fs::read(folder.join(LOCK)).ok()?).ok()
    }

    /// Takes the lock in a folder, which is made if it is missing.
    pub(crate) fn take(disk: &dyn Disk, folder: &Path, holder: &Holder) -> Result<Self, ChangeError> {
        let path = folder.join(LOCK);
        let failed =
            |path: &Path, why| ChangeError::Refused(format!("cannot lock {}: {why}", path.display()));
        files::make_folders(disk, &path).map_err(|error| failed(&error.path, error.source))?;
        let locked = disk.lock(&path).map_err(|why| failed(&path, why))?;
        let Some(mut held) = locked else {
            // Only for the message, and to know whom it is worth waiting for.
            let holder = disk.read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            return Err(ChangeError::Held { path, holder });
        };
        // On a full disk the lock holds without it.
        let _ = serde_json::to_vec(holder).map(|text| held.write(&text));
        Ok(Self { _held: held })
    }
}
