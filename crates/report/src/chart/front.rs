//! Points by two ratios to the control.

use super::legend;
use super::scale::Factors;
use super::svg::{element, group, line, text};
use super::{Chart, Layout, Look};
use crate::units;

const DEPTH: f64 = 320.0;
const TOP: f64 = 24.0;

pub(crate) struct FrontChart {
    pub(crate) title: String,
    pub(crate) caption: String,
    pub(crate) subtitle: String,
    /// What is shown along and upwards.
    pub(crate) axes: [&'static str; 2],
    pub(crate) points: Vec<FrontPoint>,
}

pub(crate) struct FrontPoint {
    /// What it is, with its figure.
    pub(crate) name: String,
    /// Whose look it has, for the legend.
    pub(crate) of: String,
    pub(crate) at: (f64, f64),
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) filled: bool,
    pub(crate) faint: bool,
}

/// Draws it; `look` is by the position of the point.
pub(crate) fn front(of: &FrontChart, look: impl Fn(usize) -> Look, layout: Layout) -> Chart {
    let width = layout.width();
    let (left, right) = (56.0, width - 20.0);
    let (top, bottom) = (TOP, TOP + DEPTH);
    let along = of.points.iter().flat_map(|point| {
        let (low, high) = point.interval.unwrap_or((point.at.0, point.at.0));
        [low, point.at.0, high]
    });
    let x = Factors::of(along, (left, right));
    let y = Factors::of(of.points.iter().map(|point| point.at.1), (bottom, top));
    let mut body = group("plot");
    for tick in &y.ticks {
        let at = y.at(tick.value);
        body.push(line("grid", (left, at), (right, at)));
        body.push(text("quiet end", (left - 8.0, at + 4.0), &tick.label));
    }
    for tick in &x.ticks {
        let at = x.at(tick.value);
        body.push(line("grid", (at, top), (at, bottom)));
        body.push(text("quiet middle", (at, bottom + 18.0), &tick.label));
    }
    let (one_x, one_y) = (x.at(1.0), y.at(1.0));
    body.push(line("axis", (one_x - 7.0, one_y), (one_x + 7.0, one_y)));
    body.push(line("axis", (one_x, one_y - 7.0), (one_x, one_y + 7.0)));
    for (number, point) in of.points.iter().enumerate() {
        let at = (x.at(point.at.0), y.at(point.at.1));
        if let Some((low, high)) = point.interval {
            body.push(line("axis", (x.at(low), at.1), (x.at(high), at.1)));
        }
        let opacity = match (point.filled, point.faint) {
            (true, _) => "1",
            (false, false) => "0.6",
            (false, true) => "0.25",
        };
        let size = if point.filled { 6.0 } else { 4.0 };
        let marker = look(number).marker(at, size).attribute("opacity", opacity);
        body.push(marker.child(element("title").text(&point.name)));
    }
    let axes = format!("along: {}, up: {}, as factors of the control's", of.axes[0], of.axes[1]);
    body.push(text("quiet middle", ((left + right) / 2.0, bottom + 36.0), &axes));
    let mut names: Vec<(Look, &str)> = Vec::new();
    for (number, point) in of.points.iter().enumerate() {
        if names.iter().all(|(_, name)| *name != point.of) {
            names.push((look(number), &point.of));
        }
    }
    let (legend, foot) = legend::names_below(&names, bottom + 50.0, (left, right));
    legend.into_iter().for_each(|element| body.push(element));
    let told = of.points.iter().filter(|point| point.filled || !point.faint);
    let told = told.map(|point| format!("{}, {} {}", point.name, of.axes[1], units::ratio(point.at.1)));
    Chart {
        name: "front",
        title: of.title.clone(),
        caption: of.caption.clone(),
        description: format!("{}.", told.collect::<Vec<_>>().join("; ")),
        subtitle: of.subtitle.clone(),
        width,
        height: foot,
        body: body.to_string(),
        overlay: String::new(),
    }
}
