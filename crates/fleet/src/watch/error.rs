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
    /// There is none of this name.
    #[error("there is no watch `{name}` on this host ({folder} is missing){}", known_watches(.known))]
    Unknown { name: String, folder: PathBuf, known: Vec<String> },
    #[error("`{name}` is watched already")]
    Exists { name: String },
    /// It cannot be watched as it is.
    #[error("{0}")]
    Refused(String),
    /// A file cannot be read or written.
    #[error("{doing} {path}: {source}")]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    /// A file of the watch's folder is damaged.
    #[error("{path} is damaged: {problem}")]
    Damaged { path: PathBuf, problem: String, name: String },
    /// A file of the watch's folder was written by a newer version.
    #[error(
        "{path}: layout {found}, this version of Heaptrial knows {known}; use the version that wrote it or a newer one"
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    /// The timer does not run.
    #[error("{timer} did not start: {why}; `systemctl status {timer}` shows more")]
    Timer { timer: String, why: String },
    /// A file of the watch on the host is another one now.
    #[error(
        "{path} was changed by somebody else and is left where it is; remove it by hand and repeat the command"
    )]
    Drift { path: PathBuf },
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
            Self::Unknown { .. } | Self::Exists { .. } | Self::Refused(_) | Self::Newer { .. } => {
                ErrorClass::Refused
            }
            Self::Report(error) => error.class(),
            Self::Store(error) => error.class(),
            Self::Systemd(error) => error.class(),
            Self::File { .. }
            | Self::Damaged { .. }
            | Self::Timer { .. }
            | Self::Drift { .. }
            | Self::Host(_) => ErrorClass::Failed,
        }
    }
}

fn known_watches(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; there are {}", known.join(", ")) }
}

impl WatchError {
    /// Around a call of the file system.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { doing, path, source }
    }
}
