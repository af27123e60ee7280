//! A fleet over calendar time: memory of arms, and what happened when.

use heaptrial_model::EventKind;
use heaptrial_stats::{median, quantile};
use rayon::prelude::*;

use super::bins::{Grid, Point, runs, usual_interval};
use super::trajectory::points;
use crate::analysis::{Fleet, FleetService};

/// Moments at which memory is given, at most.
const MOMENTS: usize = 240;
/// What happened within so small a share of the whole time is one mark.
const MARKS: f64 = 90.0;

/// A fleet over calendar time. Times are in seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calendar {
    pub span: (f64, f64),
    /// Memory of each arm, in their order, over the services that belong to it: runs without a gap.
    pub arms: Vec<Vec<Vec<Moment>>>,
    /// What happened, in order of time.
    pub marks: Vec<Mark>,
}

/// Memory of an arm at a moment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Mean time of the readings.
    pub at: f64,
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happened {
    /// A service was seen to start for the first time.
    Start,
    Restart,
    /// An event of this kind.
    Event(EventKind),
}

/// Alike things that happened at about the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// When the first of them happened.
    pub at: f64,
    pub happened: Happened,
    pub count: u32,
}

impl Calendar {
    /// Of `shown`: a service, an arm, and whether the service is excluded there. Lives that were contaminated are not averaged.
    /// `None` without readings.
    pub(crate) fn of(fleet: &Fleet, shown: &[(usize, usize, bool)]) -> Option<Self> {
        let lives = || fleet.services.iter().flat_map(|service| &service.lives);
        let first = lives().filter_map(|life| points(life, life.started_at).next());
        let last = lives().filter_map(|life| points(life, life.started_at).last());
        let first = first.map(|point| point.0).min_by(f64::total_cmp)?;
        let last = last.map(|point| point.0).max_by(f64::total_cmp)?;
        let grid = Grid::new((first, last), usual_interval(fleet)?, MOMENTS);
        let levels = |service: &FleetService| {
            let lives = service.lives.iter().filter(|life| life.contamination.is_none());
            let points: Vec<Point> = lives.flat_map(|life| points(life, life.started_at)).collect();
            grid.levels(&points)
        };
        let counted: Vec<Vec<Option<Point>>> = fleet.services.par_iter().map(levels).collect();
        let arm = |arm: usize| {
            let own = shown.iter().filter(|(_, of, excluded)| *of == arm && !excluded);
            let own: Vec<&[Option<Point>]> = own.map(|(index, ..)| counted[*index].as_slice()).collect();
            moments(&own)
        };
        Some(Self {
            span: (first, last),
            arms: (0..fleet.arms.len()).map(arm).collect(),
            marks: marks(fleet, (first, last)),
        })
    }

    /// Seconds from the first to the last reading.
    pub fn seconds(&self) -> f64 {
        self.span.1 - self.span.0
    }
}

/// Median and quartiles over services, in runs without a gap.
fn moments(services: &[&[Option<Point>]]) -> Vec<Vec<Moment>> {
    let quartiles =
        |values: &[f64]| Some((quantile(values, 0.25)?, median(values)?, quantile(values, 0.75)?));
    let moment = |(at, (low, median, high)): (f64, (f64, f64, f64))| Moment { at, low, median, high };
    runs(services, quartiles).into_iter().map(|run| run.into_iter().map(moment).collect()).collect()
}

