//! Who is out, and how sure that is.

use std::f64::consts::PI;

use heaptrial_stats::student_quantile;
use serde::{Deserialize, Serialize};

use super::{Compared, Search};
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
fn share(error: f64, block: usize, decisions: usize) -> f64 {
    6.0 * error / (PI * PI * (block.max(1) * block.max(1)) as f64 * decisions.max(1) as f64)
}

/// The least that a difference is, at this error probability; `None` where the noise is not known well enough.
fn least(comparison: &Comparison, arm: usize, other: Option<usize>, share: f64) -> Option<f64> {
    let (_, freedom) = comparison.noise()?;
    if freedom < LEAST_FREEDOM || comparison.measured(arm) < LEAST_BLOCKS {
        return None;
    }
    let (difference, error) = comparison.difference(arm, other);
    Some(difference - student_quantile(freedom as f64, 1.0 - share)? * error?)
}

impl Search {
    /// Who has nothing of a figure that a limit is of is out, as who crashes is.
    fn drop_missing(&mut self) {
        let Some(block) = self.blocks.last() else { return };
        let limits = self.rules.limits.given().filter(|(figure, _)| block.control.get(*figure).is_some());
        let lacks = limits.flat_map(|(figure, _)| {
            let without = block.arms.iter().filter(move |(_, figures)| figures.get(figure).is_none());
            without.map(move |(arm, _)| (*arm, figure))
        });
        for (arm, figure) in lacks.collect::<Vec<_>>() {
            self.drop_out(arm, DropReason::Missing { figure });
        }
    }

    pub(super) fn race(&mut self) {
        self.drop_missing();
        let Some(level) = self.compared(Figure::Level) else { return };
        let limits: Vec<(Figure, f64, Compared)> = self
            .rules
            .limits
            .given()
            .filter_map(|(figure, most)| Some((figure, most, self.compared(figure)?)))
            .collect();
        let alive = |search: &Self| -> Vec<usize> {
            level.arms.iter().copied().filter(|arm| !search.dropped.contains_key(arm)).collect()
        };
        let running = alive(self);
        // Each against every other and the control, and against each limit.
        let share = share(self.rules.error, self.blocks.len(), running.len() + limits.len());
        for arm in &running {
            for (figure, most, compared) in &limits {
                let Some(place) = compared.place(*arm) else { continue };
                if least(&compared.comparison, place, None, share).is_some_and(|least| least > *most) {
                    let log_ratio = compared.comparison.to_control(place);
                    self.drop_out(*arm, DropReason::Limit { figure: *figure, log_ratio });
                }
            }
        }
        let within = self.standings_of(&alive(self)).into_iter().filter(|standing| standing.within);
        let within: Vec<usize> = within.map(|standing| standing.candidate).collect();
        for arm in alive(self) {
            let Some(place) = level.place(arm) else { continue };
            let others = within.iter().filter(|other| **other != arm).map(|other| Some(*other));
            let beaten = others.chain([None]).find_map(|than| {
                // Nobody is dropped for one that is out itself.
                if than.is_some_and(|other| self.dropped.contains_key(&other)) {
                    return None;
                }
                let other = match than {
                    Some(other) => Some(level.place(other)?),
                    None => None,
                };
                // Something as good as the control is not a finding, whatever the margin.
                let margin = if than.is_none() { 0.0 } else { self.rules.margin };
                let least = least(&level.comparison, place, other, share)?;
                (least > -margin).then(|| (than, level.comparison.difference(place, other).0))
            });
            let Some((than, log_ratio)) = beaten else { continue };
            // Of two that are alike, the one that is believed better stays.
            if than.is_none() || log_ratio >= 0.0 {
                let than = than.map(|other| self.name(other));
                self.drop_out(arm, DropReason::Worse { than, log_ratio });
            }
        }
    }
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
