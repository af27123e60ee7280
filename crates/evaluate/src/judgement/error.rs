//! Why nothing can be said of a trial.

use heaptrial_model::{Classified, ErrorClass};
use heaptrial_store::StoreError;

/// Why a trial could not be judged, or a look not be taken.
#[derive(Debug, thiserror::Error)]
pub enum JudgementError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was asked for is not there, or what is stored cannot be used.
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Refused(String),
    /// A look at data that do not reach its time.
    #[error("{what}: nothing was recorded and none of its error spent.")]
    LookGap { what: String, ended: bool },
}

impl Classified for JudgementError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Store(error) => error.class(),
            Self::LookGap { .. } | Self::Refused(_) => ErrorClass::Refused,
            Self::Failed(_) => ErrorClass::Failed,
        }
    }
}
