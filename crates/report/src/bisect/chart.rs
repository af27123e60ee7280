//! The level over the history.

use super::BisectReport;
use crate::chart::{Chart, HistoryChart, HistoryPoint, history};
use crate::forms::Document as _;

impl BisectReport {
    pub(crate) fn chart(&self) -> Chart {
        let points = self.measured.iter().map(|at| HistoryPoint {
            position: at.position,
            name: at.name.clone(),
            value: at.log_ratio.exp(),
            range: [(at.log_ratio - 2.0 * at.sd).exp(), (at.log_ratio + 2.0 * at.sd).exp()],
        });
        let ranges = self.answer.changes.iter().map(|change| (change.after, change.to));
        let older = self.older_bytes().map_or(String::new(), |bytes| {
            format!(" {} is {} in the median of the blocks.", self.older, crate::units::memory(bytes))
        });
        let what = if self.of_commits { "commits" } else { "releases" };
        history(
            &HistoryChart {
                title: format!("From {} to {}", self.older, self.newer),
                caption: format!(
                    "Dots: {}, with two standard deviations, at the measured of {} {what} in order. Shaded: where it \
                     changed. Ticks below: what could not be measured.{older}",
                    self.figure(),
                    self.positions,
                ),
                subtitle: format!("{} blocks, seed {}", self.blocks.len(), self.seed),
                last: self.positions.saturating_sub(1),
                points: points.collect(),
                ranges: ranges.collect(),
                skipped: self.skipped.iter().map(|skipped| skipped.position).collect(),
                axis: what,
            },
            self.styles().get(0),
        )
    }
}
