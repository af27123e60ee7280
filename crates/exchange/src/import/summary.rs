//! What an import did.

use serde::Serialize;

use crate::problem::Problems;

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
}

/// What an import did, and what was decided on the way.
#[derive(Debug, Clone, Serialize)]
pub struct ImportSummary {
    pub trial: String,
    pub trial_id: i64,
    /// Whether an earlier import of this name was replaced.
    pub replaced: bool,
    pub arms: Vec<ArmSummary>,
    /// Services in the arms that were measured.
    pub services: usize,
    /// Services in the files that are in no arm; their readings are not stored.
    pub ungrouped_services: usize,
    pub samples: u64,
    /// Readings that the files have more than once.
    pub duplicate_samples: u64,
    /// Lives whose start was inferred.
    pub lives_inferred: u64,
    /// Lives that began before the first reading.
    pub lives_unknown: u64,
    pub events: usize,
    /// The timezone of times without an offset.
    pub timezone: String,
    /// Times without an offset that were read so; the rows of a collection share one.
    pub local_times: u64,
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
