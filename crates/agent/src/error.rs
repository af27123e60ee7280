use std::path::PathBuf;

use heaptrial_model::{Classified, ErrorClass};
use heaptrial_store::StoreError;

/// Why the agent cannot start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Refused(String),
    /// What it would write on nobody else sees.
    #[error(
        "{path} was deleted or replaced while the agent had it open; the next agent samples into what is at this path then"
    )]
    DatabaseGone { path: PathBuf },
    #[error("{0}")]
    Failed(String),
}

impl AgentError {
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Failed(format!("cannot {doing}: {error}"))
    }
}

impl Classified for AgentError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Store(error) => error.class(),
            Self::Refused(_) => ErrorClass::Refused,
            Self::DatabaseGone { .. } | Self::Failed(_) => ErrorClass::Failed,
        }
    }
}
