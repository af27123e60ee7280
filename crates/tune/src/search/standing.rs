//! Where candidates stand, and who wins.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Compared, Search};
use crate::figures::{Block, Figure};
use crate::model::Model;
use crate::race::DropReason;

/// What is known of a candidate that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    pub candidate: usize,
    /// Blocks with it.
    pub blocks: usize,
    /// By each goal: what is believed of the log ratio to the control, and the belief's standard deviation.
    pub believed: Vec<(f64, f64)>,
    /// Of each figure that a limit is of: log ratio to the control as measured.
    pub limited: Vec<(Figure, f64)>,
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
    /// Candidates that were tried or are out, best first by the first goal; those that are out last.
    pub fn standings(&self) -> Vec<Standing> {
        let measured = self.blocks.iter().flat_map(|block| &block.arms).map(|(arm, _)| *arm);
        let all: BTreeSet<usize> = measured.chain(self.dropped.keys().copied()).collect();
        let mut standings = self.standings_of(&all.into_iter().collect::<Vec<_>>());
        let order =
            |standing: &Standing| standing.believed.first().map_or(f64::INFINITY, |believed| believed.0);
        standings.sort_by(|a, b| {
            let group = |one: &Standing| (one.dropped.is_some(), !one.within);
            group(a).cmp(&group(b)).then(order(a).total_cmp(&order(b)))
        });
        standings
    }

    pub(super) fn standings_of(&self, candidates: &[usize]) -> Vec<Standing> {
        let models: Vec<Option<Model>> = self.rules.goals.iter().map(|goal| self.model(*goal)).collect();
        let limits: Vec<(Figure, f64, Option<Compared>)> =
            self.rules.limits.given().map(|(figure, most)| (figure, most, self.compared(figure))).collect();
        let of = |candidate: usize| {
            let measured = |block: &&Block| block.arms.iter().any(|(arm, _)| *arm == candidate);
            let limited: Vec<(Figure, f64, f64)> = limits
                .iter()
                .filter_map(|(figure, most, compared)| {
                    let compared = compared.as_ref()?;
                    Some((*figure, *most, compared.comparison.to_control(compared.place(candidate)?)))
                })
                .collect();
            let believed = models.iter().flatten();
            Standing {
                candidate,
                blocks: self.blocks.iter().filter(measured).count(),
                believed: believed
                    .map(|model| model.believed(&self.space, &self.candidates[candidate]))
                    .collect(),
                within: limited.len() == limits.len() && limited.iter().all(|(_, most, ratio)| ratio <= most),
                limited: limited.into_iter().map(|(figure, _, ratio)| (figure, ratio)).collect(),
                dropped: self.dropped.get(&candidate).map(|drop| drop.reason.clone()),
            }
        };
        candidates.iter().map(|candidate| of(*candidate)).collect()
    }

    /// Those that are not out and keep the limits, and than which none is better by all goals; best first by the
    /// first goal.
    pub fn front(&self) -> Vec<Standing> {
        let standings = self.standings();
        let running: Vec<&Standing> = standings.iter().filter(|standing| standing.is_running()).collect();
        let better = |a: &Standing, b: &Standing| {
            let mut pairs = a.believed.iter().zip(&b.believed).map(|(a, b)| (a.0, b.0));
            pairs.clone().all(|(a, b)| a <= b) && pairs.any(|(a, b)| a < b)
        };
        let single = self.rules.goals.len() == 1;
        let beats_control = |standing: &Standing| standing.believed.iter().any(|believed| believed.0 < 0.0);
        let front = running.iter().filter(|standing| {
            beats_control(standing) && (single || !running.iter().any(|other| better(other, standing)))
        });
        front.map(|standing| (*standing).clone()).collect()
    }

    /// Positions of those to verify, best first: of the front the ends and what lies between.
    pub fn winners(&self) -> Vec<usize> {
        let front = self.front();
        let most = self.rules.winners.max(1);
        if front.len() <= most || self.rules.goals.len() == 1 {
            return front.into_iter().take(most).map(|standing| standing.candidate).collect();
        }
        let last = front.len() - 1;
        let spread: BTreeSet<usize> = (0..most).map(|at| at * last / (most - 1).max(1)).collect();
        spread.into_iter().map(|at| front[at].candidate).collect()
    }
}
