//! Who is dropped after a block.

use super::{Compared, Search};
use crate::tune::figures::Figure;
use crate::tune::race::{DropReason, least, share};

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
