//! Where candidates stand, and who wins.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Compared, DropReason, Search};
use crate::tune::figures::{Block, Figure};

/// What is known of a candidate that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    pub candidate: usize,
    pub spec: String,
    pub blocks: usize,
    /// What is believed of the log ratio to the control, and the belief's standard deviation.
    pub believed: Option<(f64, f64)>,
    /// Log ratio of CPU time to the control's as measured.
    pub cpu: Option<f64>,
    /// Whether it was measured by all limits, and keeps them.
    pub within: bool,
    /// Why it is out, if it is.
    pub dropped: Option<DropReason>,
}

impl Standing {
    /// Whether it may win: measured, not out, and within the limits.
    pub(super) fn is_running(&self) -> bool {
        self.dropped.is_none() && self.within && self.blocks > 0
    }
}

impl Search {
    /// Candidates that were tried or are out, best first; those that are out last.
    pub fn standings(&self) -> Vec<Standing> {
        let measured = self.blocks.iter().flat_map(|block| &block.arms).map(|(arm, _)| *arm);
        let all: BTreeSet<usize> = measured.chain(self.dropped.keys().copied()).collect();
        let mut standings = self.standings_of(&all.into_iter().collect::<Vec<_>>());
        let order = |standing: &Standing| standing.believed.map_or(f64::INFINITY, |believed| believed.0);
        standings.sort_by(|a, b| {
            let group = |one: &Standing| (one.dropped.is_some(), !one.within);
            group(a).cmp(&group(b)).then(order(a).total_cmp(&order(b)))
        });
        standings
    }

    pub(super) fn standings_of(&self, candidates: &[usize]) -> Vec<Standing> {
        let model = self.model();
        let limits: Vec<(f64, Option<Compared>)> =
            self.rules.limits.given().map(|(figure, most)| (most, self.compared(figure))).collect();
        let cpu = self.compared(Figure::Cpu);
        let of = |candidate: usize| {
            let measured = |block: &&Block| block.arms.iter().any(|(arm, _)| *arm == candidate);
            let keeps = |(most, compared): &(f64, Option<Compared>)| {
                compared
                    .as_ref()
                    .and_then(|compared| compared.ratio(candidate))
                    .is_some_and(|ratio| ratio <= *most)
            };
            Standing {
                candidate,
                spec: self.name(candidate),
                blocks: self.blocks.iter().filter(measured).count(),
                believed: model
                    .as_ref()
                    .map(|model| model.believed(&self.space, &self.candidates[candidate])),
                cpu: cpu.as_ref().and_then(|cpu| cpu.ratio(candidate)),
                within: limits.iter().all(keeps),
                dropped: self.dropped.get(&candidate).cloned(),
            }
        };
        candidates.iter().map(|candidate| of(*candidate)).collect()
    }

    /// Those that are not out, keep the limits, and are believed to be better than the control; best first.
    pub fn better(&self) -> Vec<Standing> {
        let better = |one: &Standing| one.believed.is_some_and(|believed| believed.0 < 0.0);
        self.standings().into_iter().filter(|one| one.is_running() && better(one)).collect()
    }

    /// Positions of those to verify, best first.
    pub fn winners(&self) -> Vec<usize> {
        let most = self.rules.winners.max(1);
        self.better().into_iter().take(most).map(|standing| standing.candidate).collect()
    }
}
