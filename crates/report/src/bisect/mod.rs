//! Which release or commit changed the memory, as a document.

mod chart;
mod forms;

use heaptrial_search::bisect::Answer;
use serde::{Deserialize, Serialize};

use crate::search::SearchRun;

/// The form of [`BisectReport`] as JSON that this version writes.
pub const BISECT_SCHEMA_VERSION: u32 = 1;

/// A search for the change between two builds: `bisect.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BisectReport {
    pub schema_version: u32,
    pub family: String,
    pub older: String,
    pub newer: String,
    pub older_is_good: bool,
    pub settings: Vec<String>,
    pub positions: usize,
    pub left_out: usize,
    /// Where the line to the newer end leaves what it shares with the older end, if that is not on it.
    pub forks_at: Option<String>,
    pub of_commits: bool,
    pub confidence: f64,
    pub answer: Answer,
    pub changes: Vec<ChangeReport>,
    /// Positions that were measured, in the order of the history.
    pub measured: Vec<MeasuredPosition>,
    pub skipped: Vec<SkippedPosition>,
    pub same: Vec<(String, String)>,
    /// Size of the noise of one block (standard deviation of the log ratio).
    pub noise: f64,
    #[serde(flatten)]
    pub run: SearchRun,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeReport {
    pub after: String,
    pub to: String,
    pub commits: Vec<CommitReport>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitReport {
    pub id: String,
    pub day: String,
    pub subject: String,
    pub tags: Vec<String>,
    pub files: Vec<String>,
    pub skipped: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPosition {
    pub position: usize,
    pub name: String,
    pub blocks: usize,
    /// Posterior mean of the log ratio to the older end.
    pub log_ratio: f64,
    pub sd: f64,
}

/// A position that could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkippedPosition {
    pub position: usize,
    pub name: String,
    pub why: String,
}

impl BisectReport {
    /// Whether the ends were shown to differ.
    pub fn ends_differ(&self) -> bool {
        !self.answer.changes.is_empty()
    }
}

impl MeasuredPosition {
    fn ratio(&self) -> f64 {
        self.log_ratio.exp()
    }

    fn interval(&self) -> [f64; 2] {
        [-2.0, 2.0].map(|deviations| (self.log_ratio + deviations * self.sd).exp())
    }
}
