//! Who is dropped after a block.

use super::{Compared, Search};
use crate::figures::Figure;
use crate::race::{DropReason, least, share};

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

impl Search {
    /// By how much a candidate's ratio to the control may be less than was read, in the mean over blocks.
    fn off(&self, candidate: usize, figure: Figure) -> f64 {
        let of_control = self.blocks.iter().map(|block| block.control.off(figure).1);
        let own = self.blocks.iter().flat_map(|block| &block.arms).filter(|(arm, _)| *arm == candidate);
        mean(of_control) + mean(own.map(|(_, figures)| figures.off(figure).0))
    }

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
        let block = self.blocks.len();
        let goals: Vec<Compared> =
            self.rules.goals.iter().filter_map(|goal| self.compared(goal.figure())).collect();
        let limits: Vec<(Figure, f64, Compared)> = self
            .rules
            .limits
            .given()
            .filter_map(|(figure, most)| Some((figure, most, self.compared(figure)?)))
            .collect();
        let alive = |search: &Self| -> Vec<usize> {
            let of_goal = goals.first().map_or(&[][..], |compared| compared.arms.as_slice());
            of_goal.iter().copied().filter(|arm| !search.dropped.contains_key(arm)).collect()
        };
        let running = alive(self);
        // Each against every other and the control by each goal, and against each limit.
        let decisions = running.len() * goals.len() + limits.len();
        let share = share(self.rules.error, block, decisions);
        for arm in &running {
            for (figure, most, compared) in &limits {
                let Some(place) = compared.place(*arm) else { continue };
                // The control may have taken more than was read, and the candidate less.
                let off = self.off(*arm, *figure);
                if least(&compared.comparison, place, None, share).is_some_and(|least| least - off > *most) {
                    let log_ratio = compared.comparison.to_control(place);
                    self.drop_out(*arm, DropReason::Limit { figure: *figure, log_ratio });
                }
            }
        }
        if goals.len() < self.rules.goals.len() {
            return;
        }
        let within: Vec<usize> = self
            .standings_of(&alive(self))
            .into_iter()
            .filter(|standing| standing.within)
            .map(|standing| standing.candidate)
            .collect();
        for arm in alive(self) {
            let others = within.iter().filter(|other| **other != arm).map(|other| Some(*other));
            let beaten = others.chain([None]).find(|other| {
                // Nobody is dropped for one that is out itself.
                let out = other.is_some_and(|other| self.dropped.contains_key(&other));
                !out && goals.iter().all(|compared| {
                    let place = compared.place(arm);
                    let other_place = other.map(|other| compared.place(other));
                    let (Some(place), false) = (place, other_place == Some(None)) else { return false };
                    // Something as good as the control is not a finding, whatever the margin.
                    let margin = if other.is_none() { 0.0 } else { self.rules.margin };
                    least(&compared.comparison, place, other_place.flatten(), share)
                        .is_some_and(|least| least > -margin)
                })
            });
            let Some(than) = beaten else { continue };
            let compared = &goals[0];
            let other = than.and_then(|than| compared.place(than));
            let log_ratio =
                compared.place(arm).map_or(0.0, |place| compared.comparison.difference(place, other).0);
            // Of two that are alike, the one that is believed better stays.
            if than.is_some() && log_ratio < 0.0 {
                continue;
            }
            self.drop_out(arm, DropReason::Worse { than, log_ratio });
        }
    }
}
