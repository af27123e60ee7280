//! What a search keeps in its folder: what was asked for, the history, and every step.

use std::path::Path;

use heaptrial_allocator::HistoryCommit;
use heaptrial_bisect::{Measurement, Search};
use heaptrial_report::{BisectReport, Document as _};
use serde::{Deserialize, Serialize};

use super::block::MeasuredBlock;
use super::subject::Position;
use crate::commands::lab::search::{self, Started};
use crate::exit::Failure;

/// The form that this version writes.
pub(super) const SCHEMA_VERSION: u32 = 1;
pub(super) const STEPS: &str = "bisect-steps.jsonl";

/// The folder with its steps.
pub(super) type Record = search::Record<Step>;

/// What was asked for, and the history that was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) schema_version: u32,
    pub(super) started: Started,
    pub(super) seed: u64,
    pub(super) older_is_good: bool,
    pub(super) positions: Vec<Position>,
    /// Commits that build nothing new.
    pub(super) left_out: usize,
    /// Whether the older end is not on the line to the newer one.
    pub(super) forks: bool,
    /// The commit that merges it in.
    pub(super) merged_at: Option<HistoryCommit>,
    /// Digest of the build of the older end, which every ratio is to.
    pub(super) older_sha256: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub(super) enum Step {
    Measured {
        #[serde(flatten)]
        block: MeasuredBlock,
        position: usize,
        sha256: String,
    },
    /// A block in which a build did not live to the end; position 0 is the older end.
    Failed { block: usize, position: usize, why: String },
    /// A position that is left out.
    Skipped { position: usize, why: String },
    /// Two positions build the same.
    Same { position: usize, with: usize },
}

impl Step {
    pub(super) fn apply(&self, search: &mut Search) {
        match self {
            Self::Measured { block, position, .. } => {
                search.take(Measurement { position: *position, log_ratio: block.log_ratio });
            }
            Self::Failed { .. } => {}
            Self::Skipped { position, .. } => search.skip(*position),
            Self::Same { position, with } => search.same(*position, *with),
        }
    }
}

impl search::Numbered for Step {
    fn block(&self) -> Option<usize> {
        match self {
            Self::Measured { block, .. } => Some(block.block),
            Self::Failed { block, .. } => Some(*block),
            Self::Skipped { .. } | Self::Same { .. } => None,
        }
    }
}

impl Kept {
    pub(super) fn read(folder: &Path) -> Result<Self, Failure> {
        let kept: Self = search::read_plan(folder, BisectReport::NAME)?;
        if kept.schema_version != SCHEMA_VERSION || kept.positions.len() < 2 {
            let path = folder.join(search::plan_file(BisectReport::NAME));
            return Err(Failure::refused(format!("{} is of another version of Heaptrial", path.display())));
        }
        Ok(kept)
    }
}

impl Record {
    /// Whether a position that failed for this reason is given up: since it was measured last it failed often, or twice in the
    /// same way.
    pub(super) fn is_given_up(&self, at: usize, why: &str) -> bool {
        let measured = |step: &Step| matches!(step, Step::Measured { position, .. } if *position == at);
        let since = self.steps.iter().rposition(measured).map_or(0, |last| last + 1);
        let reasons: Vec<&str> = self.steps[since..]
            .iter()
            .filter_map(|step| match step {
                Step::Failed { position, why, .. } if *position == at => Some(why.as_str()),
                _ => None,
            })
            .collect();
        reasons.len() >= search::TRIES || reasons.iter().filter(|other| **other == why).count() >= 2
    }

    /// How often the older end failed one time after the other until now.
    pub(super) fn failures_in_a_row(&self) -> usize {
        self.steps.iter().rev().take_while(|step| matches!(step, Step::Failed { position: 0, .. })).count()
    }

    /// Positions that were measured, with the digests of their builds.
    pub(super) fn builds(&self) -> impl Iterator<Item = (usize, String)> + '_ {
        self.steps.iter().filter_map(|step| match step {
            Step::Measured { position, sha256, .. } => Some((*position, sha256.clone())),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_only_some_seeds_crash_is_not_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::open(folder.path(), STEPS).unwrap();
        let block = |number| MeasuredBlock { block: number, older_bytes: 1.0, bytes: 2.0, log_ratio: 0.7 };
        let measured = |number| Step::Measured { block: block(number), position: 4, sha256: String::new() };
        let failed = |block, position, why: &str| Step::Failed { block, position, why: why.to_owned() };
        let mut given_up = |step: Step| {
            record.enter(step).unwrap();
            record.is_given_up(4, "crash")
        };
        assert!(!given_up(failed(1, 4, "crash")));
        assert!(!given_up(failed(2, 3, "crash")));
        assert!(!given_up(measured(3)));
        assert!(!given_up(failed(4, 4, "crash")));
        assert!(!given_up(failed(5, 4, "another")));
        assert!(given_up(failed(6, 4, "crash")));
    }
}
