use std::path::PathBuf;

use heaptrial_host::HostError;
use heaptrial_model::{Classified, ErrorClass};
use heaptrial_store::StoreError;

/// Why the agent cannot start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Host(#[from] HostError),
    /// Another agent is at work.
    #[error("another agent samples into {database} already (it holds {lock}); stop it first")]
    Running {
        database: PathBuf,
        /// The file that it has locked.
        lock: PathBuf,
    },
    /// What it would write on nobody else sees.
    #[error(
        "{path} was deleted or replaced while the agent had it open; the next agent samples into what is at this path then"
    )]
    DatabaseGone { path: PathBuf },
    /// It ended while the database could not be written to.
    #[error(
        "{database} could not be written to until the end: {writes} events, ends of lives and proofs and {ticks} ticks are lost, \
         and the next agent will take what it does not know of for its own absence"
    )]
    Unwritten {
        database: PathBuf,
        /// Small writes, which the log has.
        writes: u64,
        /// Ticks, once for each trial.
        ticks: u64,
    },
    /// The system refuses something that the agent needs.
    #[error("cannot {doing}: {source}")]
    System { doing: String, source: std::io::Error },
}

impl AgentError {
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }
}

impl Classified for AgentError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Store(error) => error.class(),
            Self::Running { .. } => ErrorClass::Refused,
            Self::DatabaseGone { .. } | Self::Unwritten { .. } | Self::Host(_) | Self::System { .. } => {
                ErrorClass::Failed
            }
        }
    }
}
