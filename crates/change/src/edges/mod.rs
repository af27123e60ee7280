//! The edges of the transaction: all that it asks of a host and does to it.
//!
//! [`Disk`], [`Manager`], [`Programs`] and [`Clock`] are as narrow as the steps need them. [`ThisHost`] is the host that
//! the program runs on; the property test has one in memory, which loses what was not synced.

mod disk;
mod programs;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heaptrial_allocator::{IdentifyError, PassedVariables};
use heaptrial_host::Scope;
use heaptrial_host::systemd::{Manager, Systemd};
use heaptrial_host::trusted::Untrusted;
use heaptrial_model::{Identity, LifeKey};
use heaptrial_relay::Relay;

pub use disk::ThisDisk;
pub use programs::ThisHostsPrograms;
pub(crate) use programs::can_be_asked;

use crate::error::ServiceError;
use crate::files::FileState;

/// Files and folders. A power cut may undo what is not synced: bytes by [`Self::sync`], names by [`Self::sync_folder`].
pub trait Disk {
    /// What is at a path, and the bytes of a regular file; links are not followed.
    fn look(&self, path: &Path) -> io::Result<(FileState, Vec<u8>)>;
    /// The bytes of a file; links are followed.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Whether there is something at a path; links are followed.
    fn exists(&self, path: &Path) -> bool;
    /// Whether nobody but root, and who runs services of this scope, can change what a path leads to.
    fn check_trusted(&self, path: &Path, scope: Scope) -> Result<(), Untrusted>;
    /// Makes a file or a link where nothing is, with all that `state` says.
    fn create(&self, path: &Path, state: &FileState, bytes: &[u8]) -> io::Result<()>;
    /// Adds bytes at the end of a file, which is made if it is missing.
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Cuts a file to a length in bytes; it is made if it is missing.
    fn cut(&self, path: &Path, length: u64) -> io::Result<()>;
    /// Brings a file, with owner, mode and times, to where it lasts.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Gives a file another name, in place of what had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file or a link.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a folder that all may read.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder with all that is in it.
    fn remove_tree(&self, path: &Path) -> io::Result<()>;
    /// Brings the names in a folder to where they last.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, in no order.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Locks a file, which may be missing, until that is dropped or the process ends; `None` if another process has it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn HeldLock>>>;
}

/// A file that is locked.
pub trait HeldLock: std::fmt::Debug {
    /// Replaces what is in it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// Processes, and what the programs in them say of themselves.
pub trait Programs {
    /// The life that a process id stands for now.
    fn life(&self, pid: i32) -> Option<LifeKey>;
    /// Which allocator a process uses; `passed` gives what its service was started with, if the process does not show it.
    fn identify(&self, pid: i32, passed: PassedVariables<'_>) -> Result<Identity, IdentifyError>;
    /// Whether a process runs its service's program, and not the service manager's own code before that.
    fn is_begun(&self, pid: i32) -> bool;
    /// How far a relay has come with its start, in percent; `None` while it does not answer.
    fn bootstrap_percent(&self, relay: &Relay) -> Option<u8>;
    /// Has the relay's own program check what is to be its torrc.
    fn verify_torrc(&self, relay: &Relay, torrc: &[u8]) -> Result<(), ServiceError>;
    /// Whether a relay has its options in force, by its own word where it can be asked.
    fn options_in_force(&self, relay: &Relay, options: &BTreeMap<String, String>)
    -> Result<(), ServiceError>;
    /// The file of the running program.
    fn own_program(&self) -> io::Result<PathBuf>;
    /// Whether a package of the distribution has this file.
    fn is_packaged(&self, path: &Path) -> bool;
}

pub trait Clock {
    /// Since some moment in the past; never goes back while the program runs.
    fn now(&self) -> Duration;
    fn wall_us(&self) -> i64;
    fn sleep(&self, time: Duration);
}

/// The clocks of the kernel.
impl Clock for Instant {
    fn now(&self) -> Duration {
        self.elapsed()
    }

    fn wall_us(&self) -> i64 {
        heaptrial_host::Instant::now().wall_us
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A host as the transaction sees it.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    pub disk: &'a dyn Disk,
    pub manager: &'a dyn Manager,
    pub programs: &'a dyn Programs,
    pub clock: &'a dyn Clock,
}

/// The host that this program runs on.
#[derive(Debug)]
pub struct ThisHost {
    disk: ThisDisk,
    systemd: Systemd,
    programs: ThisHostsPrograms,
    clock: Instant,
}

impl ThisHost {
    /// Over a connection to its systemd.
    pub fn new(systemd: Systemd) -> Self {
        Self { disk: ThisDisk, programs: ThisHostsPrograms::default(), systemd, clock: Instant::now() }
    }

    pub fn systemd(&self) -> &Systemd {
        &self.systemd
    }

    /// As the transaction sees it.
    pub fn host(&self) -> Host<'_> {
        Host { disk: &self.disk, manager: &self.systemd, programs: &self.programs, clock: &self.clock }
    }
}
