//! Memory over time by arm: each service thin, the arm's median thick.

use super::legend::{self, Label};
use super::scale::Scale;
use super::svg::{element, group, line, path_data, rectangle, text};
use super::{Canvas, Chart, WIDTH, metric_name, named_value, text_width};
use heaptrial_judgement::Point;

struct ArmLine {
    arm: usize,
    median: Vec<Vec<Point>>,
}

impl ArmLine {
    fn last(&self) -> Option<Point> {
        self.median.last()?.last().copied()
    }
}

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
        .map(|arm| ArmLine { arm, median: canvas.median_line(arm) })
        .filter(|line| line.last().is_some())
        .collect();
    if lines.is_empty() {
        return None;
    }
    let lab = canvas.report.kind().is_lab();
    let points = || {
        let counted = lines.iter().flat_map(|line| canvas.counted(line.arm));
        counted.flat_map(|index| canvas.trajectories.services[index].segments.iter().flatten().copied())
    };
    // The services of a field trial are in panels by arm; here are only their medians.
    let medians = || lines.iter().flat_map(|line| line.median.iter().flatten().copied());
    let ends = || lines.iter().flat_map(|line| canvas.interval_ends(line.arm));
    let limits = |limits: (f64, f64), point: Point| (limits.0.max(point.0), limits.1.max(point.1));
    let (longest, highest) = if lab {
        points().fold((0.0, 0.0), limits)
    } else {
        medians().chain(ends()).fold((0.0, 0.0), limits)
    };

    let plot = plot(canvas, &lines);
    let x = Scale::time(longest, 8, (plot.left, plot.right));
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
        "{metric} of the services over their age{}. {}",
        if several {
            "; thin lines are services, thick lines the median of an arm"
        } else {
            ", one service per arm"
        },
        if canvas.report.has_days() {
            "A relay in life gets one consensus an hour: ages are consensuses that it worked off, and memory is that at the \
             end of the rest after each."
        } else {
            "Shaded: warm-up, left out of medians and slopes."
        }
    );
    let caption = if lab { lab_caption } else { field_caption };
    let mut chart = canvas.chart("memory-over-time", "Memory over time", caption, plot.bottom + 44.0);
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
    let range = (plot.top + 4.0, plot.bottom - 2.0);
    let labels = legend::beside(&mut labels(canvas, &lines, &y), (plot.right, WIDTH), range);
    labels.into_iter().for_each(|label| body.push(label));
    for line in &lines {
        if let Some(end) = line.last() {
            body.push(canvas.look(line.arm).marker(place(&end), 4.5));
        }
    }
    chart.body = body.to_string();
    Some(chart)
}

/// What stands beside an arm's line: in a lab run the mean of the last readings, in a field trial, where off-treatment services
/// may be among them, the end of the line.
fn end_value(canvas: Canvas<'_>, line: &ArmLine) -> Option<f64> {
    if canvas.report.kind().is_lab() { canvas.final_bytes(line.arm) } else { line.last().map(|end| end.1) }
}

fn plot(canvas: Canvas<'_>, arms: &[ArmLine]) -> Plot {
    let names = arms.iter().map(|line| canvas.report.arms[line.arm].name.as_str());
    let depth = 330f64.max(arms.len() as f64 * legend::LABEL_DISTANCE);
    Plot { left: 52.0, right: WIDTH - legend::width_beside(names), top: 34.0, bottom: 34.0 + depth }
}

/// What stands for the lines.
fn labels<'a>(canvas: Canvas<'a>, lines: &[ArmLine], y: &Scale) -> Vec<Label<'a>> {
    let label = |line: &ArmLine| {
        let end = line.last()?.1;
        Some(Label {
            look: canvas.look(line.arm),
            name: &canvas.report.arms[line.arm].name,
            bytes: end_value(canvas, line).unwrap_or(end),
            at: y.at(end),
        })
    };
    lines.iter().filter_map(label).collect()
}

fn axes(
    body: &mut super::svg::Element,
    canvas: Canvas<'_>,
    plot: &Plot,
    (x, y): (&Scale, &Scale),
    title: &str,
) {
    // In a field trial each arm has a warm-up of its own.
    let warm_up = if canvas.report.has_days() { 0.0 } else { canvas.report.analysis.warm_up_seconds };
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
    let age = match canvas.report.has_days() && canvas.report.kind().is_lab() {
        true if x.unit == "h" => "consensuses worked off (hours of a relay's life)".to_owned(),
        true => format!("age of the relay by its consensuses, one an hour ({})", x.unit),
        false => format!("age of the service ({})", x.unit),
    };
    body.push(text("quiet end", (plot.right, plot.bottom + 37.0), &age));
}
