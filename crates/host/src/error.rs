use std::io;
use std::path::PathBuf;

use heaptrial_model::{Classified, ErrorClass};

/// Why something about the host could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file does not look as the kernel writes it.
    #[error("{path}: expected {expected}, found `{found}`")]
    Parse {
        /// Which file.
        path: PathBuf,
        /// What should have been there.
        expected: &'static str,
        /// What was there.
        found: String,
    },
    /// The process has ended.
    #[error("process {pid} does not exist (any more)")]
    Gone {
        /// Which process.
        pid: i32,
    },
    /// Of a service no process counts.
    #[error("no process of the service of process {pid} is like `{pattern}`")]
    NoneCounts {
        /// Its main process.
        pid: i32,
        /// The pattern.
        pattern: String,
    },
}

impl Classified for HostError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Failed
    }
}

impl HostError {
    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Read { path, source }
    }

    /// Whether the process ended, in which case there is nothing to read any more.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Gone { .. } => true,
            Self::Read { source, .. } => {
                source.kind() == io::ErrorKind::NotFound
                    || source.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
            }
            Self::Parse { .. } | Self::NoneCounts { .. } => false,
        }
    }
}
