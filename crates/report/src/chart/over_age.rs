//! Memory over age: all arms in one plot, and each arm by itself.

use heaptrial_evaluate::analysis::Fleet;
use heaptrial_evaluate::judgement::{Point, Trajectories};
use heaptrial_model::Metric;

use super::legend::Label;
use super::plot::{FOOT, Plot, ticks};
use super::scale::Scale;
use super::svg::{element, line, rectangle, text};
use super::{ArmStyle, ArmStyles, Canvas, Chart, WIDTH, metric_name, named_value, shorten};
use crate::terms::terms;
use crate::units;

/// Columns of the panels of single arms.
const COLUMNS: usize = 3;
const PANEL_HEADING: f64 = 52.0;
const PANEL_DEPTH: f64 = 170.0;

/// What is drawn of an arm: its services thin, its median thick, and an interval or a range shaded.
struct Curves {
    style: ArmStyle,
    name: String,
    /// Class, name and line of each service that is drawn.
    services: Vec<(String, String, Vec<Vec<Point>>)>,
    band: Vec<Vec<(f64, f64, f64)>>,
    median: Vec<Vec<Point>>,
}

impl Curves {
    /// Of an arm of a report, with its services where they are to be drawn: those that do not count dotted.
    fn of(canvas: Canvas<'_>, arm: usize, with_services: bool) -> Self {
        let style = canvas.style(arm);
        let services = canvas.trajectories.services.iter().zip(&canvas.report.services);
        let own = services.filter(|(line, _)| with_services && line.arm == arm && !line.segments.is_empty());
        Self {
            style,
            name: canvas.report.arms[arm].name.clone(),
            services: own
                .map(|(line, service)| {
                    let thin = format!("thin {}", style.line_class());
                    let class = if service.counts { thin } else { "lost".to_owned() };
                    (class, service.result.name.clone(), line.segments.clone())
                })
                .collect(),
            band: if canvas.report.kind.is_lab() { Vec::new() } else { canvas.median_band(arm) },
            median: canvas.median_line(arm),
        }
    }

    fn end(&self) -> Option<Point> {
        self.median.last()?.last().copied()
    }

    fn points(&self) -> impl Iterator<Item = Point> {
        let services = self.services.iter().flat_map(|(_, _, runs)| runs.iter().flatten().copied());
        let band = self.band.iter().filter(|run| run.len() > 1).flatten().map(|(age, _, high)| (*age, *high));
        self.median.iter().flatten().copied().chain(band).chain(services)
    }

    fn draw_behind(&self, plot: &mut Plot, (x, y): (&Scale, &Scale), band_class: &str) {
        let band =
            |run: &Vec<(f64, f64, f64)>| run.iter().map(|at| (x.at(at.0), y.at(at.1), y.at(at.2))).collect();
        if !self.band.is_empty() {
            plot.band(band_class, self.style, self.band.iter().map(band));
        }
        for (class, name, runs) in &self.services {
            plot.named_line(class, name, places(runs, (x, y)));
        }
    }

    fn draw_median(&self, plot: &mut Plot, scales: (&Scale, &Scale)) {
        plot.line(self.style, places(&self.median, scales));
    }
}

fn places(runs: &[Vec<Point>], (x, y): (&Scale, &Scale)) -> Vec<Vec<Point>> {
    runs.iter().map(|run| run.iter().map(|point| (x.at(point.0), y.at(point.1))).collect()).collect()
}

/// The highest age and memory; `None` where nothing was read.
fn limits(all: &[Curves]) -> Option<Point> {
    let points = all.iter().flat_map(Curves::points);
    let limits = points.fold((0.0, 0.0), |most: Point, point| (most.0.max(point.0), most.1.max(point.1)));
    (limits.1 > 0.0).then_some(limits)
}

struct Marks {
    band_class: &'static str,
    along: &'static str,
    warm_up_seconds: f64,
    matched_age_seconds: Option<f64>,
}

