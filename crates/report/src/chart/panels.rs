//! Small multiples, all on the same axes: of a lab run each service, on hosts each arm with its services, median and interval.

use heaptrial_evaluate::judgement::{Point, Trajectory};

use super::plot::{named_line, ticks};
use super::scale::Scale;
use super::svg::{Element, element, group, line, path_data, rectangle, text};
use super::{ArmStyle, Canvas, Chart, WIDTH, metric_name, shorten};
use crate::terms::terms;
use crate::units;

/// More panels than these show nobody anything.
const PANELS_AT_MOST: usize = 60;
const HEADING: f64 = 48.0;
const FOOT: f64 = 26.0;

/// A panel with the lines that are drawn in it.
struct Panel {
    style: ArmStyle,
    name: String,
    /// Below the name.
    below: String,
    /// At the right of that.
    value: String,
    /// Class, title and segments.
    lines: Vec<(String, String, Vec<Vec<Point>>)>,
    /// Age, low and high.
    band: Vec<Vec<(f64, f64, f64)>>,
    median: Vec<Vec<Point>>,
}

/// Of a report on hosts: each arm by itself.
pub(super) fn arms(canvas: Canvas<'_>) -> Option<Chart> {
    let report = canvas.report;
    let arms = canvas.ranked_arms().into_iter().filter(|arm| !canvas.counted(*arm).is_empty());
    let panels: Vec<Panel> = arms.map(|arm| of_arm(canvas, arm)).collect();
    let undrawn =
        |service: &Trajectory| service.segments.is_empty() && service.levels.iter().any(Option::is_some);
    let some = match canvas.trajectories.services.iter().any(undrawn) {
        true => " Of large arms some services are drawn, evenly chosen.",
        false => "",
    };
    let caption = format!(
        "services thin, their median thick, shaded its 95% interval (order statistics), where at least half of the services have \
         readings.{}{some}{}",
        dotted(canvas),
        canvas.without_age()
    );
    let title = "Each arm by itself";
    draw(
        canvas,
        ("arms", title),
        &panels,
        (3, 170.0),
        &format!("{} over age: {caption}", metric_name(report.analysis.metric)),
    )
}

/// Of a lab run: each service by itself.
pub(super) fn services(canvas: Canvas<'_>) -> Option<Chart> {
    let panels: Vec<Panel> = choose(canvas).into_iter().map(|index| of_service(canvas, index)).collect();
    let all = canvas.trajectories.services.iter().filter(|service| service.last_age().is_some()).count();
    let some = match panels.len() < all {
        true => format!(" The first {} of {all} services.", panels.len()),
        false => String::new(),
    };
    let metric = metric_name(canvas.report.analysis.metric);
    let caption = format!("{metric} of each service over its age.{}{some}", dotted(canvas));
    draw(canvas, ("trajectories", "Each service by itself"), &panels, (4, 92.0), &caption)
}

fn dotted(canvas: Canvas<'_>) -> String {
    match canvas.report.services.iter().any(|service| !service.counts) {
        true => format!(" Dotted grey lines are {}.", terms(canvas.report.kind).excluded),
        false => String::new(),
    }
}

fn of_arm(canvas: Canvas<'_>, arm: usize) -> Panel {
    let found = &canvas.report.arms[arm];
    let style = canvas.style(arm);
    let services = canvas.trajectories.services.iter().zip(&canvas.report.services);
    let lines = services.filter(|(line, _)| line.arm == arm && !line.segments.is_empty());
    Panel {
        style,
        name: found.name.clone(),
        below: match (found.services as usize, found.services_belonging() as usize) {
            (all, own) if all == own => units::counted(all, "service"),
            (all, own) => format!("{own} of {all} services"),
        },
        value: found
            .final_bytes()
            .map_or_else(String::new, |bytes| format!("mean at end {}", units::memory(bytes))),
        lines: lines
            .map(|(line, service)| {
                let class =
                    if service.counts { format!("thin {}", style.line_class()) } else { "lost".to_owned() };
                (class, service.name.clone(), line.segments.clone())
            })
            .collect(),
        band: canvas.median_band(arm),
        median: canvas.median_line(arm),
    }
}

fn of_service(canvas: Canvas<'_>, index: usize) -> Panel {
    let line = &canvas.trajectories.services[index];
    let service = &canvas.report.services[index];
    let style = canvas.style(line.arm);
    let last =
        service.memory.as_ref().map_or(String::new(), |memory| units::memory(memory.final_bytes as f64));
    let title = match &service.excluded {
        Some(reason) => format!("{}: {reason}", service.name),
        None => format!("{}: {last} at the end", service.name),
    };
    let class = if service.counts { format!("panel {}", style.line_class()) } else { "lost".to_owned() };
    Panel {
        style,
        name: service.name.clone(),
        below: service.arm.clone(),
        value: if service.counts { last } else { "excluded".to_owned() },
        lines: vec![(class, title, line.segments.clone())],
        band: Vec::new(),
        median: Vec::new(),
    }
}

