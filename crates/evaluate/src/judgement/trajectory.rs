//! The series of the services, thinned to what a chart can show.

use heaptrial_stats::{median, median_interval};
use rayon::prelude::*;

use super::bins::{Grid, Point, runs, usual_interval};
use super::calendar::Calendar;
use crate::analysis::{Fleet, FleetLife, longest_distance};

/// Bins of age of a chart: a service's line has the lowest and the highest reading of each, one over services the median.
const BINS: usize = 150;
/// The same of all lines of a report together.
const ALL_LINE_BINS: usize = 5_400;
/// Services of an arm that have a line, besides its excluded ones.
const LINES_PER_ARM: usize = 30;

/// The thinned series of all services of a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trajectories {
    /// One for each service of the report, in the same order.
    pub services: Vec<Trajectory>,
    /// The fleet over calendar time; a lab run has none.
    pub calendar: Option<Calendar>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trajectory {
    pub arm: usize,
    /// At most 300 readings, the extremes among them, split where readings are missing. Empty where the service has
    /// no line of its own.
    pub segments: Vec<Vec<Point>>,
    /// Of each bin of age, from age 0, the mean age of its readings and their median.
    pub levels: Vec<Option<Point>>,
}

impl Trajectory {
    pub fn last_age(&self) -> Option<f64> {
        self.segments.last()?.last().map(|point| point.0)
    }
}

impl Trajectories {
    /// Of the services of a fleet: `shown` are positions of a service and an arm, in the order of the report, and whether the
    /// service is excluded there. A service that is restarted on purpose has its lives one after the other. A service whose start
    /// is unknown has no age, and no line, unless all ages are lower bounds.
    pub fn of(fleet: &Fleet, shown: &[(usize, usize, bool)], ages_are_lower_bounds: bool) -> Self {
        let by_age: Vec<ByAge> = (0..fleet.services.len())
            .into_par_iter()
            .map(|index| ByAge::of(fleet, index, ages_are_lower_bounds))
            .collect();
        let last = by_age.iter().filter_map(|service| service.points.last());
        let horizon = last.map(|point| point.0).fold(0.0, f64::max);
        let grid = Grid::new((0.0, horizon), usual_interval(fleet).unwrap_or(0.0), BINS);
        let drawn = drawn(fleet, shown, &by_age);
        let lines = drawn.iter().filter(|drawn| **drawn).count().max(1);
        let bins = (ALL_LINE_BINS / lines).clamp(1, BINS);
        let services = shown.par_iter().zip(&drawn).map(|((index, arm, _), drawn)| {
            let ByAge { points, rolled_up_seconds } = &by_age[*index];
            let runs = drawn.then(|| split_at_gaps(points, *rolled_up_seconds));
            Trajectory {
                arm: *arm,
                segments: runs.into_iter().flatten().map(|run| extremes(run, bins)).collect(),
                levels: grid.levels(points),
            }
        });
        let has_calendar = fleet.clock.has_calendar();
        Self {
            services: services.collect(),
            calendar: has_calendar.then(|| Calendar::of(fleet, shown)).flatten(),
        }
    }

    /// The median over `services` (positions) by age.
    pub fn median_line(&self, services: &[usize]) -> Vec<Vec<Point>> {
        runs(&self.levels_of(services), median)
    }

    /// The interval of the median over `services` (positions) by age: runs of age, lower and upper end.
    pub fn median_band(&self, services: &[usize], level: f64) -> Vec<Vec<(f64, f64, f64)>> {
        self.band(services, |values| median_interval(values, level)?.interval)
    }

    /// The lowest and the highest level of an arm's services by age: runs of age, low and high.
    pub fn range(&self, services: &[usize]) -> Vec<Vec<(f64, f64, f64)>> {
        self.band(services, |values| {
            let low = values.iter().copied().min_by(f64::total_cmp)?;
            Some((low, values.iter().copied().max_by(f64::total_cmp)?))
        })
    }

    fn band(
        &self,
        services: &[usize],
        ends: impl Fn(&[f64]) -> Option<(f64, f64)>,
    ) -> Vec<Vec<(f64, f64, f64)>> {
        let runs = runs(&self.levels_of(services), ends).into_iter();
        runs.map(|run| run.into_iter().map(|(age, (low, high))| (age, low, high)).collect()).collect()
    }

    fn levels_of(&self, services: &[usize]) -> Vec<&[Option<Point>]> {
        services.iter().filter_map(|index| Some(self.services.get(*index)?.levels.as_slice())).collect()
    }
}

/// The readings of a service by age; none where its age is not known.
#[derive(Default)]
struct ByAge {
    points: Vec<Point>,
    rolled_up_seconds: f64,
}

impl ByAge {
    fn of(fleet: &Fleet, index: usize, ages_are_lower_bounds: bool) -> Self {
        let service = &fleet.services[index];
        let is_restarted =
            service.arms.iter().any(|arm| fleet.arms.get(*arm).is_some_and(|arm| arm.restarted));
        let current = service.current().filter(|life| ages_are_lower_bounds || life.age_known());
        let lives: Vec<&FleetLife> =
            if is_restarted { service.lives.iter().collect() } else { current.into_iter().collect() };
        let begun = lives.first().map_or(0.0, |life| life.started_at);
        Self {
            points: lives.iter().flat_map(|life| points(life, life.started_at - begun)).collect(),
            rolled_up_seconds: lives.iter().map(|life| life.rolled_up_seconds).fold(0.0, f64::max),
        }
    }
}

/// The readings of a life that begins at a place of the axis.
pub(super) fn points(life: &FleetLife, begin: f64) -> impl Iterator<Item = Point> {
    life.readings
        .iter()
        .map(move |reading| (begin + f64::from(reading.age_seconds), f64::from(reading.kib) * 1024.0))
}

/// Which of `shown` have a line of their own: the excluded services of each arm, and services evenly spaced in its list.
fn drawn(fleet: &Fleet, shown: &[(usize, usize, bool)], by_age: &[ByAge]) -> Vec<bool> {
    let mut drawn: Vec<bool> = shown.iter().map(|(_, _, excluded)| *excluded).collect();
    for arm in 0..fleet.arms.len() {
        let of_arm = |i: &usize| {
            let (service, own, excluded) = shown[*i];
            own == arm && !excluded && !by_age[service].points.is_empty()
        };
        let own: Vec<usize> = (0..shown.len()).filter(of_arm).collect();
        let lines = own.len().min(LINES_PER_ARM);
        for line in 0..lines {
            drawn[own[line * own.len() / lines]] = true;
        }
    }
    drawn
}

/// The runs of points between gaps, where old ones stand for so many seconds each.
pub fn split_at_gaps(points: &[Point], rolled_up_seconds: f64) -> impl Iterator<Item = &[Point]> {
    let distances: Vec<f64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let longest = longest_distance(median(&distances).unwrap_or(0.0), rolled_up_seconds);
    points.chunk_by(move |a, b| b.0 - a.0 <= longest)
}

/// The lowest and the highest reading of each bin, in order of age; all readings where they are few.
pub fn extremes(points: &[Point], bins: usize) -> Vec<Point> {
    if points.len() <= 2 * bins {
        return points.to_vec();
    }
    let pairs = points.chunks(points.len().div_ceil(bins)).flat_map(|chunk| {
        let low = chunk.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let high = chunk.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let mut pair: Vec<Point> = low.into_iter().chain(high).copied().collect();
        pair.sort_by(|a, b| a.0.total_cmp(&b.0));
        pair
    });
    pairs.collect()
}
