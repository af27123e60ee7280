//! Why somebody could not be notified.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use heaptrial_host::trusted::Untrusted;
use heaptrial_model::{Classified, ErrorClass};

/// Why an alert cannot go through a channel.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    #[error("the hook is empty")]
    NoHook,
    /// It would have to be looked for.
    #[error("the hook's program `{0}` is no absolute path; the timer has no PATH to find it by")]
    HookPath(String),
    #[error("the hook's program {0} is not there")]
    HookMissing(PathBuf),
    /// Others than root can change it.
    #[error("the hook would run as root, and others can change it: {0}")]
    HookUntrusted(Untrusted),
    #[error("{program} cannot be run: {source}")]
    Run { program: String, source: io::Error },
    #[error("{program} ended with {status}")]
    Ended { program: String, status: ExitStatus },
    #[error("{program} took longer than {seconds} s and was ended")]
    TooLong { program: String, seconds: u64 },
    #[error("cannot write {path}: {source}; is its folder there?")]
    Metrics { path: PathBuf, source: io::Error },
}

impl Classified for NotifyError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::NoHook | Self::HookPath(_) | Self::HookMissing(_) => ErrorClass::Usage,
            Self::HookUntrusted(_) => ErrorClass::Refused,
            Self::Run { .. } | Self::Ended { .. } | Self::TooLong { .. } | Self::Metrics { .. } => {
                ErrorClass::Failed
            }
        }
    }
}

impl NotifyError {
    pub(super) fn run(program: &str) -> impl FnOnce(io::Error) -> Self {
        let program = program.to_owned();
        move |source| Self::Run { program, source }
    }
}
