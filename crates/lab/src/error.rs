use std::io;
use std::path::PathBuf;

use heaptrial_allocator::CacheError;
use heaptrial_host::HostError;
use heaptrial_model::{Classified, ErrorClass};
use heaptrial_relay::TorError;
use heaptrial_store::StoreError;

/// Why a lab run could not start or go on. What was measured until then is kept.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// It cannot be done here or with these arms.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// The supervisor of a service could not be started or spoken to.
    #[error("{program} could not supervise a service: {problem}")]
    Supervisor { program: PathBuf, problem: String },
    #[error(transparent)]
    Tor(#[from] TorError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl Classified for LabError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Refused(_) => ErrorClass::Refused,
            Self::Cache(error) => error.class(),
            Self::Failed(_)
            | Self::File { .. }
            | Self::Supervisor { .. }
            | Self::Tor(_)
            | Self::Host(_)
            | Self::Store(_) => ErrorClass::Failed,
        }
    }
}

impl LabError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    /// An arm's treatment that a workload cannot apply.
    pub(crate) fn treatment(arm: &str, problem: impl std::fmt::Display) -> Self {
        Self::Refused(format!("arm `{arm}`: {problem}"))
    }
}
