use std::io;
use std::path::PathBuf;

use heaptrial_host::HostError;
use heaptrial_model::{Classified, ErrorClass};
use heaptrial_relay::TorError;
use heaptrial_store::StoreError;

use crate::program::ProgramProblem;

/// Why a lab run could not start or go on. What was measured until then is kept.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A file of the run's folder could not be written or read.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// The supervisor of a service could not be started or talked to.
    #[error("{program} could not keep a service: {problem}")]
    Supervisor {
        /// The program that should have.
        program: PathBuf,
        problem: String,
    },
    /// A program that is to be run is none.
    #[error("`{program}` {problem}{hint}")]
    Program {
        program: String,
        /// What is wrong with it.
        problem: ProgramProblem,
        hint: &'static str,
    },
    /// A treatment that this workload cannot apply.
    #[error("arm `{arm}`: {problem}")]
    Treatment {
        arm: String,
        /// What cannot be applied, and why.
        problem: String,
    },
    /// The relays and the load need more open files than a process may have.
    #[error(
        "the load needs {needed} open files, and this process may have {allowed}; raise its limit (ulimit -n {needed}, \
         or LimitNOFILE= of its unit; root can raise it up to fs.nr_open), or take fewer --connections"
    )]
    OpenFiles { needed: u64, allowed: u64 },
    #[error(transparent)]
    Tor(#[from] TorError),
    /// The host could not be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The database could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Classified for LabError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Program { .. } | Self::Treatment { .. } | Self::OpenFiles { .. } => ErrorClass::Refused,
            Self::File { .. } | Self::Supervisor { .. } | Self::Tor(_) | Self::Host(_) | Self::Store(_) => {
                ErrorClass::Failed
            }
        }
    }
}

impl LabError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
