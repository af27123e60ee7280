//! Memory over age by arm: each service thin, the arm's median thick, an interval or a range shaded.

use heaptrial_evaluate::analysis::Fleet;
use heaptrial_evaluate::judgement::{Point, Trajectories};
use heaptrial_model::Metric;

use super::legend::Label;
use super::plot::{FOOT, Plot, ticks};
use super::scale::Scale;
use super::svg::{line, rectangle, text};
use super::{ArmStyle, ArmStyles, Canvas, Chart, metric_name, named_value, text_width};

/// Age, low and high.
type Band = Vec<(f64, f64, f64)>;

struct ArmLine {
    style: ArmStyle,
    name: String,
    median: Vec<Vec<Point>>,
    band: Vec<Band>,
    /// Its services by name, where each is drawn.
    services: Vec<(String, Vec<Vec<Point>>)>,
    /// What is written beside the end of the line; the end itself where that is `None`.
    value: Option<f64>,
}

impl ArmLine {
    fn last(&self) -> Option<Point> {
        self.median.last()?.last().copied()
    }

    fn points(&self) -> impl Iterator<Item = Point> {
        let services = self.services.iter().flat_map(|(_, runs)| runs.iter().flatten().copied());
        let band = self.band.iter().filter(|run| run.len() > 1).flatten().map(|(age, _, high)| (*age, *high));
        self.median.iter().flatten().copied().chain(band).chain(services)
    }
}

/// What is drawn besides the arms.
#[derive(Default)]
struct Marks {
    band_class: &'static str,
    warm_up_seconds: f64,
    matched_age_seconds: Option<f64>,
}

/// Of a report: of a lab run all services, on hosts the interval of each median.
pub(super) fn of_report(canvas: Canvas<'_>) -> Option<Chart> {
    let report = canvas.report;
    let lab = report.kind.is_lab();
    let lines: Vec<ArmLine> = canvas.ranked_arms().into_iter().map(|arm| of_arm(canvas, arm)).collect();
    let metric = metric_name(report.analysis.metric);
    let marks = Marks {
        band_class: "spread",
        // On hosts each arm has a warm-up of its own.
        warm_up_seconds: if report.has_days() { 0.0 } else { report.analysis.warm_up_seconds },
        matched_age_seconds: report.analysis.matched_age_seconds.filter(|_| !lab),
    };
    let caption = match (lab, report.has_days()) {
        (false, _) => format!(
            "{metric} over age: median over the services of an arm, shaded its 95% interval (order statistics), where at least half \
             of them have readings. Dashed upright: the matched age.{}",
            canvas.without_age()
        ),
        (true, true) => format!(
            "{metric} of relays at the end of the rest after each consensus, one an hour of their lives; thick: the median of an arm."
        ),
        (true, false) => {
            format!(
                "{metric} of the services over their age; thick: the median of an arm. Shaded: warm-up, excluded from levels."
            )
        }
    };
    let along =
        if lab && report.has_days() { "age by consensuses, one an hour" } else { "age of the service" };
    let (height, description, body) = draw(&lines, metric, along, &marks)?;
    let chart = canvas.chart("memory-over-time", "Memory over time", caption, height);
    Some(Chart { description, body, ..chart })
}

fn of_arm(canvas: Canvas<'_>, arm: usize) -> ArmLine {
    let lab = canvas.report.kind.is_lab();
    let counted = canvas.counted(arm);
    let service = |index: &usize| {
        (canvas.report.services[*index].name.clone(), canvas.trajectories.services[*index].segments.clone())
    };
    ArmLine {
        style: canvas.style(arm),
        name: canvas.report.arms[arm].name.clone(),
        median: canvas.median_line(arm),
        band: if lab { Vec::new() } else { canvas.median_band(arm) },
        services: match lab && counted.len() > 1 {
            true => counted.iter().map(service).collect(),
            false => Vec::new(),
        },
        // On hosts excluded services may be among those of the mean.
        value: canvas.report.arms[arm].final_bytes().filter(|_| lab),
    }
}

