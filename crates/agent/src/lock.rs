//! The lock that keeps a second agent from writing the same ticks.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

use crate::{AgentError, Config};

/// Held as long as it is there.
#[derive(Debug)]
pub(crate) struct AgentLock {
    file: File,
    path: PathBuf,
}

impl AgentLock {
    /// Takes it, beside the database.
    pub(crate) fn take(config: &Config) -> Result<Self, AgentError> {
        let mut path = config.database.clone().into_os_string();
        path.push(".agent-lock");
        let path = PathBuf::from(path);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|source| AgentError::File {
                doing: "make the folder",
                path: folder.to_owned(),
                source,
            })?;
        }
        let file = File::create(&path).map_err(|source| AgentError::File {
            doing: "make",
            path: path.clone(),
            source,
        })?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file, path }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(AgentError::Running { database: config.database.clone(), lock: path })
            }
            Err(error) => Err(AgentError::File { doing: "lock", path, source: error.into() }),
        }
    }

    /// Takes it anew where its file was removed or replaced.
    pub(crate) fn renew(&mut self, config: &Config) -> Result<(), AgentError> {
        if !self.is_in_place().unwrap_or(false) {
            *self = Self::take(config)?;
        }
        Ok(())
    }

    fn is_in_place(&self) -> io::Result<bool> {
        let (own, found) = (self.file.metadata()?, fs::metadata(&self.path)?);
        Ok((own.dev(), own.ino()) == (found.dev(), found.ino()))
    }
}
