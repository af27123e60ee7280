//! What an import did.

use serde::Serialize;

use super::labels::{KeptApart, Relabelled};
use crate::problem::Problems;

/// Where the timezone of times without an offset came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimezoneSource {
    Given,
    /// Other times in the events file have this offset.
    OtherTimes,
    /// Nothing tells it: that of the host on which it is imported.
    Host,
    /// Nothing tells it, nor is the host's known: UTC.
    Assumed,
}

/// One arm of an imported trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArmSummary {
    pub name: String,
    /// Whether it is the control.
    pub control: bool,
    /// The allocator that its name or the configuration claims.
    pub claimed_allocator: Option<String>,
    /// Services in its list that were measured.
    pub services: usize,
    /// The arm of which this is an earlier list.
    pub earlier_list_of: Option<String>,
}

/// What an import did, and what was decided on the way.
#[derive(Debug, Clone, Serialize)]
pub struct ImportSummary {
    pub trial: String,
    pub trial_id: i64,
    /// Whether a trial of this name was there and was added to.
    pub updated: bool,
    /// Whether anything in the database was changed.
    pub changed: bool,
    pub arms: Vec<ArmSummary>,
    /// Services in the arms that were measured.
    pub services: usize,
    /// Services in the files that are in no arm; their readings are not stored.
    pub ungrouped_services: usize,
    pub new_samples: u64,
    /// Readings that were in the files or in the database already.
    pub duplicate_samples: u64,
    /// Those of them that the files themselves have more than once.
    pub repeated_samples: u64,
    /// Sums over all services that were added.
    pub new_aggregates: u64,
    /// Lives whose start was inferred.
    pub lives_inferred: u64,
    /// Lives that began before the first reading.
    pub lives_unknown: u64,
    pub events: usize,
    /// The timezone of times without an offset.
    pub timezone: String,
    /// Times without an offset that were read so; the rows of a collection share one.
    pub local_times: u64,
    pub timezone_source: TimezoneSource,
    /// Services under several labels of a server that were taken as one.
    pub relabelled: Vec<Relabelled>,
    /// Services under several labels that look like one, and count apart.
    pub kept_apart: Vec<KeptApart>,
    /// What was wrong with parts of the files.
    pub problems: Problems,
    /// What was decided or left out, in sentences.
    pub notes: Vec<String>,
}

/// Up to eight names, and how many more there are.
pub(crate) fn some_of<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(8);
    let mut shown: Vec<&str> = names.take(8).collect();
    let rest = format!("{more} more");
    if more > 0 {
        shown.push(&rest);
    }
    shown.join(", ")
}