/// Services with readings, grouped by arm in order of memory; where there are too many, each arm keeps its first ones.
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

/// Panels in so many columns, so deep each.
fn draw(
    canvas: Canvas<'_>,
    (name, title): (&'static str, &str),
    panels: &[Panel],
    (columns, depth): (usize, f64),
    caption: &str,
) -> Option<Chart> {
    let points =
        || panels.iter().flat_map(|panel| panel.lines.iter().flat_map(|line| line.2.iter().flatten()));
    let longest = points().map(|point| point.0).fold(0.0, f64::max);
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    if panels.is_empty() || highest <= 0.0 {
        return None;
    }
    let columns = columns.min(panels.len().max(2));
    let width = (WIDTH - 8.0) / columns as f64;
    let pitch = HEADING + depth + FOOT;
    let mut body = group("plot");
    for (place, panel) in panels.iter().enumerate() {
        let left = 8.0 + (place % columns) as f64 * width;
        let top = (place / columns) as f64 * pitch;
        body.push(panel.draw((left, top), (width, depth), (longest, highest)));
    }
    let unit = Scale::memory(highest, 4, (0.0, 1.0)).unit;
    let rows = panels.len().div_ceil(columns) as f64;
    let caption = format!("{caption} All panels have the same axes, in {unit}.");
    Some(Chart { body: body.to_string(), ..canvas.chart(name, title, caption, rows * pitch + 12.0) })
}

impl Panel {
    fn draw(&self, (left, top): (f64, f64), (width, depth): (f64, f64), limits: (f64, f64)) -> Element {
        let (from, right) = (left + 32.0, left + width - 14.0);
        let (upper, bottom) = (top + HEADING, top + HEADING + depth);
        let x = Scale::time(limits.0, 4, (from, right));
        let y = Scale::memory(limits.1, 4, (bottom, upper));
        let mut panel = group("panel-of");
        let room = |taken: usize| (((width - 60.0) / (11.0 * 0.62)) as usize).saturating_sub(taken);
        panel.push(self.style.marker((left + 38.0, top + 17.0), 4.0));
        let name = text("small bold", (left + 48.0, top + 21.0), &shorten(&self.name, room(0)));
        panel.push(name.child(element("title").text(&self.name)));
        let below = shorten(&self.below, room(self.value.len()));
        panel.push(text("small quiet", (from, top + 37.0), &below).child(element("title").text(&self.below)));
        panel.push(text("small quiet end", (right, top + 37.0), &self.value));
        for (at, label) in ticks(&y) {
            panel.push(line(if at == bottom { "axis" } else { "grid" }, (from, at), (right, at)));
            panel.push(text("quiet small end", (from - 5.0, at + 4.0), &label));
        }
        for (place, (at, label)) in ticks(&x).enumerate() {
            let is_last = place + 1 == x.ticks.len();
            let label = if is_last { format!("{label} {}", x.unit) } else { label };
            panel.push(line("axis", (at, bottom), (at, bottom + 3.0)));
            let is_near_edge = at + 20.0 > right;
            let (class, at) =
                if is_near_edge { ("quiet small end", right + 6.0) } else { ("quiet small middle", at) };
            panel.push(text(class, (at, bottom + 15.0), &label));
        }
        panel.push(rectangle("frame", (from, upper), right - from, depth));
        let place = |point: &Point| (x.at(point.0), y.at(point.1));
        let places =
            |runs: &[Vec<Point>]| runs.iter().map(|run| run.iter().map(place).collect()).collect::<Vec<_>>();
        for (class, title, runs) in &self.lines {
            panel.push(named_line(class, title, places(runs)));
        }
        if !self.band.is_empty() {
            let outline = |run: &Vec<(f64, f64, f64)>| {
                let upper = run.iter().map(|(age, _, high)| place(&(*age, *high)));
                let lower = run.iter().rev().map(|(age, low, _)| place(&(*age, *low)));
                upper.chain(lower).collect::<Vec<_>>()
            };
            let class = format!("spread {}", self.style.fill_class());
            let data = path_data(self.band.iter().filter(|run| run.len() > 1).map(outline));
            panel.push(element("path").class(&class).attribute("d", &data));
        }
        if !self.median.is_empty() {
            panel.push(self.style.line("thick", &path_data(places(&self.median))));
        }
        panel
    }
}
