//! Small multiples of a field trial: each arm in a panel of its own with its services, median and interval.

use super::scale::Scale;
use super::svg::{Element, element, group, line, path_data, rectangle, text};
use super::{Canvas, Chart, WIDTH, metric_name, shorten};
use crate::summary::words::words;
use crate::units;
use heaptrial_judgement::Trajectory;

const PANEL_HEIGHT: f64 = 170.0;
const HEADING: f64 = 44.0;
const FOOT: f64 = 26.0;

pub(super) fn draw(canvas: Canvas<'_>) -> Option<Chart> {
    let arms: Vec<usize> =
        canvas.ranked_arms().into_iter().filter(|arm| !canvas.counted(*arm).is_empty()).collect();
    let points = || {
        let shown = canvas.trajectories.services.iter().filter(|service| arms.contains(&service.arm));
        shown.flat_map(|service| service.segments.iter().flatten().copied())
    };
    let longest = points().map(|point| point.0).fold(0.0, f64::max);
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    if arms.is_empty() || highest <= 0.0 {
        return None;
    }
    let columns = 3.min(arms.len());
    let metric = metric_name(canvas.report.analysis.metric);
    let unit = Scale::memory(highest, 4, (0.0, 1.0)).unit;
    let off_treatment = match canvas.report.services.iter().any(|service| !service.counts) {
        true => format!(" Dotted grey lines are {}.", words(canvas.report.kind()).off_treatment),
        false => String::new(),
    };
    let undrawn =
        |service: &Trajectory| service.segments.is_empty() && service.levels.iter().any(Option::is_some);
    let some = if canvas.trajectories.services.iter().any(undrawn) {
        " Of large arms some services are drawn, evenly chosen."
    } else {
        ""
    };
    let caption = format!(
        "{metric} ({unit}) over age, all panels on the same axes: services thin, their median thick, shaded the 95% \
         interval of the median (order statistics), where at least half of the services have readings.{off_treatment}{some}{}",
        canvas.without_age()
    );
    let pitch = HEADING + PANEL_HEIGHT + FOOT;
    let rows = arms.len().div_ceil(columns);
    let mut chart = canvas.chart("arms", "Each arm by itself", caption, rows as f64 * pitch + 12.0);
    let width = (WIDTH - 8.0) / columns as f64;
    let mut body = group("plot");
    for (place, arm) in arms.iter().enumerate() {
        let left = 8.0 + (place % columns) as f64 * width;
        let top = (place / columns) as f64 * pitch;
        body.push(panel(canvas, *arm, (left, top), width, (longest, highest)));
    }
    chart.body = body.to_string();
    Some(chart)
}

fn panel(canvas: Canvas<'_>, arm: usize, (left, top): (f64, f64), width: f64, limits: (f64, f64)) -> Element {
    let figures = &canvas.report.arms[arm];
    let look = canvas.look(arm);
    let plot = (left + 32.0, top + HEADING);
    let (right, bottom) = (left + width - 14.0, plot.1 + PANEL_HEIGHT);
    let x = Scale::time(limits.0, 4, (plot.0, right));
    let y = Scale::memory(limits.1, 4, (bottom, plot.1));
    let mut panel = group("arm");
    let last = figures.final_bytes().map_or(String::new(), |bytes| units::memory(bytes as f64));
    let room = ((width - 60.0) / (11.0 * 0.62)) as usize;
    panel.push(look.marker((left + 38.0, top + 17.0), 4.0));
    let name = shorten(&figures.name, room);
    let heading = text("small bold", (left + 48.0, top + 21.0), &name);
    panel.push(heading.child(element("title").text(&figures.name)));
    let services = match (figures.services, figures.services_belonging()) {
        (1, 1) => "1 service".to_owned(),
        (all, own) if all == own => format!("{all} services"),
        (all, own) => format!("{own} of {all} belong"),
    };
    panel.push(text("small quiet", (left + 32.0, top + 37.0), &services));
    panel.push(text("small quiet end", (right, top + 37.0), &format!("mean at end {last}")));
    for tick in &y.ticks {
        let at = y.at(tick.value);
        panel.push(line(if tick.value == 0.0 { "axis" } else { "grid" }, (plot.0, at), (right, at)));
        panel.push(text("quiet small end", (plot.0 - 5.0, at + 4.0), &tick.label));
    }
    for (place, tick) in x.ticks.iter().enumerate() {
        let at = x.at(tick.value);
        let last = place + 1 == x.ticks.len();
        let label = if last { format!("{} {}", tick.label, x.unit) } else { tick.label.clone() };
        panel.push(line("axis", (at, bottom), (at, bottom + 3.0)));
        let (class, at) =
            if at + 20.0 > right { ("quiet small end", right + 6.0) } else { ("quiet small middle", at) };
        panel.push(text(class, (at, bottom + 15.0), &label));
    }
    panel.push(rectangle("frame", plot, right - plot.0, PANEL_HEIGHT));
    let place = |point: &(f64, f64)| (x.at(point.0), y.at(point.1));
    let services = canvas.trajectories.services.iter().zip(&canvas.report.services);
    for (line, service) in services.filter(|(line, _)| line.arm == arm && !line.segments.is_empty()) {
        let data = path_data(line.segments.iter().map(|segment| segment.iter().map(place)));
        let class = if service.counts { format!("thin {}", look.line_class()) } else { "lost".to_owned() };
        let path = element("path").class(&class).attribute("d", &data);
        panel.push(path.child(element("title").text(&service.name)));
    }
    panel.push(canvas.interval_area(arm, (&x, &y)));
    let median = canvas.median_line(arm);
    let data = path_data(median.iter().map(|segment| segment.iter().map(place)));
    panel.push(look.line("thick", &data));
    panel
}
