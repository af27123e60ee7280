//! Why a report could not be made.

use std::io;
use std::path::{Path, PathBuf};

use heaptrial_store::StoreError;

/// Why a report could not be made or written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The database could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database has no such trial.
    #[error("{} has no trial {trial_id}; it has {}", path.display(), known_trials(known))]
    NoTrial {
        /// The database.
        path: PathBuf,
        /// The trial that was asked for.
        trial_id: i64,
        /// The trials that it has: row id and name.
        known: Vec<(i64, String)>,
    },
    /// A trial of a kind that this version knows nothing about.
    #[error("trial {trial_id} in {} is of kind `{kind}`, which this version cannot report on", path.display())]
    Kind {
        /// The database.
        path: PathBuf,
        /// The trial.
        trial_id: i64,
        /// Its kind.
        kind: String,
    },
    /// A time stamp outside the calendar.
    #[error("{}: {microseconds} µs since 1970 is not a date ({what})", path.display())]
    Time {
        /// The database.
        path: PathBuf,
        /// Whose time it is.
        what: &'static str,
        /// The number that was stored.
        microseconds: i64,
    },
    /// A file or folder of the report could not be written.
    #[error("cannot write {}: {source}; the database is untouched, so the report can be made again", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A chart could not be turned into a picture. A bug of Heaptrial.
    #[error("chart `{chart}` could not be drawn as PNG: {reason}")]
    Picture {
        /// The chart.
        chart: &'static str,
        /// What the renderer said.
        reason: String,
    },
    /// The report could not be turned into JSON. A bug of Heaptrial.
    #[error("the report could not be turned into JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl ReportError {
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}

fn known_trials(known: &[(i64, String)]) -> String {
    if known.is_empty() {
        return "none at all".to_owned();
    }
    known.iter().map(|(id, name)| format!("{id} (`{name}`)")).collect::<Vec<_>>().join(", ")
}
