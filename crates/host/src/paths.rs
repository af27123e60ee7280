//! Where Heaptrial keeps things on a host.

use std::path::{Path, PathBuf};

use heaptrial_model::ServiceName;

/// Name of the drop-in that carries a treatment's environment. What sorts after it can undo it.
pub const DROP_IN: &str = "90-heaptrial.conf";

/// The folders in which Heaptrial keeps state, libraries and unit files on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// State that must last: trials with plan, journal and saved originals.
    pub state: PathBuf,
    /// Allocator libraries, and the copy of the program that the recovery timer runs.
    pub libraries: PathBuf,
    /// Unit files of the administrator.
    pub units: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            state: "/var/lib/heaptrial".into(),
            libraries: "/usr/lib/heaptrial".into(),
            units: "/etc/systemd/system".into(),
        }
    }
}

impl Paths {
    /// The folder of a trial.
    pub fn trial(&self, name: &str) -> PathBuf {
        self.state.join("trials").join(name)
    }

    /// The drop-in of a service.
    pub fn drop_in(&self, service: &ServiceName) -> PathBuf {
        self.units.join(format!("{service}.d")).join(DROP_IN)
    }

    /// A unit file of the administrator.
    pub fn unit(&self, name: &str) -> PathBuf {
        self.units.join(name)
    }

    /// The copy of the program.
    pub fn program(&self) -> PathBuf {
        self.libraries.join("bin/heaptrial")
    }

    /// Where allocator libraries are installed.
    pub fn allocators(&self) -> PathBuf {
        self.libraries.join("allocators")
    }

    /// Whether a path is below one of the folders that only Heaptrial writes.
    pub fn owns(&self, path: &Path) -> bool {
        path.starts_with(&self.libraries) || path.starts_with(&self.state)
    }
}
