//! Memory over calendar time, with what happened when, and how many services were read.

use std::collections::BTreeMap;

use heaptrial_judgement::{Calendar, Happened, Mark, Moment, Step};
use jiff::Timestamp;

use super::legend::{self, Label};
use super::scale::Scale;
use super::svg::{Element, element, group, line, path_data, text};
use super::{Canvas, Chart, WIDTH, metric_name, named_value, text_width};
use crate::escape;

/// Shorter trials have no calendar.
const SHORTEST_SECONDS: f64 = 86_400.0;
const LANE: f64 = 18.0;
const STRIP: f64 = 46.0;
/// A restart of so large a share of the services is a line through the plot, as events are.
const MANY: f64 = 0.2;
/// Kinds of events that the caption names.
const KINDS_NAMED: usize = 6;

/// From calendar time to coordinates.
struct Dates {
    span: (f64, f64),
    range: (f64, f64),
}

/// Where the parts of the chart are.
struct Plot {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

struct ArmRuns<'a> {
    arm: usize,
    runs: &'a [Vec<Moment>],
}

pub(super) fn draw(canvas: Canvas<'_>) -> Option<Chart> {
    let calendar = canvas.trajectories.calendar.as_ref().filter(|all| all.seconds() >= SHORTEST_SECONDS)?;
    let arms: Vec<ArmRuns<'_>> = arms(canvas, calendar);
    let highest = arms.iter().flat_map(|arm| arm.runs.iter().flatten()).map(|moment| moment.high);
    let highest = highest.max_by(f64::total_cmp)?;
    let plot = plot(canvas, &arms);
    let x = Dates { span: calendar.span, range: (plot.left, plot.right) };
    let y = Scale::memory(highest, 5, (plot.bottom, plot.top));
    let metric = metric_name(canvas.report.analysis.metric);
    let lanes = lanes(&calendar.marks);
    let strip = plot.bottom + 8.0 + lanes.len() as f64 * LANE + 14.0;
    let foot = strip + STRIP;
    let mut chart = canvas.chart(
        "over-calendar-time",
        "Memory over calendar time",
        caption(canvas, calendar),
        foot + 44.0,
    );
    let ends = arms.iter().filter_map(|arm| Some((arm, arm.runs.last()?.last()?)));
    let ends: Vec<String> =
        ends.map(|(arm, end)| named_value(&canvas.report.arms[arm.arm].name, end.median)).collect();
    chart.description = format!("At the end: {}.", ends.join(", "));

    let mut body = group("plot");
    body.push(text("quiet", (8.0, 18.0), &format!("{metric} ({})", y.unit)));
    for tick in &y.ticks {
        let at = y.at(tick.value);
        body.push(line(if tick.value == 0.0 { "axis" } else { "grid" }, (plot.left, at), (plot.right, at)));
        body.push(text("quiet end", (plot.left - 8.0, at + 4.0), &tick.label));
    }
    for (number, (name, marks)) in lanes.iter().enumerate() {
        let base = plot.bottom + 8.0 + number as f64 * LANE;
        lane(&mut body, canvas, name, marks, base, (&plot, &x));
    }
    services_read(&mut body, calendar, strip, (&plot, &x));
    dates(&mut body, &x, foot);
    curves(&mut body, canvas, &arms, (&x, &y));
    let mut labels: Vec<Label<'_>> = arms.iter().filter_map(|arm| label(canvas, arm, &y)).collect();
    let labels = legend::beside(&mut labels, (plot.right, WIDTH), (plot.top + 4.0, plot.bottom - 2.0));
    labels.into_iter().for_each(|label| body.push(label));
    chart.body = body.to_string();
    Some(chart)
}

/// Arms in order of memory.
fn arms<'a>(canvas: Canvas<'a>, calendar: &'a Calendar) -> Vec<ArmRuns<'a>> {
    let arms = canvas.ranked_arms().into_iter();
    let runs = arms.filter_map(|arm| Some(ArmRuns { arm, runs: calendar.arms.get(arm)? }));
    runs.filter(|arm| !arm.runs.is_empty()).collect()
}

fn plot(canvas: Canvas<'_>, arms: &[ArmRuns<'_>]) -> Plot {
    let names = arms.iter().map(|arm| canvas.report.arms[arm.arm].name.as_str());
    let depth = 260f64.max(arms.len() as f64 * legend::LABEL_DISTANCE);
    Plot { left: 66.0, right: WIDTH - legend::width_beside(names), top: 34.0, bottom: 34.0 + depth }
}

fn label<'a>(canvas: Canvas<'a>, arm: &ArmRuns<'_>, y: &Scale) -> Option<Label<'a>> {
    let end = arm.runs.last()?.last()?.median;
    let name = &canvas.report.arms[arm.arm].name;
    Some(Label { look: canvas.look(arm.arm), name, bytes: end, at: y.at(end) })
}

