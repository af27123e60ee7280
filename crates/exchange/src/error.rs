//! Why an import or an export could not be done.

use std::path::Path;

use heaptrial_model::{Classified, ErrorClass};
use heaptrial_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{0}")]
    Refused(String),
    /// A store of series did not answer, or not as a Prometheus does.
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ImportError {
    pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self::file(path, &format!("cannot be read: {error}"))
    }

    pub(crate) fn file(path: &Path, why: &str) -> Self {
        Self::Refused(format!("{}: {why}", path.display()))
    }
}

impl Classified for ImportError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Refused(_) => ErrorClass::Refused,
            Self::Failed(_) => ErrorClass::Failed,
            Self::Store(error) => error.class(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("writing the export: {0}")]
    Write(#[from] std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Classified for ExportError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Store(error) => error.class(),
            Self::Write(_) => ErrorClass::Failed,
        }
    }
}
