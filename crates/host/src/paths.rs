//! Where Heaptrial keeps things on a host.

use std::path::{Path, PathBuf};

use heaptrial_model::ServiceName;

/// Name of the drop-in that carries a treatment's environment. Drop-ins apply in the order of their names, whatever folder
/// they are in (systemd.unit(5)), and what comes last counts: this one comes after `override.conf`, which is what `systemctl
/// edit` writes.
pub const DROP_IN: &str = "zz-heaptrial.conf";
/// All names that it has had: today's, and the one of version 0.1.0, which may be in force still.
const DROP_INS: [&str; 2] = [DROP_IN, "90-heaptrial.conf"];

/// Whether a file is a drop-in that carries a treatment, by its name.
pub fn is_drop_in(file: &Path) -> bool {
    file.file_name().is_some_and(|name| DROP_INS.iter().any(|own| name == *own))
}

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

    /// The drop-ins that a service can have, of this version and of earlier ones.
    pub fn drop_ins(&self, service: &ServiceName) -> [PathBuf; 2] {
        DROP_INS.map(|name| self.units.join(format!("{service}.d")).join(name))
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
