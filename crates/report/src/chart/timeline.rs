//! Memory over time by arm: each service thin, the arm's median thick.

use super::scale::Scale;
use super::svg::{element, group, line, path_data, rectangle, text};
use super::{Canvas, Chart, metric_name, named_value, shorten, text_width};
use crate::trajectory::Point;
use crate::units;

/// Columns that show their values under the pointer.
const BANDS: usize = 80;
/// Lines that a card of values has room for.
const CARD_LINES: usize = 16;
const LABEL_DISTANCE: f64 = 17.0;

/// An arm's line.
struct ArmLine {
    arm: usize,
    median: Vec<Vec<Point>>,
}

impl ArmLine {
    fn last(&self) -> Option<Point> {
        self.median.last()?.last().copied()
    }
}

/// The plot's edges.
struct Plot {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

pub(super) fn draw(canvas: Canvas<'_>) -> Option<Chart> {
    let lines: Vec<ArmLine> = canvas
        .ranked_arms()
        .into_iter()
        .filter(|arm| canvas.report.arms[*arm].earlier_list_of.is_none())
        .map(|arm| ArmLine { arm, median: canvas.median_line(arm) })
        .filter(|line| line.last().is_some())
        .collect();
    if lines.is_empty() {
        return None;
    }
    let lab = canvas.report.kind.is_lab();
    let points = || {
        let counted = lines.iter().flat_map(|line| canvas.counted(line.arm));
        counted.flat_map(|index| canvas.trajectories.services[index].segments.iter().flatten().copied())
    };
    // The services of a field trial are in panels by arm; here are only their medians.
    let medians = || lines.iter().flat_map(|line| line.median.iter().flatten().copied());
    let limits = |limits: (f64, f64), point: Point| (limits.0.max(point.0), limits.1.max(point.1));
    let (longest, highest) =
        if lab { points().fold((0.0, 0.0), limits) } else { medians().fold((0.0, 0.0), limits) };

    let plot = plot(canvas, &lines);
    let x = Scale::time(longest, if canvas.is_wide() { 8 } else { 5 }, (plot.left, plot.right));
    let y = Scale::memory(highest, 5, (plot.bottom, plot.top));
    let several = lines.iter().any(|line| canvas.counted(line.arm).len() > 1);
    let metric = metric_name(canvas.report.analysis.metric);
    let ends: Vec<String> = lines
        .iter()
        .filter_map(|line| Some(named_value(&canvas.report.arms[line.arm].name, end_value(canvas, line)?)))
        .collect();
    let field_caption = format!(
        "{metric} over age: median over the services that belong to an arm, shaded its 95% interval (order \
         statistics), where at least half of them have readings. Dashed upright: the matched age.{}",
        canvas.without_age()
    );
    let lab_caption = format!(
        "{metric} of the services over their age{}. Shaded: warm-up, left out of medians and slopes.",
        if several {
            "; thin lines are services, thick lines the median of an arm"
        } else {
            ", one service per arm"
        }
    );
    let caption = if lab { lab_caption } else { field_caption };
    let height = plot.bottom + 44.0 + if canvas.is_wide() { 0.0 } else { legend_height(lines.len()) };
    let mut chart = canvas.chart("memory-over-time", "Memory over time", caption, height);
    chart.description = format!("At the end: {}.", ends.join(", "));
    let title = format!("{metric} ({})", y.unit);
    let mut body = group("plot");
    axes(&mut body, canvas, &plot, (&x, &y), &title);
    let place = |point: &Point| (x.at(point.0), y.at(point.1));
    for line in lines.iter().rev() {
        let look = canvas.look(line.arm);
        let counted = canvas.counted(line.arm);
        if !lab {
            body.push(canvas.interval_area(line.arm, (&x, &y)));
        } else if counted.len() > 1 {
            for index in &counted {
                let segments = &canvas.trajectories.services[*index].segments;
                let data = path_data(segments.iter().map(|segment| segment.iter().map(place)));
                let name = &canvas.report.services[*index].name;
                let path =
                    element("path").class(&format!("thin {}", look.line_class())).attribute("d", &data);
                body.push(path.child(element("title").text(name)));
            }
        }
    }
    if let (false, Some(matched)) = (lab, canvas.report.analysis.matched_age_seconds) {
        let at = x.at(matched);
        body.push(line("control", (at, plot.top), (at, plot.bottom)));
    }
    for line in lines.iter().rev() {
        let data = path_data(line.median.iter().map(|segment| segment.iter().map(place)));
        body.push(canvas.look(line.arm).line("thick", &data));
    }
    if canvas.is_wide() {
        for label in labels(canvas, &plot, &lines, &y) {
            body.push(label);
        }
    } else {
        legend(&mut body, canvas, plot.bottom + 52.0, &lines);
    }
    for line in &lines {
        if let Some(end) = line.last() {
            body.push(canvas.look(line.arm).marker(place(&end), 4.5));
        }
    }
    chart.body = body.to_string();
    if canvas.is_wide() {
        chart.overlay = overlay(canvas, &plot, (&x, &y), &lines);
    }
    Some(chart)
}

/// What stands beside an arm's line: in a lab run the mean of the last readings, in a field trial, where strangers
/// may be among them, the end of the line.
fn end_value(canvas: Canvas<'_>, line: &ArmLine) -> Option<f64> {
    if canvas.report.kind.is_lab() { canvas.final_bytes(line.arm) } else { line.last().map(|end| end.1) }
}

fn plot(canvas: Canvas<'_>, arms: &[ArmLine]) -> Plot {
    let labels = arms.len() as f64 * LABEL_DISTANCE;
    let longest =
        arms.iter().map(|line| text_width(&canvas.report.arms[line.arm].name, 12.0)).fold(0.0, f64::max);
    let (right, depth) = if canvas.is_wide() {
        // Leader, marker, name and value.
        ((longest + 122.0).clamp(190.0, 310.0), 330f64.max(labels))
    } else {
        (12.0, 250.0)
    };
    Plot { left: 52.0, right: canvas.width() - right, top: 34.0, bottom: 34.0 + depth }
}

fn axes(
    body: &mut super::svg::Element,
    canvas: Canvas<'_>,
    plot: &Plot,
    (x, y): (&Scale, &Scale),
    title: &str,
) {
    // In a field trial each arm has a warm-up of its own.
    let warm_up = if canvas.report.kind.is_lab() { canvas.report.analysis.warm_up_seconds } else { 0.0 };
    let warm_up = x.at(warm_up);
    body.push(rectangle("warm", (plot.left, plot.top), warm_up - plot.left, plot.bottom - plot.top));
    if warm_up - plot.left > text_width("warm-up", 11.0) + 8.0 {
        body.push(text("quiet small middle", ((plot.left + warm_up) / 2.0, plot.top + 14.0), "warm-up"));
    }
    for tick in &y.ticks {
        let at = y.at(tick.value);
        body.push(line(if tick.value == 0.0 { "axis" } else { "grid" }, (plot.left, at), (plot.right, at)));
        body.push(text("quiet end", (plot.left - 8.0, at + 4.0), &tick.label));
    }
    for tick in &x.ticks {
        let at = x.at(tick.value);
        body.push(line("axis", (at, plot.bottom), (at, plot.bottom + 5.0)));
        body.push(text("quiet middle", (at, plot.bottom + 19.0), &tick.label));
    }
    body.push(text("quiet", (8.0, 18.0), title));
    let age = format!("age of the service ({})", x.unit);
    body.push(text("quiet end", (plot.right, plot.bottom + 37.0), &age));
}

/// Names and values at the right of the lines' ends, moved apart where they would collide.
fn labels(canvas: Canvas<'_>, plot: &Plot, lines: &[ArmLine], y: &Scale) -> Vec<super::svg::Element> {
    let mut ends: Vec<(&ArmLine, f64, Point)> =
        lines.iter().filter_map(|line| line.last().map(|end| (line, y.at(end.1), end))).collect();
    ends.sort_by(|a, b| a.1.total_cmp(&b.1));
    let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
    let places = spread(&wanted, LABEL_DISTANCE, (plot.top + 4.0, plot.bottom - 2.0));
    let left = plot.right + 26.0;
    let mut elements = Vec::new();
    for ((line, at, end), place) in ends.iter().zip(places) {
        let arm = &line.arm;
        let leader = [[(plot.right + 6.0, *at), (plot.right + 14.0, *at), (left - 5.0, place)]];
        elements.push(element("path").class("leader").attribute("d", &path_data(leader)));
        let value = units::memory(end_value(canvas, line).unwrap_or(end.1));
        let room = canvas.width() - left - 6.0 - text_width(&value, 12.0) - 20.0;
        let name = canvas.arm_name(*arm, (room / (12.0 * 0.62)) as usize);
        elements.push(canvas.look(*arm).marker((left + 4.0, place), 4.5));
        let label = text("", (left + 14.0, place + 4.0), &name);
        elements.push(label.child(element("title").text(&canvas.report.arms[*arm].name)));
        elements.push(text("bold end", (canvas.width() - 6.0, place + 4.0), &value));
    }
    elements
}

/// The places nearest to `wanted` (ascending) that are at least `distance` apart and within `range`.
pub(super) fn spread(wanted: &[f64], distance: f64, range: (f64, f64)) -> Vec<f64> {
    let mut places: Vec<f64> = Vec::with_capacity(wanted.len());
    // Runs of touching labels, each centred on what its members want.
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let start_of = |run: (usize, usize)| {
        let count = run.1 - run.0;
        let offset = |i: usize| wanted[i] - (i - run.0) as f64 * distance;
        let mean = (run.0..run.1).map(offset).sum::<f64>() / count as f64;
        let last = range.1 - (count - 1) as f64 * distance;
        mean.min(last).max(range.0)
    };
    for index in 0..wanted.len() {
        runs.push((index, index + 1));
        while let [.., before, run] = runs[..] {
            let end = start_of(before) + (before.1 - before.0) as f64 * distance;
            if end <= start_of(run) {
                break;
            }
            runs.truncate(runs.len() - 2);
            runs.push((before.0, run.1));
        }
    }
    for run in runs {
        let start = start_of(run);
        places.extend((0..run.1 - run.0).map(|i| start + i as f64 * distance));
    }
    places
}

fn legend_height(arms: usize) -> f64 {
    12.0 + arms as f64 * 20.0
}

fn legend(body: &mut super::svg::Element, canvas: Canvas<'_>, top: f64, lines: &[ArmLine]) {
    for (row, line) in lines.iter().rev().enumerate() {
        let at = top + 8.0 + row as f64 * 20.0;
        let look = canvas.look(line.arm);
        body.push(look.line("thick", &path_data([[(10.0, at), (38.0, at)]])));
        body.push(look.marker((24.0, at), 4.5));
        body.push(text("", (48.0, at + 4.0), &canvas.arm_name(line.arm, 36)));
        if let Some(bytes) = end_value(canvas, line) {
            body.push(text("bold end", (canvas.width() - 12.0, at + 4.0), &units::memory(bytes)));
        }
    }
}

/// Columns over the plot: the one under the pointer shows a card with every arm's median.
fn overlay(canvas: Canvas<'_>, plot: &Plot, (x, y): (&Scale, &Scale), lines: &[ArmLine]) -> String {
    let mut overlay = group("bands");
    let width = (plot.right - plot.left) / BANDS as f64;
    for band in 0..BANDS {
        let left = plot.left + band as f64 * width;
        let age = (band as f64 + 0.5) / BANDS as f64 * x.limit;
        let mut values: Vec<(usize, Point)> = lines
            .iter()
            .filter_map(|line| Some((line.arm, nearest(line, age, 1.5 * x.limit / BANDS as f64)?)))
            .collect();
        values.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
        let Some((_, first)) = values.first().copied() else { continue };
        let at = x.at(first.0);
        let mut tip = group("tip").child(line("axis", (at, plot.top), (at, plot.bottom)));
        for (arm, point) in &values {
            tip.push(canvas.look(*arm).marker((at, y.at(point.1)), 3.5));
        }
        let more = values.len().saturating_sub(CARD_LINES);
        values.truncate(CARD_LINES);
        let rows = values.len() + usize::from(more > 0);
        let card = (238.0, 26.0 + rows as f64 * 17.0);
        let card_left = if at > (plot.left + plot.right) / 2.0 { at - card.0 - 10.0 } else { at + 10.0 };
        let card_top = plot.top + 6.0;
        tip.push(rectangle("card", (card_left, card_top), card.0, card.1).number("rx", 4.0));
        let heading = format!("at an age of {}", units::duration(first.0));
        tip.push(text("quiet small", (card_left + 10.0, card_top + 17.0), &heading));
        for (row, (arm, point)) in values.iter().enumerate() {
            let base = card_top + 34.0 + row as f64 * 17.0;
            tip.push(canvas.look(*arm).marker((card_left + 14.0, base - 4.0), 4.0));
            tip.push(text("small", (card_left + 25.0, base), &canvas.arm_name(*arm, 24)));
            tip.push(text("small bold end", (card_left + card.0 - 9.0, base), &units::memory(point.1)));
        }
        if more > 0 {
            let base = card_top + 34.0 + values.len() as f64 * 17.0;
            tip.push(text(
                "quiet small",
                (card_left + 25.0, base),
                &shorten(&format!("and {more} more"), 24),
            ));
        }
        let hit = rectangle("hit", (left, plot.top), width, plot.bottom - plot.top);
        overlay.push(group("band").child(hit).child(tip));
    }
    overlay.to_string()
}

fn nearest(line: &ArmLine, age: f64, within: f64) -> Option<Point> {
    let distance = |point: &&Point| (point.0 - age).abs();
    let points = line.median.iter().flatten();
    let nearest = points.min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    (distance(&nearest) <= within).then_some(*nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_stay_where_there_is_room() {
        assert_eq!(spread(&[10.0, 50.0, 90.0], 17.0, (0.0, 100.0)), [10.0, 50.0, 90.0]);
        assert_eq!(spread(&[50.0, 50.0], 10.0, (0.0, 100.0)), [45.0, 55.0]);
    }

    proptest! {
        #[test]
        fn labels_do_not_collide_and_stay_inside(mut wanted in prop::collection::vec(0.0f64..330.0, 1..15)) {
            wanted.sort_by(f64::total_cmp);
            let places = spread(&wanted, 17.0, (0.0, 330.0));
            prop_assert_eq!(places.len(), wanted.len());
            prop_assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 17.0 - 1e-6), "{places:?}");
            prop_assert!(places.iter().all(|place| (-1e-6..=330.0 + 1e-6).contains(place)), "{places:?}");
        }
    }
}
