//! Steps of a search over settings.

use heaptrial_search::tune::{ArmFigures, Block, Candidate, Search};
use serde::{Deserialize, Serialize};

use crate::commands::lab::search;

pub(super) type Record = search::Record<Step>;

/// A block as it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Its number, which is that of its folder.
    pub(super) number: usize,
    pub(super) seconds: f64,
    /// Level of the control in bytes.
    pub(super) control_bytes: f64,
    pub(super) control: ArmFigures,
    pub(super) arms: Vec<MeasuredArm>,
}

/// An arm of a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct MeasuredArm {
    /// Position of the candidate in the search, or of the arm in a verification.
    pub(super) at: usize,
    pub(super) spec: String,
    pub(super) level_bytes: f64,
    pub(super) figures: ArmFigures,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub(super) enum Step {
    /// A block was chosen; its candidates by position.
    Chosen { candidates: Vec<Candidate> },
    /// A candidate cannot be had or did not live to the end.
    Failed { candidate: Candidate, spec: String, why: String },
    /// A block of the search.
    Searched { block: Measured },
    /// Who is verified: winners, then what is compared with them. The search is over then.
    Winners { winners: Vec<Winner>, beside: Vec<String> },
    /// A block of the verification.
    Verified { block: Measured, failed: Vec<(usize, String)> },
}

/// A winner as the search believes it to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Winner {
    pub(super) candidate: Candidate,
    pub(super) spec: String,
    /// Log ratio to the control, and its standard deviation.
    pub(super) believed: Option<(f64, f64)>,
}

impl Measured {
    pub(super) fn block(&self) -> Block {
        Block { control: self.control, arms: self.arms.iter().map(|arm| (arm.at, arm.figures)).collect() }
    }
}

impl Step {
    /// Informs a search of it. What is verified is nothing that the search may know.
    pub(super) fn apply(&self, search: &mut Search) {
        match self {
            Self::Chosen { candidates } => candidates.iter().for_each(|candidate| {
                search.position(candidate);
            }),
            Self::Failed { candidate, why, .. } => {
                let at = search.position(candidate);
                search.fail(at, why);
            }
            Self::Searched { block } => search.take(block.block()),
            Self::Winners { .. } | Self::Verified { .. } => {}
        }
    }
}

/// A verification: who, and its blocks so far.
pub(super) struct Verification<'a> {
    pub(super) winners: &'a [Winner],
    pub(super) beside: &'a [String],
    pub(super) blocks: Vec<&'a Measured>,
    pub(super) failed: Vec<&'a (usize, String)>,
}

impl Record {
    /// Candidates of a block that was chosen and not carried out to its end, without those that failed since.
    pub(super) fn chosen(&self) -> Option<Vec<Candidate>> {
        let is_failure = |step: &&Step| matches!(step, Step::Failed { .. });
        let failures = self.steps.iter().rev().take_while(is_failure).count();
        let (before, failures) = self.steps.split_at(self.steps.len() - failures);
        let Some(Step::Chosen { candidates }) = before.last() else { return None };
        let failed = |one: &Candidate| {
            failures.iter().any(|step| matches!(step, Step::Failed { candidate, .. } if candidate == one))
        };
        let left: Vec<Candidate> = candidates.iter().filter(|one| !failed(one)).cloned().collect();
        (!left.is_empty()).then_some(left)
    }

    pub(super) fn searched(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Searched { .. })).count()
    }

    /// The verification, if it has begun.
    pub(super) fn verification(&self) -> Option<Verification<'_>> {
        let (winners, beside) = self.steps.iter().find_map(|step| match step {
            Step::Winners { winners, beside } => Some((winners, beside)),
            _ => None,
        })?;
        let (blocks, failed): (Vec<_>, Vec<_>) = self
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Verified { block, failed } => Some((block, failed)),
                _ => None,
            })
            .unzip();
        let failed = failed.into_iter().flatten().collect();
        Some(Verification { winners, beside, blocks, failed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_chosen_and_not_carried_out_is_not_chosen_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::open(folder.path(), "steps").unwrap();
        let [one, two] = [0, 1].map(|level| Candidate { base: 0, levels: vec![level] });
        let failed = |candidate: &Candidate| Step::Failed {
            candidate: candidate.clone(),
            spec: String::new(),
            why: String::new(),
        };
        assert_eq!(record.chosen(), None);
        record.enter(Step::Chosen { candidates: vec![one.clone(), two.clone()] }).unwrap();
        record.enter(failed(&one)).unwrap();
        assert_eq!(record.chosen(), Some(vec![two.clone()]));
        record.enter(failed(&two)).unwrap();
        assert_eq!(record.chosen(), None);
        record.enter(Step::Chosen { candidates: vec![one] }).unwrap();
        let control = ArmFigures::default();
        let block = Measured { number: 1, seconds: 1.0, control_bytes: 1.0, control, arms: Vec::new() };
        record.enter(Step::Searched { block }).unwrap();
        assert_eq!(record.chosen(), None);
    }
}
