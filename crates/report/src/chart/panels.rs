//! The trajectory of each service in a panel of its own, all on the same axes.

use super::scale::Scale;
use super::svg::{Element, element, group, line, path_data, rectangle, text};
use super::{Canvas, Chart, WIDTH, metric_name, shorten};
use crate::units;

/// More panels than these tell nobody anything.
const PANELS_AT_MOST: usize = 60;
const PANEL_HEIGHT: f64 = 92.0;
const HEADING: f64 = 48.0;
const FOOT: f64 = 24.0;

pub(super) fn draw(canvas: Canvas<'_>) -> Option<Chart> {
    let chosen = choose(canvas);
    let all = canvas.trajectories.services.iter().filter(|service| service.last_age().is_some()).count();
    let points = || chosen.iter().flat_map(|i| canvas.trajectories.services[*i].segments.iter().flatten());
    let longest = points().map(|point| point.0).fold(0.0, f64::max);
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    if chosen.is_empty() {
        return None;
    }
    let columns = 4.min(chosen.len().max(2));
    let rows = chosen.len().div_ceil(columns);
    let metric = metric_name(canvas.report.analysis.metric);
    let unit = Scale::memory(highest, 4, (0.0, 1.0)).unit;
    let shown = if chosen.len() < all {
        format!(" The first {} of {all} services.", chosen.len())
    } else {
        String::new()
    };
    let lost = if canvas.report.services.iter().any(|service| !service.counts) {
        " Dotted grey lines are services that do not count."
    } else {
        ""
    };
    let clock = match canvas.report.consensuses() {
        Some(_) => ", an hour for each consensus",
        None => "",
    };
    let caption = format!(
        "{metric} ({unit}) of each service over its age{clock}, all panels on the same axes.{lost}{shown}"
    );
    let pitch = HEADING + PANEL_HEIGHT + FOOT;
    let mut chart =
        canvas.chart("trajectories", "Each service by itself", caption, rows as f64 * pitch + 12.0);
    let width = (WIDTH - 8.0) / columns as f64;
    let mut body = group("plot");
    for (place, index) in chosen.iter().enumerate() {
        let left = 8.0 + (place % columns) as f64 * width;
        let top = (place / columns) as f64 * pitch;
        body.push(panel(canvas, *index, (left, top), width, (longest, highest)));
    }
    chart.body = body.to_string();
    Some(chart)
}

/// Services with readings, grouped by arm in order of memory; where there are too many, each arm keeps
/// its first ones.
fn choose(canvas: Canvas<'_>) -> Vec<usize> {
    let mut by_arm: Vec<Vec<usize>> = Vec::new();
    for arm in canvas.report.ranking() {
        let services = canvas.trajectories.services.iter().enumerate();
        let own = services.filter(|(_, line)| line.arm == arm && line.last_age().is_some());
        by_arm.push(own.map(|(index, _)| index).collect());
    }
    let mut limit = by_arm.iter().map(Vec::len).max().unwrap_or(0);
    while limit > 1 && by_arm.iter().map(|own| own.len().min(limit)).sum::<usize>() > PANELS_AT_MOST {
        limit -= 1;
    }
    by_arm.into_iter().flat_map(|own| own.into_iter().take(limit)).collect()
}

fn panel(
    canvas: Canvas<'_>,
    index: usize,
    (left, top): (f64, f64),
    width: f64,
    limits: (f64, f64),
) -> Element {
    let line_of = &canvas.trajectories.services[index];
    let service = &canvas.report.services[index];
    let look = canvas.look(line_of.arm);
    let plot = (left + 32.0, top + HEADING);
    let right = left + width - 14.0;
    let bottom = plot.1 + PANEL_HEIGHT;
    let x = Scale::time(limits.0, 3, (plot.0, right));
    let y = Scale::memory(limits.1, 4, (bottom, plot.1));

    let mut panel = group("service");
    let room = ((width - 40.0) / (11.0 * 0.6)) as usize;
    let last =
        service.memory.as_ref().map_or(String::new(), |memory| units::memory(memory.final_bytes as f64));
    panel.push(look.marker((left + 38.0, top + 19.0), 4.0));
    let heading = text(
        "small bold",
        (left + 48.0, top + 23.0),
        &shorten(&service.name, room.saturating_sub(last.len() + 5)),
    );
    panel.push(heading.child(element("title").text(&service.name)));
    let arm = text("small quiet", (left + 32.0, top + 39.0), &shorten(&service.arm, room));
    panel.push(arm.child(element("title").text(&service.arm)));
    panel.push(text(
        "small quiet end",
        (right, top + 23.0),
        if service.counts { &last } else { "not counted" },
    ));
    for tick in &y.ticks {
        let at = y.at(tick.value);
        panel.push(line(if tick.value == 0.0 { "axis" } else { "grid" }, (plot.0, at), (right, at)));
        panel.push(text("quiet small end", (plot.0 - 5.0, at + 4.0), &tick.label));
    }
    for (place, tick) in x.ticks.iter().enumerate() {
        let at = x.at(tick.value);
        let label = if place + 1 == x.ticks.len() {
            format!("{} {}", tick.label, x.unit)
        } else {
            tick.label.clone()
        };
        panel.push(line("axis", (at, bottom), (at, bottom + 3.0)));
        let class = if at + 20.0 > right { "quiet small end" } else { "quiet small middle" };
        panel.push(text(class, (if at + 20.0 > right { right + 6.0 } else { at }, bottom + 15.0), &label));
    }
    panel.push(rectangle("frame", plot, right - plot.0, PANEL_HEIGHT));
    let place = |point: &(f64, f64)| (x.at(point.0), y.at(point.1));
    let data = path_data(line_of.segments.iter().map(|segment| segment.iter().map(place)));
    let class = if service.counts { format!("panel {}", look.line_class()) } else { "lost".to_owned() };
    let hover = match &service.excluded {
        Some(reason) => format!("{}: {reason}", service.name),
        None => format!("{}: {last} at the end", service.name),
    };
    panel.push(element("path").class(&class).attribute("d", &data).child(element("title").text(&hover)));
    panel
}
