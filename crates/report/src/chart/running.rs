//! Charts of a trial that still runs, for the dashboard: what was read, and nothing that a look would tell. An
//! interval seen between planned looks is a look that nobody planned.

use heaptrial_analysis::Fleet;
use heaptrial_judgement::{Level, Point, Trajectories, extremes, split_at_gaps};
use heaptrial_model::Metric;
use jiff::Timestamp;

use super::legend::{self, Label};
use super::scale::Scale;
use super::svg::{Element, element, group, line, path_data, rectangle, text};
use super::{Chart, Look, Looks, WIDTH, metric_name, named_value, shorten, text_width};
use crate::{escape, units};

/// Bins of a life's line.
const LIFE_BINS: usize = 300;

/// A life of a service, for its chart.
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

struct ArmLevels {
    name: String,
    look: Look,
    runs: Vec<Vec<Level>>,
}

impl ArmLevels {
    fn last(&self) -> Option<&Level> {
        self.runs.last()?.last()
    }

    fn median(&self) -> impl Iterator<Item = impl Iterator<Item = Point>> {
        self.runs.iter().map(|run| run.iter().map(|(age, _, middle, _)| (*age, *middle)))
    }

    fn range(&self) -> impl Iterator<Item = Vec<Point>> {
        self.runs.iter().filter(|run| run.len() > 1).map(|run| {
            let upper = run.iter().map(|(age, _, _, high)| (*age, *high));
            let lower = run.iter().rev().map(|(age, low, _, _)| (*age, *low));
            upper.chain(lower).collect()
        })
    }
}