/// Of a report: of a lab run all services, on hosts the interval of each median.
pub(super) fn of_report(canvas: Canvas<'_>) -> Option<Chart> {
    let report = canvas.report;
    let (lab, days) = (report.kind.is_lab(), report.has_days());
    let arms = canvas.ranked_arms();
    let several = report.services.len() > arms.len();
    let all: Vec<Curves> = arms.iter().map(|arm| Curves::of(canvas, *arm, lab && several)).collect();
    let metric = metric_name(report.analysis.metric);
    let marks = Marks {
        band_class: "spread",
        along: if lab && days { "age by consensuses, one an hour" } else { "age of the service" },
        // On hosts each arm has a warm-up of its own.
        warm_up_seconds: if days { 0.0 } else { report.analysis.warm_up_seconds },
        matched_age_seconds: report.analysis.matched_age_seconds.filter(|_| !lab),
    };
    let what = match (lab, days) {
        (false, _) => {
            "over age: median over the services of an arm, shaded its 95% interval (order statistics), where at least half of them \
             have readings. Dashed upright: the matched age."
        }
        (true, true) => {
            "of relays at the end of the rest after each consensus, one an hour of their lives; thick: the median of an arm."
        }
        (true, false) => {
            "of the services over their age; thick: the median of an arm. Shaded: warm-up, excluded from levels."
        }
    };
    let dotted = if lab { dotted(canvas) } else { String::new() };
    let caption = format!("{metric} {what}{dotted}");
    let (height, description, body) = draw(&all, metric, &marks)?;
    let chart = canvas.chart("memory-over-time", "Memory over time", caption, height);
    Some(Chart { description, body, ..chart })
}

fn dotted(canvas: Canvas<'_>) -> String {
    match canvas.report.services.iter().any(|service| !service.counts) {
        true => format!(" Dotted grey lines are {}.", terms(canvas.report.kind).excluded),
        false => String::new(),
    }
}

/// Of a trial that still runs, for the dashboard: what was read, and nothing that only a look may show. An interval between planned
/// looks is a look that nobody planned.
pub(crate) fn of_running(fleet: &Fleet, styles: &ArmStyles, metric: Metric) -> Option<Chart> {
    let is_compliant = |index: &usize| {
        let current = fleet.services[*index].current();
        current.is_some_and(|life| life.contamination.is_none())
    };
    let compliant: Vec<usize> = (0..fleet.services.len()).filter(is_compliant).collect();
    let shown: Vec<(usize, usize, bool)> = compliant
        .iter()
        .flat_map(|index| fleet.services[*index].arms.iter().map(|arm| (*index, *arm, false)))
        .collect();
    let trajectories = Trajectories::of(fleet, &shown, false);
    let curves = |arm: usize| {
        let services: Vec<usize> = (0..shown.len()).filter(|place| shown[*place].1 == arm).collect();
        Curves {
            style: styles.get(arm),
            name: fleet.arms[arm].name.clone(),
            services: Vec::new(),
            band: trajectories.range(&services),
            median: trajectories.median_line(&services),
        }
    };
    let all: Vec<Curves> = (0..fleet.arms.len()).map(curves).collect();
    let metric = metric_name(metric);
    let marks = Marks {
        band_class: "range",
        along: "age of the service",
        warm_up_seconds: 0.0,
        matched_age_seconds: None,
    };
    let (height, description, body) = draw(&all, metric, &marks)?;
    let excluded = match fleet.services.len() - compliant.len() {
        0 => String::new(),
        several => format!(" Excluded as non-compliant or never read: {several}."),
    };
    let caption = format!(
        "{metric} of each arm: the median over its services at that age, shaded from the lowest to the highest, where at least half of \
         them have readings. Descriptive: it does not show whether arms differ.{excluded}"
    );
    let chart = Chart::new("memory-over-time", "Memory over age", caption, height);
    Some(Chart { description, body, ..chart })
}