/// Of a trial that still runs, for the dashboard: what was read, and nothing that only a look may show. An interval between planned
/// looks is a look that nobody planned.
pub(crate) fn of_running(fleet: &Fleet, styles: &ArmStyles, metric: Metric) -> Option<Chart> {
    let is_compliant = |index: &usize| {
        let current = fleet.services[*index].current();
        current.is_some_and(|life| life.contamination.is_none())
    };
    let shown: Vec<(usize, usize, bool)> = (0..fleet.services.len())
        .filter(is_compliant)
        .flat_map(|index| fleet.services[index].arms.iter().map(move |arm| (index, *arm, false)))
        .collect();
    let trajectories = Trajectories::of(fleet, &shown, false);
    let lines: Vec<ArmLine> = fleet
        .arms
        .iter()
        .enumerate()
        .map(|(arm, figures)| {
            let services: Vec<usize> = (0..shown.len()).filter(|place| shown[*place].1 == arm).collect();
            ArmLine {
                style: styles.get(arm),
                name: figures.name.clone(),
                median: trajectories.median_line(&services),
                band: trajectories.range(&services),
                services: Vec::new(),
                value: None,
            }
        })
        .collect();
    let metric = metric_name(metric);
    let marks = Marks { band_class: "range", ..Marks::default() };
    let (height, description, body) = draw(&lines, metric, "age of the service", &marks)?;
    let excluded = match fleet.services.len() - (0..fleet.services.len()).filter(is_compliant).count() {
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
fn draw(all: &[ArmLine], metric: &str, along: &str, marks: &Marks) -> Option<(f64, String, String)> {
    let lines: Vec<&ArmLine> = all.iter().filter(|line| line.last().is_some()).collect();
    let points = || lines.iter().flat_map(|line| line.points());
    let longest = points().map(|point| point.0).fold(0.0, f64::max);
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    if highest <= 0.0 {
        return None;
    }
    let mut plot = Plot::beside_labels(52.0, 330.0, lines.iter().map(|line| line.name.as_str()));
    let x = Scale::time(longest, 8, plot.across());
    let y = Scale::memory(highest, 5, plot.upwards());
    let (left, top, bottom) = (plot.left, plot.top, plot.bottom);
    let warm_up = x.at(marks.warm_up_seconds);
    plot.push(rectangle("warm", (left, top), warm_up - left, bottom - top));
    if warm_up - left > text_width("warm-up", 11.0) + 8.0 {
        plot.push(text("quiet small middle", ((left + warm_up) / 2.0, top + 14.0), "warm-up"));
    }
    plot.axis_left(&y, &format!("{metric} ({})", y.unit));
    plot.axis_below(bottom, ticks(&x), &format!("{along} ({})", x.unit));
    let place = |point: &Point| (x.at(point.0), y.at(point.1));
    let places =
        |runs: &[Vec<Point>]| runs.iter().map(|run| run.iter().map(place).collect()).collect::<Vec<_>>();
    for line in lines.iter().rev() {
        let band = line.band.iter().map(|run| {
            run.iter().map(|(age, low, high)| (x.at(*age), y.at(*low), y.at(*high))).collect::<Vec<_>>()
        });
        if !line.band.is_empty() {
            plot.band(marks.band_class, line.style, band);
        }
        for (name, runs) in &line.services {
            plot.named_line(&format!("thin {}", line.style.line_class()), name, places(runs));
        }
    }
    if let Some(matched) = marks.matched_age_seconds {
        plot.push(line("control", (x.at(matched), top), (x.at(matched), bottom)));
    }
    for line in lines.iter().rev() {
        plot.line(line.style, places(&line.median));
    }
    let ends = || lines.iter().filter_map(|line| Some((line, line.last()?)));
    let label = |(line, end): (&&'_ ArmLine, Point)| {
        (line.style, line.name.clone(), line.value.unwrap_or(end.1), y.at(end.1))
    };
    let labels: Vec<(ArmStyle, String, f64, f64)> = ends().map(label).collect();
    plot.labels(
        labels
            .iter()
            .map(|(style, name, bytes, at)| Label { style: *style, name, bytes: *bytes, at: *at })
            .collect(),
    );
    for (line, end) in ends() {
        plot.push(line.style.marker(place(&end), 4.5));
    }
    let values: Vec<String> = labels.iter().map(|(_, name, bytes, _)| named_value(name, *bytes)).collect();
    Some((bottom + FOOT, format!("At the end: {}.", values.join(", ")), plot.body()))
}
