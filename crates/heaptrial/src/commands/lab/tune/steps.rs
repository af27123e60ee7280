//! Steps of a search over settings.

use heaptrial_search::tune::{ArmFigures, Block, Candidate, Search};
use serde::{Deserialize, Serialize};

use crate::commands::lab::search;
use crate::exit::Failure;

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
    /// The candidate, in a block of the search.
    pub(super) candidate: Option<Candidate>,
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
    /// Informs a search of it. What is verified is nothing that the search may know. Figures of a candidate that is not the one
    /// at its place are refused.
    pub(super) fn apply(&self, search: &mut Search) -> Result<(), Failure> {
        match self {
            Self::Chosen { candidates } => candidates.iter().for_each(|candidate| {
                search.position(candidate);
            }),
            Self::Failed { candidate, why, .. } => {
                let at = search.position(candidate);
                search.fail(at, why);
            }
            Self::Searched { block } => {
                let other = |arm: &&MeasuredArm| search.candidates().get(arm.at) != arm.candidate.as_ref();
                if let Some(arm) = block.arms.iter().find(other) {
                    return Err(Failure::refused(format!(
                        "block {} measured {}, which is not what the search has at place {}: steps of two searches are \
                         mixed, or some are missing; begin again in another folder",
                        block.number, arm.spec, arm.at
                    )));
                }
                search.take(block.block());
            }
            Self::Winners { .. } | Self::Verified { .. } => {}
        }
        Ok(())
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

    /// Seconds that all blocks took.
    pub(super) fn seconds(&self) -> f64 {
        self.steps
            .iter()
            .map(|step| match step {
                Step::Searched { block } | Step::Verified { block, .. } => block.seconds,
                _ => 0.0,
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use heaptrial_search::tune::{Base, Level, Limits, Rules, Setting, Space};

    use super::*;

    fn search() -> Search {
        let levels = ["1", "2"].map(|value| Level { value: Some(value.to_owned()), position: None });
        let setting = Setting {
            name: "max".to_owned(),
            levels: levels.into(),
            needs: Vec::new(),
            excludes: Vec::new(),
        };
        let base = Base { name: "m".to_owned(), family: "m".to_owned(), settings: vec![setting] };
        let rules = Rules { limits: Limits::default(), arms: 2, margin: 0.01, error: 0.05, winners: 1 };
        Search::new(Space { bases: vec![base] }, rules, None, 1)
    }

    fn measured(number: usize, at: usize, candidate: Option<usize>) -> Measured {
        let figures = ArmFigures::default();
        let candidate = candidate.map(|level| Candidate { base: 0, levels: vec![level] });
        let arm = MeasuredArm { at, candidate, spec: "m".to_owned(), level_bytes: 1.0, figures };
        Measured { number, seconds: 1.0, control_bytes: 1.0, control: figures, arms: vec![arm] }
    }

    #[test]
    fn figures_are_taken_of_the_candidate_that_was_measured_alone() {
        let mut search = search();
        let candidates = [0, 1].map(|level| Candidate { base: 0, levels: vec![level] }).into();
        Step::Chosen { candidates }.apply(&mut search).unwrap();
        Step::Searched { block: measured(1, 1, Some(1)) }.apply(&mut search).unwrap();
        for (at, candidate) in [(1, Some(0)), (2, Some(1)), (0, None)] {
            let refused = Step::Searched { block: measured(2, at, candidate) }.apply(&mut search);
            assert!(refused.unwrap_err().to_string().contains("block 2 measured m"));
        }
        assert_eq!(search.blocks().len(), 1);
    }

    #[test]
    fn what_was_chosen_and_not_carried_out_is_not_chosen_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::open(folder.path(), "steps").unwrap();
        let [one, two] = [0, 1].map(|level| Candidate { base: 0, levels: vec![level] });
        let failed = |candidate: &Candidate| Step::Failed {
            candidate: candidate.clone(),
            spec: String::new(),
            why: String::new(),
        };
        assert_eq!(record.chosen(), None);
        let chosen = |candidates: Vec<Candidate>| Step::Chosen { candidates };
        record.enter(chosen(vec![one.clone(), two.clone()])).unwrap();
        assert_eq!(record.chosen(), Some(vec![one.clone(), two.clone()]));
        record.enter(failed(&one)).unwrap();
        assert_eq!(record.chosen(), Some(vec![two.clone()]));
        record.enter(failed(&two)).unwrap();
        assert_eq!(record.chosen(), None);
        record.enter(chosen(vec![one])).unwrap();
        record.enter(Step::Searched { block: measured(1, 0, Some(0)) }).unwrap();
        assert_eq!(record.chosen(), None);
    }
}
