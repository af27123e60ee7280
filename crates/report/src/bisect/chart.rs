//! The level over the history.

use super::BisectReport;
use crate::chart::plot::{FOOT, Plot};
use crate::chart::scale::Scale;
use crate::chart::svg::{line, path_data, rectangle, text};
use crate::chart::{Chart, WIDTH, element, shorten};
use crate::forms::Document as _;
use crate::units;

impl BisectReport {
    pub(super) fn chart(&self) -> Chart {
        let style = self.styles().get(0);
        let mut plot = Plot::new((56.0, WIDTH - 20.0), (24.0, 284.0));
        let (left, right, top, bottom) = (plot.left, plot.right, plot.top, plot.bottom);
        let last = self.positions.saturating_sub(1).max(1) as f64;
        let x = |position: usize| left + (right - left) * position as f64 / last;
        let highest = self.measured.iter().map(|at| at.interval()[1]).fold(1.0, f64::max);
        let y = Scale::factor(highest, 5, plot.upwards());
        plot.axis_left(&y, "");
        for change in &self.answer.changes {
            let (from, to) = (x(change.after), x(change.to));
            plot.push(rectangle("warm", (from, top), (to - from).max(2.0), bottom - top));
        }
        let curve = self.measured.iter().map(|at| (x(at.position), y.at(at.ratio())));
        plot.push(style.line("life", &path_data([curve])));
        for at in &self.measured {
            let (across, [low, high]) = (x(at.position), at.interval());
            plot.push(line("axis", (across, y.at(low)), (across, y.at(high))));
            let title = element("title").text(&format!("{}: {} times", at.name, units::ratio(at.ratio())));
            plot.push(style.marker((across, y.at(at.ratio())), 4.0).child(title));
        }
        for skipped in &self.skipped {
            let at = x(skipped.position);
            plot.push(line("happened", (at, bottom), (at, bottom + 6.0)));
        }
        plot.push(text("quiet", (left, bottom + 20.0), &shorten(&self.older, 24)));
        plot.push(text("quiet end", (right, bottom + 20.0), &shorten(&self.newer, 24)));
        let axis = format!("{} {} in order", self.positions, self.builds());
        plot.push(text("quiet middle", ((left + right) / 2.0, bottom + 36.0), &axis));
        let values = self.measured.iter().map(|at| format!("{} {}", at.name, units::ratio(at.ratio())));
        let caption = format!(
            "Dots: {}, with two standard deviations, at the measured of {} {} in order. Shaded: where it changed. Ticks below: what \
             could not be measured.",
            self.figure(),
            self.positions,
            self.builds()
        );
        Chart {
            description: format!("{}.", values.collect::<Vec<_>>().join(", ")),
            subtitle: format!("{} blocks, seed {}", self.run.blocks.len(), self.run.seed),
            body: plot.body(),
            ..Chart::new("history", &format!("From {} to {}", self.older, self.newer), caption, bottom + FOOT)
        }
    }
}
