//! The memory of a service over its process lifetimes, for the dashboard.

use heaptrial_evaluate::judgement::{Point, extremes, split_at_gaps};
use heaptrial_model::Metric;

use super::plot::{FOOT, Plot, ticks};
use super::scale::Scale;
use super::svg::{line, text};
use super::{ArmStyle, Chart, WIDTH, metric_name, shorten};
use crate::text::stamp;
use crate::units;

/// Bins of the line of a process lifetime.
const BINS: usize = 300;

/// A process lifetime of a service, for its chart.
#[derive(Debug, Clone)]
pub struct LifeSeries {
    /// Start, in seconds since 1970.
    pub started_at: f64,
    /// What ran, such as `mimalloc 2.0.9`.
    pub label: String,
    /// Whether that was not the arm's treatment.
    pub contaminated: bool,
    /// Age in seconds and bytes, in order of age.
    pub points: Vec<Point>,
    /// Its older points stand for so many seconds each; 0 where all are readings as they were taken.
    pub rolled_up_seconds: f64,
}

pub(crate) fn draw(lives: &[LifeSeries], metric: Metric, style: ArmStyle) -> Option<Chart> {
    let read: Vec<&LifeSeries> = lives.iter().filter(|life| !life.points.is_empty()).collect();
    let first = read.iter().map(|life| life.started_at + life.points[0].0).fold(f64::INFINITY, f64::min);
    let at = |life: &LifeSeries, point: &Point| life.started_at + point.0 - first;
    let every = || read.iter().flat_map(|life| life.points.iter().map(|point| (at(life, point), point.1)));
    let (longest, highest) =
        every().fold((0.0, 0.0), |most: Point, point| (most.0.max(point.0), most.1.max(point.1)));
    if highest <= 0.0 {
        return None;
    }
    let mut plot = Plot::new((52.0, WIDTH - 14.0), (34.0, 284.0));
    let x = Scale::time(longest, 10, plot.across());
    let y = Scale::memory(highest, 5, plot.upwards());
    let metric = metric_name(metric);
    let (top, bottom) = (plot.top, plot.bottom);
    plot.axis_left(&y, &format!("{metric} ({})", y.unit));
    plot.axis_below(bottom, ticks(&x), &format!("since the first reading ({})", x.unit));
    let mut labelled = f64::NEG_INFINITY;
    for (number, life) in read.iter().enumerate() {
        let begin = x.at(at(life, &life.points[0]));
        let end = life.points.last().map_or(begin, |point| x.at(at(life, point)));
        if number > 0 {
            plot.push(line("control", (begin, top), (begin, bottom)));
        }
        let place = |point: Point| (x.at(at(life, &point)), y.at(point.1));
        let runs = split_at_gaps(&life.points, life.rolled_up_seconds)
            .map(|run| extremes(run, BINS).into_iter().map(place).collect());
        let class = if life.contaminated { "lost".to_owned() } else { style.line_class() };
        plot.named_line(&format!("life {class}"), &life.label, runs);
        let label = format!("{}{}", if life.contaminated { "non-compliant: " } else { "" }, life.label);
        let room = ((end - begin - 8.0) / (11.0 * 0.62)) as usize;
        if room >= 6 && begin >= labelled {
            plot.push(text("quiet small halo", (begin + 4.0, top + 12.0), &shorten(&label, room)));
            labelled = end;
        }
    }
    let last = read.last().and_then(|life| life.points.last()).map_or(0.0, |point| point.1);
    let caption = format!(
        "{metric} since the first reading on {}; a dashed upright is a restart, a dotted grey line a process that did not run its \
         arm's treatment. Nothing is drawn where nothing was read.",
        stamp(first, "%Y-%m-%d at %H:%M UTC")
    );
    let chart = Chart::new("lives", "Memory over its process lifetimes", caption, bottom + FOOT);
    let description =
        format!("{} process lifetimes, {} at the last reading.", read.len(), units::memory(last));
    Some(Chart { description, body: plot.body(), ..chart })
}
