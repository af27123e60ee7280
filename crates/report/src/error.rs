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
    /// The plan that a trial holds is none.
    #[error("{}: the plan of trial `{trial}` cannot be used: {why}", path.display())]
    Plan {
        /// The database.
        path: PathBuf,
        /// The trial.
        trial: String,
        /// Why.
        why: String,
    },
    /// A stored look that this version cannot read.
    #[error("{}: look {number} cannot be read as it is stored: {why}", path.display())]
    StoredLook {
        /// The database.
        path: PathBuf,
        /// Which look.
        number: u32,
        /// Why.
        why: String,
    },
    /// A look that was not planned.
    #[error("trial `{trial}` has no look {number}; its plan has {looks}")]
    NoLook {
        /// The trial.
        trial: String,
        /// The look that was asked for.
        number: u32,
        /// How many there are.
        looks: usize,
    },
    /// A look at data that do not reach its time.
    #[error(
        "look {number} of trial `{trial}` is of the data until {planned_at}, and {}: nothing was recorded and none of its error spent. \
         Is heaptrial-agent.service active (systemctl status heaptrial-agent.service), and has the disk space? \
         --accept-gap takes the look on the data that there are, and says so in it",
        last_reading(last_at.as_deref())
    )]
    LookGap {
        /// The trial.
        trial: String,
        /// The look that was asked for.
        number: u32,
        /// Its time, RFC 3339 in UTC.
        planned_at: String,
        /// The last reading before, RFC 3339 in UTC.
        last_at: Option<String>,
    },
    /// A look at a trial that ended before it.
    #[error(
        "trial `{trial}` ended at {ended_at}, before its look {number} of {planned_at}: nothing was recorded and none of its error \
         spent. --accept-gap takes the look on the data until the end, and says so in it"
    )]
    LookAfterEnd {
        /// The trial.
        trial: String,
        /// The look that was asked for.
        number: u32,
        /// Its time, RFC 3339 in UTC.
        planned_at: String,
        /// The trial's end, RFC 3339 in UTC.
        ended_at: String,
    },
    /// Looks at what is no field trial.
    #[error("`{trial}` is a {kind}; only a field trial has looks")]
    NotAField {
        /// The trial.
        trial: String,
        /// What it is.
        kind: &'static str,
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
    /// A folder that is to be sent, with something else in it.
    #[error(
        "{} holds {file}, which is no part of a bundle and would be sent with it; nothing was written. Name an empty or new \
         folder with --out",
        folder.display()
    )]
    NotOurs {
        /// The folder.
        folder: PathBuf,
        /// The first such file.
        file: String,
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

fn last_reading(at: Option<&str>) -> String {
    at.map_or_else(
        || "there are no readings before it".to_owned(),
        |at| format!("the last reading before it was at {at}"),
    )
}

fn known_trials(known: &[(i64, String)]) -> String {
    if known.is_empty() {
        return "none at all".to_owned();
    }
    known.iter().map(|(id, name)| format!("{id} (`{name}`)")).collect::<Vec<_>>().join(", ")
}
