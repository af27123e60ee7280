//! Where everything is.

use std::path::{Path, PathBuf};

use heaptrial_model::ServiceName;
use heaptrial_preflight::DROP_IN;

/// The folders that a field trial reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// State that must last: trials with plan, journal and saved originals.
    pub state: PathBuf,
    /// Allocator libraries, and the copy of the program that the dead man's timer runs.
    pub libraries: PathBuf,
    /// Unit files of the administrator.
    pub units: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            state: "/var/lib/heaptrial".into(),
            libraries: "/usr/lib/heaptrial".into(),
            units: "/etc/systemd/system".into(),
        }
    }
}

impl Places {
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
