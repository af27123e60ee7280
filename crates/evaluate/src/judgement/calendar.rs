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
    Event(EventKind),
}

/// Alike things that happened at about the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
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
