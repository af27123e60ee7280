//! Memory over calendar time, with what happened when.

use heaptrial_evaluate::judgement::{Calendar, Happened, Mark, Moment};

use super::legend::Label;
use super::plot::Plot;
use super::scale::Scale;
use super::svg::{element, group, line, text};
use super::{Canvas, Chart, metric_name, named_value, text_width};
use crate::text::stamp;
use crate::units;

const SHORTEST_SECONDS: f64 = 86_400.0;
const LANE: f64 = 18.0;
/// A restart of so large a share of the services is a line through the plot, as events are.
const MANY: f64 = 0.2;

struct Dates {
    span: (f64, f64),
    range: (f64, f64),
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
    let names: Vec<&str> = arms.iter().map(|arm| canvas.report.arms[arm.arm].name.as_str()).collect();
    let mut plot = Plot::beside_labels(66.0, 260.0, names.into_iter());
    let x = Dates { span: calendar.span, range: plot.across() };
    let y = Scale::memory(highest, 5, plot.upwards());
    let metric = metric_name(canvas.report.analysis.metric);
    plot.axis_left(&y, &format!("{metric} ({})", y.unit));
    happened(&mut plot, canvas, &calendar.marks, &x);
    let foot = plot.bottom + 12.0 + LANE;
    plot.axis_below(foot, x.ticks(8).into_iter(), &x.years());
    curves(&mut plot, canvas, &arms, (&x, &y));
    plot.labels(arms.iter().filter_map(|arm| label(canvas, arm, &y)).collect());
    let ends = arms.iter().filter_map(|arm| Some((arm, arm.runs.last()?.last()?)));
    let ends: Vec<String> =
        ends.map(|(arm, end)| named_value(&canvas.report.arms[arm.arm].name, end.median)).collect();
    let caption = format!(
        "{metric} by date: the median over the services of an arm that count, shaded the middle half of them. Services are of \
         different ages, so this shows when something happened and not which arm needs less. Uprights: events, and times at \
         which a fifth of all services or more were started. Lines end where nothing was read."
    );
    let chart = canvas.chart("over-calendar-time", "Memory over calendar time", caption, foot + 44.0);
    Some(Chart { description: format!("At the end: {}.", ends.join(", ")), body: plot.body(), ..chart })
}

/// Arms in order of memory.
fn arms<'a>(canvas: Canvas<'a>, calendar: &'a Calendar) -> Vec<ArmRuns<'a>> {
    let arms = canvas.ranked_arms().into_iter();
    let runs = arms.filter_map(|arm| Some(ArmRuns { arm, runs: calendar.arms.get(arm)? }));
    runs.filter(|arm| !arm.runs.is_empty()).collect()
}

fn label(canvas: Canvas<'_>, arm: &ArmRuns<'_>, y: &Scale) -> Option<Label> {
    let end = arm.runs.last()?.last()?.median;
    let name = canvas.report.arms[arm.arm].name.clone();
    Some(Label { style: canvas.style(arm.arm), name, bytes: end, at: y.at(end) })
}

fn curves(plot: &mut Plot, canvas: Canvas<'_>, arms: &[ArmRuns<'_>], (x, y): (&Dates, &Scale)) {
    for arm in arms.iter().rev() {
        let band = |moment: &Moment| (x.at(moment.at), y.at(moment.low), y.at(moment.high));
        let runs = arm.runs.iter().map(|run| run.iter().map(band).collect::<Vec<_>>());
        plot.band("range", canvas.style(arm.arm), runs);
    }
    for arm in arms.iter().rev() {
        let style = canvas.style(arm.arm);
        let place = |moment: &Moment| (x.at(moment.at), y.at(moment.median));
        plot.line(style, arm.runs.iter().map(|run| run.iter().map(place).collect::<Vec<_>>()));
        // A moment by itself makes no line.
        let alone = arm.runs.iter().filter(|run| run.len() == 1).flatten();
        let last = arm.runs.last().and_then(|run| run.last());
        alone.chain(last).for_each(|moment| plot.push(style.marker(place(moment), 4.0)));
    }
}

/// Starts, restarts and events in a lane below the plot.
fn happened(plot: &mut Plot, canvas: Canvas<'_>, marks: &[Mark], x: &Dates) {
    let (left, right, top) = (plot.left, plot.right, plot.top);
    let (base, foot) = (plot.bottom + 8.0, plot.bottom + 8.0 + LANE);
    plot.push(line("grid", (left, foot), (right, foot)));
    let services = canvas.report.services.len() as f64;
    let mut written = f64::NEG_INFINITY;
    for (number, mark) in marks.iter().enumerate() {
        let at = x.at(mark.at);
        let (label, is_event) = match &mark.happened {
            Happened::Event(kind) => (kind.as_str().to_owned(), true),
            Happened::Start => (units::counted(mark.count as usize, "start"), false),
            Happened::Restart => (units::counted(mark.count as usize, "restart"), false),
        };
        let stands_out = is_event || f64::from(mark.count) >= MANY * services;
        if stands_out {
            plot.push(line("moment", (at, top), (at, base)));
        }
        let depth = if stands_out { LANE - 1.0 } else { 8.0 };
        let tick = line("happened", (at, foot - depth), (at, foot));
        let title = format!("{label}, {}", stamp(mark.at, "%Y-%m-%d %H:%M UTC"));
        plot.push(group("mark").child(element("title").text(&title)).child(tick));
        // A label that would run into its neighbour is in its title and in the list of events.
        let width = text_width(&label, 11.0);
        let next = marks.get(number + 1).map_or(right, |next| x.at(next.at));
        if at + 4.0 >= written && at + 4.0 + width <= next {
            plot.push(text("quiet small halo", (at + 4.0, base + 12.0), &label));
            written = at + 8.0 + width;
        }
    }
}

impl Dates {
    fn years(&self) -> String {
        let year = |at: f64| stamp(at, "%Y");
        match (year(self.span.0), year(self.span.1)) {
            (first, last) if first == last => format!("{first}, UTC"),
            (first, last) => format!("{first} to {last}, UTC"),
        }
    }

    fn at(&self, time: f64) -> f64 {
        let share = (time - self.span.0) / (self.span.1 - self.span.0).max(1.0);
        self.range.0 + (self.range.1 - self.range.0) * share.clamp(0.0, 1.0)
    }

    /// At most `wanted` moments, midnights or full hours of UTC, and their labels.
    fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        const HOUR: f64 = 3600.0;
        const STEPS: [f64; 14] =
            [1.0, 2.0, 3.0, 6.0, 12.0, 24.0, 48.0, 72.0, 168.0, 336.0, 720.0, 1440.0, 4320.0, 8760.0];
        let hours = (self.span.1 - self.span.0) / HOUR;
        let longest = STEPS[STEPS.len() - 1];
        let fits = |step: &&f64| hours / **step <= wanted as f64;
        let further = || longest * (hours / wanted as f64 / longest).ceil();
        let step = HOUR * STEPS.iter().find(fits).copied().unwrap_or_else(further);
        let first = (self.span.0 / step).ceil() as i64;
        let last = (self.span.1 / step).floor() as i64;
        let label = |time: f64| {
            let midnight = time.rem_euclid(24.0 * HOUR) == 0.0;
            stamp(time, if midnight { "%-d %b" } else { "%H:%M" })
        };
        (first..=last).map(|tick| tick as f64 * step).map(|time| (self.at(time), label(time))).collect()
    }
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
