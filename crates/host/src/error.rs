use std::io;
use std::path::PathBuf;

use heaptrial_model::{Classified, ErrorClass};
use rustix::io::Errno;

/// Why something about the host could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: expected {expected}, found `{found}`")]
    Parse { path: PathBuf, expected: &'static str, found: String },
    #[error("process {pid} does not exist (any more)")]
    Gone { pid: i32 },
    #[error("{0}")]
    Failed(String),
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

    /// Whether there is no such file for this program. A control group that is removed while it is read has no device any more.
    pub(crate) fn is_absent(&self) -> bool {
        const ABSENT: [Errno; 5] = [Errno::NOENT, Errno::ACCESS, Errno::PERM, Errno::OPNOTSUPP, Errno::NODEV];
        let absent =
            |source: &io::Error| Errno::from_io_error(source).is_some_and(|errno| ABSENT.contains(&errno));
        matches!(self, Self::Read { source, .. } if absent(source)) || self.is_gone()
    }

    /// Whether the process ended, in which case there is nothing to read any more.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Gone { .. } => true,
            Self::Read { source, .. } => {
                source.kind() == io::ErrorKind::NotFound
                    || source.raw_os_error() == Some(Errno::SRCH.raw_os_error())
            }
            Self::Parse { .. } | Self::Failed(_) => false,
        }
    }
}
