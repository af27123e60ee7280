//! Steps of a search over a history.

use heaptrial_search::bisect::{Measurement, Search};
use serde::{Deserialize, Serialize};

use crate::commands::lab::search;

/// Failures of a build before it is given up.
const TRIES: usize = 3;

pub(super) type Record = search::Record<Step>;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub(super) enum Step {
    Measured {
        block: usize,
        position: usize,
        sha256: String,
        /// Level of the older end.
        older_bytes: f64,
        bytes: f64,
        /// Of the build to the older end.
        log_ratio: f64,
    },
    /// A block in which a build did not live to the end.
    Failed { block: usize, position: usize, why: String },
    /// A position that is excluded.
    Skipped { position: usize, why: String },
    /// Two positions build the same.
    Same { position: usize, with: usize },
}

impl Step {
    pub(super) fn apply(&self, search: &mut Search) {
        match self {
            Self::Measured { position, log_ratio, .. } => {
                search.take(Measurement { position: *position, log_ratio: *log_ratio });
            }
            Self::Failed { .. } => {}
            Self::Skipped { position, .. } => search.skip(*position),
            Self::Same { position, with } => search.same(*position, *with),
        }
    }
}

impl Record {
    /// The position whose last failure is one too many: since it was measured last it failed often, or twice in the same way.
    pub(super) fn given_up(&self) -> Option<(usize, &str)> {
        let Some(Step::Failed { position: at, why, .. }) = self.steps.last() else { return None };
        let measured = |step: &Step| matches!(step, Step::Measured { position, .. } if position == at);
        let since = self.steps.iter().rposition(measured).map_or(0, |last| last + 1);
        let reasons: Vec<&str> = self.steps[since..]
            .iter()
            .filter_map(|step| match step {
                Step::Failed { position, why, .. } if position == at => Some(why.as_str()),
                _ => None,
            })
            .collect();
        let gives_up = reasons.len() >= TRIES || reasons.iter().filter(|other| *other == why).count() >= 2;
        gives_up.then_some((*at, why.as_str()))
    }

    /// Positions that were measured, with the digests of their builds.
    pub(super) fn builds(&self) -> impl Iterator<Item = (usize, &str)> {
        self.steps.iter().filter_map(|step| match step {
            Step::Measured { position, sha256, .. } => Some((*position, sha256.as_str())),
            _ => None,
        })
    }
}

/// The nearest position that is known to build the same file.
pub(super) fn same_build(known: &[(usize, &str)], position: usize, sha256: &str) -> Option<usize> {
    let known = || known.iter().filter(|(at, _)| *at != position);
    let same = known().filter(|(_, digest)| *digest == sha256).map(|(at, _)| *at);
    // Where another build lies between, it was changed and changed back.
    let next_to = |at: &usize| {
        let (from, to) = (*at.min(&position), *at.max(&position));
        known().all(|(other, digest)| *digest == sha256 || *other < from || *other > to)
    };
    same.filter(next_to).min_by_key(|at| at.abs_diff(position))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_only_some_seeds_crash_is_not_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::open(folder.path(), "steps").unwrap();
        let measured = |block| Step::Measured {
            block,
            position: 4,
            sha256: String::new(),
            older_bytes: 1.0,
            bytes: 2.0,
            log_ratio: 0.7,
        };
        let failed = |block, position, why: &str| Step::Failed { block, position, why: why.to_owned() };
        let mut given_up = |step: Step| {
            record.enter(step).unwrap();
            record.given_up().is_some()
        };
        assert!(!given_up(failed(1, 4, "crash")));
        assert!(!given_up(failed(2, 3, "crash")));
        assert!(!given_up(measured(3)));
        assert!(!given_up(failed(4, 4, "crash")));
        assert!(!given_up(failed(5, 4, "another")));
        assert!(given_up(failed(6, 4, "crash")));
    }
}