fn curves(body: &mut Element, canvas: Canvas<'_>, arms: &[ArmRuns<'_>], (x, y): (&Dates, &Scale)) {
    for arm in arms.iter().rev() {
        let outlines = arm.runs.iter().filter(|run| run.len() > 1).map(|run| {
            let upper = run.iter().map(|moment| (x.at(moment.at), y.at(moment.high)));
            let lower = run.iter().rev().map(|moment| (x.at(moment.at), y.at(moment.low)));
            upper.chain(lower).collect::<Vec<_>>()
        });
        let class = format!("range {}", canvas.look(arm.arm).fill_class());
        body.push(element("path").class(&class).attribute("d", &path_data(outlines)));
    }
    for arm in arms.iter().rev() {
        let look = canvas.look(arm.arm);
        let place = |moment: &Moment| (x.at(moment.at), y.at(moment.median));
        body.push(look.line("thick", &path_data(arm.runs.iter().map(|run| run.iter().map(place)))));
        // A moment by itself makes no line.
        let alone = arm.runs.iter().filter(|run| run.len() == 1).flatten();
        let last = arm.runs.last().and_then(|run| run.last());
        for moment in alone.chain(last) {
            body.push(look.marker(place(moment), 4.0));
        }
    }
}

/// Marks by what they are: starts, restarts and events.
fn lanes(marks: &[Mark]) -> Vec<(&'static str, Vec<&Mark>)> {
    let mut lanes: BTreeMap<(u8, &'static str), Vec<&Mark>> = BTreeMap::new();
    for mark in marks {
        let lane = match mark.happened {
            Happened::Start => (0, "starts"),
            Happened::Restart => (1, "restarts"),
            Happened::Event(_) => (2, "events"),
        };
        lanes.entry(lane).or_default().push(mark);
    }
    lanes.into_iter().map(|((_, name), marks)| (name, marks)).collect()
}

fn lane(
    body: &mut Element,
    canvas: Canvas<'_>,
    name: &str,
    marks: &[&Mark],
    base: f64,
    (plot, x): (&Plot, &Dates),
) {
    body.push(text("quiet small end", (plot.left - 8.0, base + 12.0), name));
    body.push(line("grid", (plot.left, base + LANE - 2.0), (plot.right, base + LANE - 2.0)));
    let services = canvas.report.services.len() as f64;
    let mut written = f64::NEG_INFINITY;
    for (number, mark) in marks.iter().enumerate() {
        let at = x.at(mark.at);
        let many = f64::from(mark.count) >= MANY * services;
        let is_event = matches!(mark.happened, Happened::Event(_));
        if many || is_event {
            body.push(line("moment", (at, plot.top), (at, base)));
        }
        let depth = if many || is_event { LANE - 3.0 } else { 8.0 };
        let tick = line("happened", (at, base + LANE - 2.0 - depth), (at, base + LANE - 2.0));
        let told = told(mark);
        let hover = format!("{told}, {}", moment(mark.at));
        body.push(group("mark").child(element("title").text(&hover)).child(tick));
        // What would run into its neighbours is left to the pointer, and to the list of events.
        let wanted = if is_event { told.clone() } else { mark.count.to_string() };
        let width = text_width(&wanted, 11.0);
        let next = marks.get(number + 1).map_or(plot.right, |next| x.at(next.at));
        if (is_event || mark.count > 1) && at + 4.0 >= written && at + 4.0 + width <= next {
            body.push(text("quiet small halo", (at + 4.0, base + 12.0), &wanted));
            written = at + 8.0 + width;
        }
    }
}

fn told(mark: &Mark) -> String {
    let (one, several) = match &mark.happened {
        Happened::Start => ("start".to_owned(), "starts".to_owned()),
        Happened::Restart => ("restart".to_owned(), "restarts".to_owned()),
        Happened::Event(kind) => {
            let kind = escape::printable(kind.as_str());
            (kind.clone(), format!("{kind} ×{}", mark.count))
        }
    };
    match (mark.count, &mark.happened) {
        (1, _) => one,
        (_, Happened::Event(_)) => several,
        (count, _) => format!("{count} {several}"),
    }
}

/// The number of services read as steps.
fn services_read(body: &mut Element, calendar: &Calendar, top: f64, (plot, x): (&Plot, &Dates)) {
    let bottom = top + STRIP;
    let most = calendar.read.iter().map(|step| step.services).max().unwrap_or(0);
    let at = |services: u32| bottom - STRIP * f64::from(services) / f64::from(most.max(1));
    body.push(line("axis", (plot.left, bottom), (plot.right, bottom)));
    body.push(line("grid", (plot.left, top), (plot.right, top)));
    body.push(text("quiet small end", (plot.left - 8.0, top + 4.0), &most.to_string()));
    body.push(text("quiet small end", (plot.left - 8.0, bottom + 4.0), "0"));
    let runs = calendar.read.chunk_by(|a, b| a.to == b.from).map(|run| {
        let ends = |step: &Step| {
            let across = at(step.services);
            [(x.at(step.from), across), (x.at(step.to), across)]
        };
        let mut points = Vec::from_iter(run.first().map(|first| (x.at(first.from), bottom)));
        points.extend(run.iter().flat_map(ends));
        points.extend(run.last().map(|last| (x.at(last.to), bottom)));
        points
    });
    let data = path_data(runs);
    body.push(element("path").class("read").attribute("d", &data));
    body.push(text("quiet small", (plot.left + 5.0, bottom - 6.0), "services read"));
}

fn dates(body: &mut Element, x: &Dates, top: f64) {
    for (at, label) in x.ticks(8) {
        body.push(line("axis", (at, top), (at, top + 5.0)));
        body.push(text("quiet middle", (at, top + 19.0), &label));
    }
    let year = |at: f64| stamp(at, "%Y");
    let years = match (year(x.span.0), year(x.span.1)) {
        (first, last) if first == last => first,
        (first, last) => format!("{first} to {last}"),
    };
    body.push(text("quiet end", (x.range.1, top + 37.0), &format!("{years}, UTC")));
}

fn caption(canvas: Canvas<'_>, calendar: &Calendar) -> String {
    let metric = metric_name(canvas.report.analysis.metric);
    let without = match () {
        () if canvas.report.services.iter().all(|service| service.counts) => "",
        () if canvas.report.kind().is_import() => ", without off-treatment services",
        () => ", without contaminated ones",
    };
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    for mark in &calendar.marks {
        if let Happened::Event(kind) = &mark.happened {
            *kinds.entry(escape::printable(kind.as_str())).or_default() += mark.count;
        }
    }
    let mut kinds: Vec<(String, u32)> = kinds.into_iter().collect();
    kinds.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let more = kinds.len().saturating_sub(KINDS_NAMED);
    let named: Vec<String> =
        kinds.iter().take(KINDS_NAMED).map(|(kind, count)| format!("{kind} {count}")).collect();
    let events = match (named.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(" Events: {}.", named.join(", ")),
        (false, more) => format!(" Events: {}, and {more} other kinds.", named.join(", ")),
    };
    format!(
        "{metric} by date: the median over the services of an arm that were read then{without}, shaded the middle half of \
         them. Services are of different ages, so that this tells when something happened and not which arm needs less. \
         Uprights: events, and times at which a fifth of all services or more were started; fewer are strokes \
         below. Lines end where nothing was read.{events}"
    )
}

impl Dates {
    fn at(&self, time: f64) -> f64 {
        let share = (time - self.span.0) / (self.span.1 - self.span.0).max(1.0);
        self.range.0 + (self.range.1 - self.range.0) * share.clamp(0.0, 1.0)
    }

    /// At most `wanted` moments, midnights or full hours of UTC, and their labels.
    fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        const HOUR: f64 = 3600.0;
        const STEPS: [f64; 14] =
            [1.0, 2.0, 3.0, 6.0, 12.0, 24.0, 48.0, 72.0, 168.0, 336.0, 720.0, 1440.0, 4320.0, 8760.0];
        let seconds = self.span.1 - self.span.0;
        let fits = |step: &&f64| seconds / (*step * HOUR) <= wanted as f64;
        let longest = STEPS[STEPS.len() - 1];
        let step = HOUR
            * STEPS
                .iter()
                .find(fits)
                .copied()
                .unwrap_or(longest * (seconds / wanted as f64 / longest / HOUR).ceil());
        let first = (self.span.0 / step).ceil() as i64;
        let last = (self.span.1 / step).floor() as i64;
        let label = |time: f64| {
            let midnight = time.rem_euclid(24.0 * HOUR) == 0.0;
            stamp(time, if midnight { "%-d %b" } else { "%H:%M" })
        };
        (first..=last).map(|tick| tick as f64 * step).map(|time| (self.at(time), label(time))).collect()
    }
}

