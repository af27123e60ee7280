//! What can go wrong around a watch.

use std::io;
use std::path::{Path, PathBuf};

use heaptrial_analysis::ForecastError;
use heaptrial_host::HostError;
use heaptrial_host::systemd::SystemdError;
use heaptrial_report::ReportError;
use heaptrial_store::StoreError;

/// Why something about a watch cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// There is none of this name.
    #[error("there is no watch `{name}` on this host ({folder} is missing){}", known_watches(.known))]
    Unknown {
        /// Its name.
        name: String,
        /// Where it would be.
        folder: PathBuf,
        /// Which there are.
        known: Vec<String>,
    },
    /// There is one already.
    #[error(
        "`{name}` is watched already; `heaptrial watch status {name}` tells how it goes, `heaptrial watch stop {name}` ends it"
    )]
    Exists {
        /// Its name.
        name: String,
    },
    /// It cannot be watched as it is.
    #[error("{0}")]
    Refused(String),
    /// A file cannot be read or written.
    #[error("{doing} {path}: {source}")]
    File {
        /// What was tried.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A file of the watch's folder is damaged.
    #[error("{path} is damaged: {problem}; `heaptrial watch stop {name}` ends the watch, then start it anew")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// The watch.
        name: String,
    },
    /// The timer does not run.
    #[error("{timer} did not start: {why}; `systemctl status {timer}` tells more")]
    Timer {
        /// Its unit.
        timer: String,
        /// What systemd says.
        why: String,
    },
    /// A file of the watch on the host is another one now.
    #[error(
        "{path} was changed by somebody else and is left where it is; remove it by hand and repeat the command"
    )]
    Drift {
        /// Which file.
        path: PathBuf,
    },
    /// There is no forecast.
    #[error(transparent)]
    Forecast(#[from] ForecastError),
    /// The host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// systemd.
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    /// The readings.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
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

    /// Whether nothing was changed and the same would be refused again.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Exists { .. } | Self::Refused(_) | Self::Forecast(_))
    }
}
