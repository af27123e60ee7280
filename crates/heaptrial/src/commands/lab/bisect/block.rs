//! A block of the older end and one build.

use std::fmt;

use heaptrial_allocator::Obtained;
use heaptrial_lab::PreparedArm;
use serde::{Deserialize, Serialize};

use super::record::Record;
use super::subject::Subject;
use crate::commands::lab::search::{Bench, Carried, arm};
use crate::exit::Failure;

pub(super) struct Measure<'a> {
    pub(super) bench: Bench<'a>,
    pub(super) seed: u64,
    pub(super) subject: &'a Subject,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct MeasuredBlock {
    pub(super) block: usize,
    /// Level of the older end.
    pub(super) older_bytes: f64,
    pub(super) bytes: f64,
    /// Of the build to the older end.
    pub(super) log_ratio: f64,
}

/// What came of a block.
pub(super) enum Measured {
    Ratio(MeasuredBlock),
    /// The build did not live to the end.
    Failed(usize, String),
    /// The older end did not.
    OlderFailed(usize, String),
    Interrupted,
}

impl fmt::Display for MeasuredBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.block)
    }
}

impl Measure<'_> {
    pub(super) fn measure(
        &self,
        record: &Record,
        position: usize,
        older: &Obtained,
        build: &Obtained,
    ) -> Result<Measured, Failure> {
        let arm_of = |at: usize| arm(&self.subject.positions[at].name, self.subject.spec(at), at == 0);
        let arms = [
            PreparedArm { arm: arm_of(0), obtained: older.clone() },
            PreparedArm { arm: arm_of(position), obtained: build.clone() },
        ];
        let seed = |number: usize| self.seed.wrapping_add(number as u64);
        let Some(Carried { number, judgement, .. }) = self.bench.run(record, seed, &arms)? else {
            return Ok(Measured::Interrupted);
        };
        Ok(match [0, 1].map(|at| judgement.level_of_arm(at)) {
            [Err(why), _] => Measured::OlderFailed(number, why),
            [_, Err(why)] => Measured::Failed(number, why),
            [Ok(older_bytes), Ok(bytes)] => Measured::Ratio(MeasuredBlock {
                block: number,
                older_bytes,
                bytes,
                log_ratio: bytes.ln() - older_bytes.ln(),
            }),
        })
    }
}