fn moment(time: f64) -> String {
    stamp(time, "%Y-%m-%d %H:%M UTC")
}

fn stamp(time: f64, format: &str) -> String {
    let time = Timestamp::from_second(time as i64);
    time.map_or_else(|_| String::new(), |time| time.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_midnights_or_hours() {
        let labels = |days: f64| -> Vec<String> {
            let from = 1_767_225_600.0 + 3600.0;
            let dates = Dates { span: (from, from + days * 86_400.0), range: (0.0, 100.0) };
            dates.ticks(8).into_iter().map(|tick| tick.1).collect()
        };
        assert_eq!(labels(1.0), ["03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "2 Jan"]);
        assert_eq!(labels(4.0), ["12:00", "2 Jan", "12:00", "3 Jan", "12:00", "4 Jan", "12:00", "5 Jan"]);
        assert_eq!(labels(7.0), ["2 Jan", "3 Jan", "4 Jan", "5 Jan", "6 Jan", "7 Jan", "8 Jan"]);
        assert!(labels(4000.0).len() >= 2);
    }

    proptest! {
        #[test]
        fn ticks_are_few_and_inside(from in 0.0f64..4e9, seconds in 86_400.0f64..1e9, wanted in 2usize..10) {
            let dates = Dates { span: (from, from + seconds), range: (10.0, 500.0) };
            let ticks = dates.ticks(wanted);
            prop_assert!(ticks.len() <= wanted + 1, "{ticks:?}");
            prop_assert!(ticks.windows(2).all(|pair| pair[0].0 < pair[1].0));
            prop_assert!(ticks.iter().all(|tick| (10.0..=500.0).contains(&tick.0)));
        }
    }
}
