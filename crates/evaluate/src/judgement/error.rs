//! Why nothing can be said of a trial.

use std::path::PathBuf;

use heaptrial_model::{Classified, ErrorClass};
use heaptrial_store::StoreError;

/// Why a trial could not be judged, or a look not be taken.
#[derive(Debug, thiserror::Error)]
pub enum JudgementError {
    /// The database could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database has no such trial.
    #[error("{} has no trial {trial_id}; it has {}", path.display(), known_trials(known))]
    NoTrial {
        path: PathBuf,
        /// The trial that was asked for.
        trial_id: i64,
        /// The trials that it has: row id and name.
        known: Vec<(i64, String)>,
    },
    /// The plan that a trial holds is none.
    #[error("{}: the plan of trial `{trial}` cannot be used: {why}", path.display())]
    Plan { path: PathBuf, trial: String, why: String },
    /// A stored look that this version cannot read.
    #[error("{}: look {number} cannot be read as it is stored: {why}", path.display())]
    StoredLook { path: PathBuf, number: u32, why: String },
    /// A look that was not planned.
    #[error("trial `{trial}` has no look {number}; its plan has {looks}")]
    NoLook {
        trial: String,
        /// The look that was asked for.
        number: u32,
        looks: usize,
    },
    /// A look at data that do not reach its time.
    #[error(
        "look {number} of trial `{trial}` is of the data until {planned_at}, and {}: nothing was recorded and none of its \
         error spent.",
        last_reading(last_at.as_deref())
    )]
    LookGap {
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
        "trial `{trial}` ended at {ended_at}, before its look {number} of {planned_at}: nothing was recorded and none of its \
         error spent."
    )]
    LookAfterEnd {
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
    NotAField { trial: String, kind: &'static str },
    /// A time stamp outside the calendar.
    #[error("{}: {microseconds} µs since 1970 is not a date ({what})", path.display())]
    Time {
        path: PathBuf,
        what: &'static str,
        /// The number that was stored.
        microseconds: i64,
    },
}

impl Classified for JudgementError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Store(error) => error.class(),
            Self::LookGap { .. } | Self::LookAfterEnd { .. } | Self::NotAField { .. } => ErrorClass::Refused,
            Self::NoTrial { .. }
            | Self::Plan { .. }
            | Self::StoredLook { .. }
            | Self::NoLook { .. }
            | Self::Time { .. } => ErrorClass::Failed,
        }
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
