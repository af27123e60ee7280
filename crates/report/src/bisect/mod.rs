//! Which release or commit changed the memory, as a document.

mod chart;
mod forms;
mod sentences;

use heaptrial_bisect::{Answer, Change};
use heaptrial_judgement::By;
use serde::{Deserialize, Serialize};

/// The form of [`BisectReport`] as JSON that this version writes.
pub const BISECT_SCHEMA_VERSION: u32 = 1;

/// A search for the change between two builds: `bisect.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BisectReport {
    /// [`BISECT_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Family of the allocator.
    pub family: String,
    /// The older end, which is the control of every block.
    pub older: String,
    /// The newer end.
    pub newer: String,
    /// Whether the older end is the good one.
    pub older_is_good: bool,
    /// What is compared.
    pub by: By,
    /// The reading that it is of, in words.
    pub metric: String,
    /// What holds for every build, such as `purge_delay=0`.
    pub settings: Vec<String>,
    /// Seed of the first block.
    pub seed: u64,
    /// The command that repeats it.
    pub command: String,
    /// Positions of the history, both ends counted.
    pub positions: usize,
    /// Commits between the ends that change nothing that is compiled.
    pub left_out: usize,
    /// Where the line to the newer end leaves what it shares with the older end, if it does not come from that.
    pub forks_at: Option<String>,
    /// Whether positions are commits; else releases.
    pub of_commits: bool,
    /// The confidence that was asked for.
    pub confidence: f64,
    /// Why there is no more, if the search ended early.
    pub stopped: Option<String>,
    /// What was found.
    pub answer: Answer,
    /// One for each of the answer's changes: what it is.
    pub changes: Vec<ChangeReport>,
    /// Positions that were measured, in the order of the history.
    pub measured: Vec<MeasuredPosition>,
    /// Positions that could not be measured.
    pub skipped: Vec<SkippedPosition>,
    /// Positions that build the same file as another, which needs no run: name, and that of the other.
    pub same: Vec<(String, String)>,
    /// Size of the noise of one block (standard deviation of the log ratio).
    pub noise: f64,
    /// Blocks in the order of the runs.
    pub blocks: Vec<BlockReport>,
}

/// A change of the level or the growth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeReport {
    /// The last position that is still as before.
    pub after: String,
    /// The first position that is sure to be changed.
    pub to: String,
    /// The commits in which the change may be, oldest first; one where it was found.
    pub commits: Vec<CommitReport>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitReport {
    /// Its full id.
    pub id: String,
    /// Its day.
    pub day: String,
    /// The first line of its message.
    pub subject: String,
    /// Tags on it.
    pub tags: Vec<String>,
    /// Files that it changed; known of a few commits only.
    pub files: Vec<String>,
    /// Of a merge, how many commits came with it.
    pub merged: Option<usize>,
    /// Why it was not measured, if it could not be.
    pub skipped: Option<String>,
}

/// A position that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPosition {
    /// Where in the history; 0 is the older end.
    pub position: usize,
    /// Its name.
    pub name: String,
    /// Blocks with it.
    pub blocks: usize,
    /// Posterior mean of the log ratio to the older end.
    pub log_ratio: f64,
    /// Its posterior standard deviation.
    pub sd: f64,
}

/// A position that could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkippedPosition {
    /// Where in the history.
    pub position: usize,
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
}

/// A block: the older end and a position, same seed and load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockReport {
    /// Its number, which is that of its folder.
    pub number: usize,
    /// Which position.
    pub position: usize,
    /// Its name.
    pub name: String,
    /// Level of the older end, in bytes.
    pub older_bytes: f64,
    /// Level of the position, in bytes.
    pub bytes: f64,
    /// The log ratio that was measured; of growth, the difference of the logarithms of two factors of growth.
    pub log_ratio: f64,
}

impl BisectReport {
    /// Whether the ends were shown to differ.
    pub fn ends_differ(&self) -> bool {
        !self.answer.changes.is_empty()
    }

    /// The largest change with what it is.
    pub fn main(&self) -> Option<(&Change, &ChangeReport)> {
        Some((self.answer.changes.first()?, self.changes.first()?))
    }

    /// Median level of the older end in bytes.
    fn older_bytes(&self) -> Option<f64> {
        let mut levels: Vec<f64> = self.blocks.iter().map(|block| block.older_bytes).collect();
        levels.sort_by(f64::total_cmp);
        levels.get(levels.len() / 2).copied()
    }
}
