//! What can go wrong around a watch.

use std::io;
use std::path::{Path, PathBuf};

use heaptrial_evaluate::judgement::JudgementError;
use heaptrial_host::HostError;
use heaptrial_host::systemd::SystemdError;
use heaptrial_model::{Classified, ErrorClass};
use heaptrial_store::StoreError;

/// Why something about a watch cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error("`{name}` is watched already")]
    Exists { name: String },
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
    #[error("{doing} {path}: {source}")]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} is damaged: {problem}")]
    Damaged { path: PathBuf, problem: String, name: String },
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    #[error(transparent)]
    Report(#[from] JudgementError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Classified for WatchError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Usage(_) => ErrorClass::Usage,
            Self::Exists { .. } | Self::Refused(_) => ErrorClass::Refused,
            Self::Report(error) => error.class(),
            Self::Store(error) => error.class(),
            Self::Systemd(error) => error.class(),
            Self::Failed(_) | Self::File { .. } | Self::Damaged { .. } | Self::Host(_) => ErrorClass::Failed,
        }
    }
}

impl WatchError {
    /// Around a call of the file system.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { doing, path, source }
    }
}
