//! A figure over the positions of a history.

use super::plot::{FOOT, Plot};
use super::scale::Scale;
use super::svg::{element, line, path_data, rectangle, text};
use super::{ArmStyle, Chart, WIDTH, shorten};
use crate::units;

const DEPTH: f64 = 260.0;
const TOP: f64 = 24.0;

pub(crate) struct HistoryChart {
    pub(crate) title: String,
    pub(crate) caption: String,
    pub(crate) subtitle: String,
    /// The last position; the first is 0.
    pub(crate) last: usize,
    pub(crate) points: Vec<HistoryPoint>,
    /// Where it changed: after a position, up to another.
    pub(crate) ranges: Vec<(usize, usize)>,
    pub(crate) skipped: Vec<usize>,
    /// What positions are, such as commits.
    pub(crate) axis: &'static str,
}

pub(crate) struct HistoryPoint {
    pub(crate) position: usize,
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) range: [f64; 2],
}

pub(crate) fn history(of: &HistoryChart, style: ArmStyle) -> Chart {
    let mut plot = Plot::new((56.0, WIDTH - 20.0), (TOP, TOP + DEPTH));
    let (left, right) = plot.across();
    let bottom = plot.bottom;
    let highest = of.points.iter().map(|point| point.range[1]).fold(1.0, f64::max);
    let y = Scale::factor(highest, 5, plot.upwards());
    let x = |position: f64| left + (right - left) * position / of.last.max(1) as f64;
    plot.axis_left(&y, "");
    for (after, to) in &of.ranges {
        let (from, until) = (x(*after as f64), x(*to as f64));
        let middle = (from + until) / 2.0;
        let across = (until - from).max(2.0);
        plot.push(rectangle("warm", (middle - across / 2.0, TOP), across, DEPTH));
    }
    let curve = of.points.iter().map(|point| (x(point.position as f64), y.at(point.value)));
    plot.push(style.line("life", &path_data([curve])));
    for point in &of.points {
        let at = x(point.position as f64);
        plot.push(line("axis", (at, y.at(point.range[0])), (at, y.at(point.range[1]))));
        let title = format!("{}: {} times", point.name, units::ratio(point.value));
        plot.push(style.marker((at, y.at(point.value)), 4.0).child(element("title").text(&title)));
    }
    for position in &of.skipped {
        let at = x(*position as f64);
        plot.push(line("happened", (at, bottom), (at, bottom + 6.0)));
    }
    let ends = [(of.points.first(), "quiet", left), (of.points.last(), "quiet end", right)];
    for (point, class, at) in ends {
        if let Some(point) = point {
            plot.push(text(class, (at, bottom + 20.0), &shorten(&point.name, 24)));
        }
    }
    let axis = format!("{} {} in order", of.last + 1, of.axis);
    plot.push(text("quiet middle", ((left + right) / 2.0, bottom + 36.0), &axis));
    let values = of.points.iter().map(|point| format!("{} {}", point.name, units::ratio(point.value)));
    Chart {
        description: format!("{}.", values.collect::<Vec<_>>().join(", ")),
        subtitle: of.subtitle.clone(),
        body: plot.body(),
        ..Chart::new("history", &of.title, of.caption.clone(), bottom + FOOT)
    }
}