/// What happened between the first and the last reading; alike things together where they are near.
fn marks(fleet: &Fleet, (first, last): (f64, f64)) -> Vec<Mark> {
    let lives = fleet.services.iter().flat_map(|service| service.lives.iter().enumerate());
    let starts = lives.filter_map(|(place, life)| match place {
        // The start of the first life is known, or that life is only what was there.
        0 if !life.age_known() => None,
        0 => Some((Happened::Start, life.started_at)),
        _ => Some((Happened::Restart, life.started_at)),
    });
    let events = fleet.events.iter().map(|event| (Happened::Event(event.kind.clone()), event.at));
    let mut all: Vec<(Happened, f64)> =
        starts.chain(events).filter(|(_, at)| (first..=last).contains(at)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let near = (last - first) / MARKS;
    let mut marks: Vec<Mark> = Vec::new();
    for (happened, at) in all {
        match marks.last_mut().filter(|mark| mark.happened == happened && at - mark.at <= near) {
            Some(mark) => mark.count += 1,
            None => marks.push(Mark { at, happened, count: 1 }),
        }
    }
    marks.sort_by(|a, b| a.at.total_cmp(&b.at).then_with(|| a.happened.cmp(&b.happened)));
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{FleetArm, FleetEvent, FleetLife};
    use heaptrial_model::{LifeStart, Reading};

    const HOUR: f64 = 3600.0;
    const BEGIN: f64 = 1_760_000_000.0;

    /// A life that is read at these hours after the first reading of all.
    fn life(started: f64, hours: impl Iterator<Item = f64>, kib: u32) -> FleetLife {
        let reading = |hour: f64| Reading { age_seconds: ((hour - started) * HOUR) as f32, kib };
        FleetLife {
            started_at: BEGIN + started * HOUR,
            start: LifeStart::Observed,
            contamination: None,
            proved: true,
            readings: hours.map(reading).collect(),
            rolled_up_seconds: 0.0,
            peaks: Vec::new(),
            work: Default::default(),
        }
    }

    fn service(lives: Vec<FleetLife>) -> FleetService {
        FleetService { arms: vec![0], lives, ..FleetService::default() }
    }

    fn fleet(services: Vec<FleetService>) -> (Fleet, Vec<(usize, usize, bool)>) {
        let shown = (0..services.len()).map(|index| (index, 0, false)).collect();
        (Fleet { arms: vec![FleetArm::default()], services, ..Fleet::default() }, shown)
    }

    fn hours(from: i32, to: i32) -> impl Iterator<Item = f64> {
        (from..=to).map(f64::from)
    }

    #[test]
    fn a_gap_is_a_gap() {
        let read = || hours(1, 20).chain(hours(60, 80));
        let services: Vec<FleetService> = (1..=3)
            .map(|number| {
                let upto = if number == 3 { 70.0 } else { 80.0 };
                service(vec![life(0.0, read().filter(|hour| *hour <= upto), 1024 * number)])
            })
            .collect();
        let (fleet, shown) = fleet(services);
        let calendar = Calendar::of(&fleet, &shown).unwrap();
        assert_eq!(calendar.span, (BEGIN + HOUR, BEGIN + 80.0 * HOUR));
        let runs = &calendar.arms[0];
        assert_eq!(runs.iter().map(Vec::len).collect::<Vec<_>>(), [20, 21]);
        assert!(runs[0].iter().all(|moment| moment.median == 2.0 * 1_048_576.0));
        assert_eq!(runs[1].last().unwrap().median, 1.5 * 1_048_576.0, "the third is read no more");
    }

    #[test]
    fn starts_restarts_and_events_are_grouped() {
        let services: Vec<FleetService> = (0..4)
            .map(|number| {
                let again = 48.0 + f64::from(number) * 0.1;
                service(vec![life(10.0, hours(11, 48), 10), life(again, hours(49, 200), 10)])
            })
            .chain([service(vec![FleetLife { start: LifeStart::Unknown, ..life(0.0, hours(0, 200), 9) }])])
            .collect();
        let (mut fleet, shown) = fleet(services);
        let event = |hour: f64, kind: &str| FleetEvent {
            host: None,
            at: BEGIN + hour * HOUR,
            arm: None,
            service: None,
            kind: EventKind::from(kind),
            changes_treatment: false,
            text: String::new(),
        };
        fleet.events =
            vec![event(-5.0, "before"), event(100.0, "crash"), event(100.5, "crash"), event(150.0, "oom")];
        let marks = Calendar::of(&fleet, &shown).unwrap().marks;
        let found: Vec<(f64, Happened, u32)> = marks
            .into_iter()
            .map(|mark| (((mark.at - BEGIN) / HOUR).round(), mark.happened, mark.count))
            .collect();
        let kind = |kind: &str| Happened::Event(EventKind::from(kind));
        assert_eq!(
            found,
            [
                (10.0, Happened::Start, 4),
                (48.0, Happened::Restart, 4),
                (100.0, kind("crash"), 2),
                (150.0, kind("oom"), 1)
            ]
        );
    }

    #[test]
    fn excluded_services_and_contaminated_lives_are_not_averaged() {
        let mut services: Vec<FleetService> =
            (0..3).map(|_| service(vec![life(0.0, hours(0, 50), 10)])).collect();
        services.push(service(vec![life(0.0, hours(0, 50), 1000)]));
        let contaminated =
            FleetLife { contamination: Some("other".to_owned()), ..life(0.0, hours(0, 20), 1000) };
        services.push(service(vec![contaminated, life(20.5, hours(21, 50), 10)]));
        let (fleet, mut shown) = fleet(services);
        shown[3].2 = true;
        let calendar = Calendar::of(&fleet, &shown).unwrap();
        assert!(calendar.arms[0].iter().flatten().all(|moment| moment.high == 10.0 * 1024.0));
    }
}
