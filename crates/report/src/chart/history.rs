//! A figure over the positions of a history.

use super::scale::Scale;
use super::svg::{element, group, line, path_data, rectangle, text};
use super::{Chart, Look, WIDTH, shorten};
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

pub(crate) fn history(of: &HistoryChart, look: Look) -> Chart {
    let (left, right) = (56.0, WIDTH - 20.0);
    let (top, bottom) = (TOP, TOP + DEPTH);
    let highest = of.points.iter().map(|point| point.range[1]).fold(1.0, f64::max);
    let y = Scale::factor(highest, 5, (bottom, top));
    let x = |position: f64| left + (right - left) * position / of.last.max(1) as f64;
    let mut body = group("plot");
    for tick in &y.ticks {
        let at = y.at(tick.value);
        body.push(line(if tick.value == 0.0 { "axis" } else { "grid" }, (left, at), (right, at)));
        body.push(text("quiet end", (left - 8.0, at + 4.0), &tick.label));
    }
    for (after, to) in &of.ranges {
        let (from, until) = (x(*after as f64), x(*to as f64));
        let middle = (from + until) / 2.0;
        let across = (until - from).max(2.0);
        body.push(rectangle("warm", (middle - across / 2.0, top), across, DEPTH));
    }
    let curve = of.points.iter().map(|point| (x(point.position as f64), y.at(point.value)));
    body.push(look.line("life", &path_data([curve])));
    for point in &of.points {
        let at = x(point.position as f64);
        body.push(line("axis", (at, y.at(point.range[0])), (at, y.at(point.range[1]))));
        let told = format!("{}: {} times", point.name, units::ratio(point.value));
        body.push(look.marker((at, y.at(point.value)), 4.0).child(element("title").text(&told)));
    }
    for position in &of.skipped {
        let at = x(*position as f64);
        body.push(line("happened", (at, bottom), (at, bottom + 6.0)));
    }
    let ends = [(of.points.first(), "quiet", left), (of.points.last(), "quiet end", right)];
    for (point, class, at) in ends {
        if let Some(point) = point {
            body.push(text(class, (at, bottom + 20.0), &shorten(&point.name, 24)));
        }
    }
    let axis = format!("{} {} in order", of.last + 1, of.axis);
    body.push(text("quiet middle", ((left + right) / 2.0, bottom + 36.0), &axis));
    let told = of.points.iter().map(|point| format!("{} {}", point.name, units::ratio(point.value)));
    Chart {
        name: "history",
        title: of.title.clone(),
        caption: of.caption.clone(),
        description: format!("{}.", told.collect::<Vec<_>>().join(", ")),
        subtitle: of.subtitle.clone(),
        width: WIDTH,
        height: bottom + 48.0,
        body: body.to_string(),
    }
}
