//! Who is out, and how sure that is.

use std::f64::consts::PI;

use heaptrial_stats::student_quantile;
use serde::{Deserialize, Serialize};

use crate::tune::comparison::Comparison;
use crate::tune::figures::Figure;

/// Degrees of freedom below which noise counts as unknown: nobody is dropped, and how sure a belief is remains open.
pub const LEAST_FREEDOM: usize = 3;
/// Nor by a single run of its own, which may have been in a mode of its own.
const LEAST_BLOCKS: usize = 2;

/// Why a candidate is out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum DropReason {
    /// Another is shown to be better, or not worse by more than the margin.
    Worse {
        /// Spec of the other candidate; `None` is the control.
        than: Option<String>,
        /// Log ratio of the levels.
        log_ratio: f64,
    },
    /// It is shown to take more than a limit allows.
    Limit {
        figure: Figure,
        /// Log ratio to the control.
        log_ratio: f64,
    },
    /// It has no figure that a limit is of, in a block whose control has it: no work, where the control did some.
    Missing { figure: Figure },
    /// It did not live to the end of a run.
    Failed { message: String },
}

/// What may be dropped at this block: error probability of each decision, one-sided.
///
/// `error` is spent over all blocks that there may ever be, 6/(π²k²) of it at the k-th, so that nothing depends on how many
/// there will be; at a block it is shared by its decisions (Bonferroni).
pub(crate) fn share(error: f64, block: usize, decisions: usize) -> f64 {
    6.0 * error / (PI * PI * (block.max(1) * block.max(1)) as f64 * decisions.max(1) as f64)
}

/// The least that a difference is, at this error probability; `None` where the noise is not known well enough.
pub(crate) fn least(comparison: &Comparison, arm: usize, other: Option<usize>, share: f64) -> Option<f64> {
    let (_, freedom) = comparison.noise()?;
    if freedom < LEAST_FREEDOM || comparison.measured(arm) < LEAST_BLOCKS {
        return None;
    }
    let (difference, error) = comparison.difference(arm, other);
    Some(difference - student_quantile(freedom as f64, 1.0 - share)? * error?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_spent_once_however_many_blocks_there_are() {
        let spent: f64 = (1..100_000).map(|block| share(0.05, block, 7) * 7.0).sum();
        assert!(spent < 0.05 && spent > 0.0499, "{spent}");
    }
}
