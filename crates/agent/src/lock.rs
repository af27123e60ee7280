//! The lock that keeps a second agent from writing the same ticks.

use std::fs::{self, File};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

use crate::{AgentError, Config};

/// Held as long as it is there.
#[derive(Debug)]
pub(crate) struct AgentLock {
    _file: File,
}

impl AgentLock {
    /// Takes it, beside the database.
    pub(crate) fn take(config: &Config) -> Result<Self, AgentError> {
        let mut path = config.database.clone().into_os_string();
        path.push(".agent-lock");
        let path = PathBuf::from(path);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)
                .map_err(AgentError::system(format!("make the folder {}", folder.display())))?;
        }
        let file = File::create(&path).map_err(AgentError::system(format!("make {}", path.display())))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let (database, lock) = (config.database.display(), path.display());
                let why =
                    format!("another agent samples into {database} already (it holds {lock}); stop it first");
                Err(AgentError::Refused(why))
            }
            Err(error) => Err(AgentError::system(format!("lock {}", path.display()))(error.into())),
        }
    }
}