/// Height, description and body; `None` where nothing was read.
fn draw(all: &[Curves], metric: &str, marks: &Marks) -> Option<(f64, String, String)> {
    let (longest, highest) = limits(all)?;
    let lines: Vec<(&Curves, Point)> = all.iter().filter_map(|line| Some((line, line.end()?))).collect();
    let names: Vec<&str> = lines.iter().map(|(line, _)| line.name.as_str()).collect();
    let mut plot = Plot::beside_labels(52.0, 330.0, names.into_iter());
    let x = Scale::time(longest, 8, plot.across());
    let y = Scale::memory(highest, 5, plot.upwards());
    let scales = (&x, &y);
    let (left, top, bottom) = (plot.left, plot.top, plot.bottom);
    plot.push(rectangle("warm", (left, top), x.at(marks.warm_up_seconds) - left, bottom - top));
    plot.axis_left(&y, &format!("{metric} ({})", y.unit));
    plot.axis_below(bottom, ticks(&x), &format!("{} ({})", marks.along, x.unit));
    lines.iter().rev().for_each(|(line, _)| line.draw_behind(&mut plot, scales, marks.band_class));
    if let Some(matched) = marks.matched_age_seconds {
        plot.push(line("control", (x.at(matched), top), (x.at(matched), bottom)));
    }
    lines.iter().rev().for_each(|(line, _)| line.draw_median(&mut plot, scales));
    let label = |(line, end): &(&'_ Curves, Point)| Label {
        style: line.style,
        name: line.name.clone(),
        bytes: end.1,
        at: y.at(end.1),
    };
    plot.labels(lines.iter().map(label).collect());
    for (line, end) in &lines {
        plot.push(line.style.marker((x.at(end.0), y.at(end.1)), 4.5));
    }
    let values: Vec<String> = lines.iter().map(|(line, end)| named_value(&line.name, end.1)).collect();
    Some((bottom + FOOT, format!("At the end: {}.", values.join(", ")), plot.body()))
}

/// Of a report on hosts: each arm by itself, all on the same axes.
pub(super) fn each_arm(canvas: Canvas<'_>) -> Option<Chart> {
    let report = canvas.report;
    let arms: Vec<usize> =
        canvas.ranked_arms().into_iter().filter(|arm| !canvas.counted(*arm).is_empty()).collect();
    let all: Vec<Curves> = arms.iter().map(|arm| Curves::of(canvas, *arm, true)).collect();
    let (longest, highest) = limits(&all).filter(|_| !report.kind.is_lab())?;
    let columns = COLUMNS.min(all.len().max(2));
    let width = (WIDTH - 8.0) / columns as f64;
    let pitch = PANEL_HEADING + PANEL_DEPTH + FOOT;
    let (mut body, mut units) = (String::new(), String::new());
    for (place, (arm, curves)) in arms.iter().zip(&all).enumerate() {
        let left = 8.0 + (place % columns) as f64 * width;
        let top = (place / columns) as f64 * pitch + PANEL_HEADING;
        let mut plot = Plot::new((left + 36.0, left + width - 14.0), (top, top + PANEL_DEPTH));
        let x = Scale::time(longest, 4, plot.across());
        let y = Scale::memory(highest, 4, plot.upwards());
        plot.axis_left(&y, "");
        plot.axis_below(plot.bottom, ticks(&x), "");
        plot.push(curves.style.marker((plot.left + 6.0, top - 35.0), 4.0));
        let name = text("bold", (plot.left + 16.0, top - 31.0), &shorten(&curves.name, 30));
        plot.push(name.child(element("title").text(&curves.name)));
        let found = &report.arms[*arm];
        let services = match (found.services as usize, found.services_belonging() as usize) {
            (all, own) if all == own => units::counted(all, "service"),
            (all, own) => format!("{own} of {all} services"),
        };
        plot.push(text("quiet small", (plot.left, top - 14.0), &services));
        let mean = found.final_bytes().map(|bytes| format!("mean at end {}", units::memory(bytes)));
        plot.push(text("quiet small end", (plot.right, top - 14.0), &mean.unwrap_or_default()));
        curves.draw_behind(&mut plot, (&x, &y), "spread");
        curves.draw_median(&mut plot, (&x, &y));
        body.push_str(&plot.body());
        units = format!("memory in {}, age in {}", y.unit, x.unit);
    }
    let caption = format!(
        "{} over age: services thin (of large arms some, evenly chosen), their median thick, shaded its 95% interval (order statistics), \
         where at least half of the services have readings.{} All panels have the same axes: {units}.",
        metric_name(report.analysis.metric),
        dotted(canvas)
    );
    let height = arms.len().div_ceil(columns) as f64 * pitch;
    Some(Chart { body, ..canvas.chart("arms", "Each arm by itself", caption, height) })
}