struct Plot {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// The arms over age: median and range over the services that are not contaminated.
pub(crate) fn arms(fleet: &Fleet, looks: &Looks, metric: Metric) -> Option<Chart> {
    let clean = |index: &usize| {
        let current = fleet.services[*index].current();
        current.is_some_and(|life| life.contamination.is_none())
    };
    let shown: Vec<(usize, usize, bool)> = (0..fleet.services.len())
        .filter(clean)
        .flat_map(|index| fleet.services[index].arms.iter().map(move |arm| (index, *arm, false)))
        .collect();
    let trajectories = Trajectories::thin_fleet(fleet, &shown, false);
    let arms = fleet.arms.iter().enumerate().map(|(arm, figures)| ArmLevels {
        name: escape::printable(&figures.name),
        look: looks.get(arm),
        runs: trajectories.levels_of(arm),
    });
    let arms: Vec<ArmLevels> = arms.filter(|arm| arm.last().is_some()).collect();
    let every = || arms.iter().flat_map(|arm| arm.runs.iter().flatten());
    let longest = every().map(|level| level.0).fold(0.0, f64::max);
    let highest = every().map(|level| level.3).fold(0.0, f64::max);
    if arms.is_empty() || highest <= 0.0 {
        return None;
    }
    let plot = plot(&arms);
    let x = Scale::time(longest, 8, (plot.left, plot.right));
    let y = Scale::memory(highest, 5, (plot.bottom, plot.top));
    let mut body = group("plot");
    let metric = metric_name(metric);
    axes(&mut body, &plot, (&x, &y), &format!("{metric} ({})", y.unit), "age of the service");
    let place = |point: Point| (x.at(point.0), y.at(point.1));
    for arm in arms.iter().rev() {
        let outlines = arm.range().map(|run| run.into_iter().map(place).collect::<Vec<_>>());
        let class = format!("range {}", arm.look.fill_class());
        body.push(element("path").class(&class).attribute("d", &path_data(outlines)));
    }
    for arm in arms.iter().rev() {
        body.push(arm.look.line("thick", &path_data(arm.median().map(|run| run.map(place)))));
    }
    let mut labels = labels(&arms, &y);
    let labels = legend::beside(&mut labels, (plot.right, WIDTH), (plot.top + 4.0, plot.bottom - 2.0));
    labels.into_iter().for_each(|label| body.push(label));
    for arm in &arms {
        if let Some((age, _, middle, _)) = arm.last() {
            body.push(arm.look.marker(place((*age, *middle)), 4.5));
        }
    }
    let ends: Vec<String> =
        arms.iter().filter_map(|arm| Some(named_value(&arm.name, arm.last()?.2))).collect();
    let contaminated = (0..fleet.services.len()).filter(|index| !clean(index)).count();
    let left_out = match contaminated {
        0 => String::new(),
        1 => " One service is left out: contaminated, or never read.".to_owned(),
        several => format!(" {several} services are left out: contaminated, or never read."),
    };
    Some(Chart {
        name: "memory-over-time",
        title: "Memory over age".to_owned(),
        caption: format!(
            "{metric} of each arm: the line is the median over its services at that age, the shade goes from the lowest \
             to the highest of them, where at least half of them have readings. Descriptive: nothing here tells \
             whether arms differ.{left_out}"
        ),
        description: format!("At the end: {}.", ends.join(", ")),
        subtitle: String::new(),
        width: WIDTH,
        height: plot.bottom + 44.0,
        body: body.to_string(),
    })
}

/// The lives of a service one after the other.
pub(crate) fn lives(lives: &[LifeSeries], metric: Metric, look: Look) -> Option<Chart> {
    let read: Vec<&LifeSeries> = lives.iter().filter(|life| !life.points.is_empty()).collect();
    let first = read.iter().map(|life| life.started_at + life.points[0].0).fold(f64::INFINITY, f64::min);
    let at = |life: &LifeSeries, point: &Point| life.started_at + point.0 - first;
    let every = || read.iter().flat_map(|life| life.points.iter().map(|point| (at(life, point), point.1)));
    let (longest, highest) =
        every().fold((0.0, 0.0), |most: Point, point| (most.0.max(point.0), most.1.max(point.1)));
    if highest <= 0.0 {
        return None;
    }
    let plot = Plot { left: 52.0, right: WIDTH - 14.0, top: 34.0, bottom: 284.0 };
    let x = Scale::time(longest, 10, (plot.left, plot.right));
    let y = Scale::memory(highest, 5, (plot.bottom, plot.top));
    let mut body = group("plot");
    let metric = metric_name(metric);
    axes(&mut body, &plot, (&x, &y), &format!("{metric} ({})", y.unit), "since the first reading");
    let mut labelled = f64::NEG_INFINITY;
    for (number, life) in read.iter().enumerate() {
        let begin = x.at(at(life, &life.points[0]));
        let end = life.points.last().map_or(begin, |point| x.at(at(life, point)));
        if number > 0 {
            body.push(line("control", (begin, plot.top), (begin, plot.bottom)));
        }
        let runs = split_at_gaps(&life.points, life.rolled_up_seconds);
        let segments = runs.map(|run| extremes(run, LIFE_BINS));
        let place = |point: Point| (x.at(at(life, &point)), y.at(point.1));
        let data = path_data(segments.map(|run| run.into_iter().map(place).collect::<Vec<_>>()));
        let class = if life.contaminated { "lost".to_owned() } else { look.line_class() };
        let ran = escape::printable(&life.label);
        let path = element("path").class(&format!("life {class}")).attribute("d", &data);
        body.push(path.child(element("title").text(&ran)));
        let label = format!("{}{ran}", if life.contaminated { "contaminated: " } else { "" });
        let room = ((end - begin - 8.0) / (11.0 * 0.62)) as usize;
        // A name that would run into its neighbours is left to the table of lives.
        if room >= label.chars().count().min(9) && begin + 4.0 >= labelled {
            let label = shorten(&label, room);
            labelled = begin + 4.0 + text_width(&label, 11.0);
            body.push(text("quiet small halo", (begin + 4.0, plot.top + 12.0), &label));
        }
    }
    let since = Timestamp::from_second(first as i64);
    let since =
        since.map_or_else(|_| String::new(), |at| at.strftime(" on %Y-%m-%d at %H:%M UTC").to_string());
    let last = read.last().and_then(|life| life.points.last()).map_or(0.0, |point| point.1);
    Some(Chart {
        name: "lives",
        title: "Memory over its lives".to_owned(),
        caption: format!(
            "{metric} since the first reading{since}; a dashed upright is a restart, a dotted grey line a life that did not \
             run its arm's treatment. Nothing is drawn where nothing was read."
        ),
        description: format!("{} lives, {} at the last reading.", read.len(), units::memory(last)),
        subtitle: String::new(),
        width: WIDTH,
        height: plot.bottom + 44.0,
        body: body.to_string(),
    })
}

fn plot(arms: &[ArmLevels]) -> Plot {
    let right = legend::width_beside(arms.iter().map(|arm| arm.name.as_str()));
    let depth = 300f64.max(arms.len() as f64 * legend::LABEL_DISTANCE);
    Plot { left: 52.0, right: WIDTH - right, top: 34.0, bottom: 34.0 + depth }
}

fn axes(body: &mut Element, plot: &Plot, (x, y): (&Scale, &Scale), upright: &str, along: &str) {
    body.push(rectangle("ground", (plot.left, plot.top), plot.right - plot.left, plot.bottom - plot.top));
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
    body.push(text("quiet", (8.0, 18.0), upright));
    body.push(text("quiet end", (plot.right, plot.bottom + 37.0), &format!("{along} ({})", x.unit)));
}

/// What stands for the arms' lines.
fn labels<'a>(arms: &'a [ArmLevels], y: &Scale) -> Vec<Label<'a>> {
    let label = |arm: &'a ArmLevels| {
        let level = arm.last()?;
        Some(Label { look: arm.look, name: &arm.name, bytes: level.2, at: y.at(level.2) })
    };
    arms.iter().filter_map(label).collect()
}
