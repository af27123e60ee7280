//! One process at a time changes the services of a host.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// Why the host could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else is at it.
    #[error("{holder} is changing services of this host ({path} is locked); wait until it has ended")]
    Held {
        /// The lock's file.
        path: PathBuf,
        /// Who, as far as known.
        holder: String,
    },
    /// The lock's file cannot be used.
    #[error("cannot lock {path}: {source}")]
    File {
        /// The lock's file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What the dead man's timer does is short, and whoever wants the lock then wants to go on from there.
const DEAD_MAN_PATIENCE: Duration = Duration::from_secs(180);
/// The purpose that is waited for.
pub(crate) const DEAD_MAN: &str = "dead-man";
/// How the holder's text begins then.
const DEAD_MAN_HOLDER: &str = "heaptrial trial dead-man ";

/// A held lock. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, after the dead man's timer if that is at work.
    pub fn take_after_dead_man(folder: &Path, purpose: &str) -> Result<Self, LockError> {
        let started = Instant::now();
        loop {
            match Self::take(folder, purpose) {
                Err(LockError::Held { holder, .. })
                    if holder.starts_with(DEAD_MAN_HOLDER) && started.elapsed() < DEAD_MAN_PATIENCE =>
                {
                    std::thread::sleep(Duration::from_millis(200));
                }
                taken => return taken,
            }
        }
    }

    /// Whether somebody holds the lock of a folder now.
    pub fn is_held(folder: &Path) -> bool {
        let Ok(file) = File::open(folder.join("lock")) else { return false };
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    }

    /// Takes the lock in a folder, which is made if it is missing.
    pub fn take(folder: &Path, purpose: &str) -> Result<Self, LockError> {
        let path = folder.join("lock");
        let fail = |source| LockError::File { path: path.clone(), source };
        fs::create_dir_all(folder).map_err(fail)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(fail)?;
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error == rustix::io::Errno::WOULDBLOCK {
                let mut holder = String::new();
                // Only for the message.
                let _ = file.read_to_string(&mut holder);
                let holder =
                    if holder.trim().is_empty() { "another process" } else { holder.trim() }.to_owned();
                return Err(LockError::Held { path, holder });
            }
            return Err(fail(error.into()));
        }
        // What it says is for people; on a full disk the lock holds without it.
        let _ = file.set_len(0);
        let _ = file.rewind();
        let _ = writeln!(file, "heaptrial {purpose} (process {})", std::process::id());
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_told_who_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let held = Lock::take(folder.path(), "trial start five-way").unwrap();
        let error = Lock::take(folder.path(), "trial stop five-way").unwrap_err();
        assert!(error.to_string().contains("trial start five-way"), "{error}");
        drop(held);
        Lock::take(folder.path(), "x").unwrap();
    }
}
