//! The series of the services, thinned to what a chart can show.

use crate::analysis::{Fleet, FleetLife, longest_distance};
use heaptrial_model::Reading;
use heaptrial_stats::{median, median_interval};
use rayon::prelude::*;

use crate::judgement::calendar::Calendar;

/// Bins of a service's line in a lab run; each gives its lowest and its highest reading.
const LINE_BINS: usize = 150;
/// The same in a field trial, of which there are many more services.
const FLEET_LINE_BINS: usize = 36;
/// Bins of the grid on which medians over services are taken.
const GRID_BINS: usize = 200;
/// The same in a field trial.
const FLEET_GRID_BINS: usize = 120;
/// Services of an arm of a field trial that have a line, beside its off-treatment services.
const LINES_PER_ARM: usize = 30;
/// Empty bins of the grid that a line bridges.
const BRIDGED_BINS: usize = 2;
/// A line over services of a field trial ends where fewer than this share of them have readings: from there on it
/// would be that of others.
const SHARE_OF_SERVICES: f64 = 0.5;

/// Age and memory: seconds and bytes.
pub type Point = (f64, f64);

/// The thinned series of all services of a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trajectories {
    /// One for each service of the report, in the same order.
    pub services: Vec<Trajectory>,
    /// Width of a bin of [`Trajectory::levels`] in seconds.
    pub bin_seconds: f64,
    /// The fleet over calendar time; a lab run has none.
    pub calendar: Option<Calendar>,
}

/// The thinned series of one service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trajectory {
    /// Position of its arm in the report.
    pub arm: usize,
    /// At most 300 readings, the extremes among them, split where readings are missing. Empty where the service has
    /// no line of its own.
    pub segments: Vec<Vec<Point>>,
    /// Of each bin of age, from age 0, the mean age of its readings and their median.
    pub levels: Vec<Option<Point>>,
}

/// A reading that has an age and memory.
pub trait Aged {
    /// Age in seconds.
    fn age_seconds(&self) -> f64;
    /// Memory in bytes.
    fn bytes(&self) -> f64;
}

impl Aged for Reading {
    fn age_seconds(&self) -> f64 {
        f64::from(self.age_seconds)
    }
    fn bytes(&self) -> f64 {
        f64::from(self.kib) * 1024.0
    }
}

impl Aged for Point {
    fn age_seconds(&self) -> f64 {
        self.0
    }
    fn bytes(&self) -> f64 {
        self.1
    }
}

impl Trajectories {
    /// Thins `series`: the position of the arm in the report, and the readings.
    pub fn thin<'a>(series: impl Iterator<Item = (usize, &'a [Reading])> + Clone) -> Self {
        let horizon = series.clone().filter_map(|(_, points)| points.last()).map(Aged::age_seconds);
        let horizon = horizon.fold(0.0, f64::max);
        let longest = series.clone().map(|(_, points)| points.len()).max().unwrap_or(0);
        let grid = Grid::new(horizon, longest, GRID_BINS);
        let services = series
            .map(|(arm, points)| Trajectory {
                arm,
                segments: split_at_gaps(points, 0.0).map(|run| extremes(run, LINE_BINS)).collect(),
                levels: grid.levels(points),
            })
            .collect();
        Self { services, bin_seconds: grid.bin_seconds, calendar: None }
    }

    /// Thins the services of a fleet: `shown` are positions of a service and an arm, in the order of the report, and
    /// whether the service is off treatment there. A service that is restarted on purpose has its lives one after the
    /// other. A service whose start is unknown has no age, and no line, unless all ages are lower bounds.
    pub fn thin_fleet(fleet: &Fleet, shown: &[(usize, usize, bool)], ages_are_lower_bounds: bool) -> Self {
        let restarted = |index: usize| {
            let arms = &fleet.services[index].arms;
            arms.iter().any(|arm| fleet.arms.get(*arm).is_some_and(|arm| arm.restarted))
        };
        let current = |index: usize| {
            let life = fleet.services[index].current();
            life.filter(|life| ages_are_lower_bounds || life.age_known())
        };
        let last_age = |index: usize| {
            let service = &fleet.services[index];
            if !restarted(index) {
                return current(index).and_then(|life| life.last_age()).unwrap_or(0.0);
            }
            let first = service.lives.first().map_or(0.0, |life| life.started_at);
            service.lives.last().map_or(0.0, |life| life.started_at - first + life.last_age().unwrap_or(0.0))
        };
        let horizon = (0..fleet.services.len()).map(last_age).fold(0.0, f64::max);
        let lives = fleet.services.iter().flat_map(|service| &service.lives);
        let longest = lives.map(|life| life.readings.len()).max().unwrap_or(0);
        let grid = Grid::new(horizon, longest, FLEET_GRID_BINS);
        let aged = |index: usize| restarted(index) || current(index).is_some();
        let drawn = drawn(fleet, shown, aged);
        let services = shown
            .par_iter()
            .zip(&drawn)
            .map(|((index, arm, _), drawn)| {
                let service = &fleet.services[*index];
                let rolled_up = |life: &FleetLife| life.rolled_up_seconds;
                if restarted(*index) {
                    let rolled_up = service.lives.iter().map(rolled_up).fold(0.0, f64::max);
                    return grid.trajectory(*arm, &end_to_end(service), rolled_up, *drawn);
                }
                let (readings, rolled_up) =
                    current(*index).map_or((&[][..], 0.0), |life| (&life.readings, rolled_up(life)));
                grid.trajectory(*arm, readings, rolled_up, *drawn)
            })
            .collect();
        Self { services, bin_seconds: grid.bin_seconds, calendar: Calendar::of(fleet, shown) }
    }

    /// The interval of the median over `services` (positions) for each bin of age: runs of age, lower and upper end.
    pub fn median_band(&self, services: &[usize], level: f64) -> Vec<Vec<(f64, f64, f64)>> {
        let mut runs: Vec<Vec<(f64, f64, f64)>> = Vec::new();
        let mut open = false;
        let needed = self.share_of(services);
        for bin in self.by_bin(services) {
            let Some((age, values)) = bin else {
                open = false;
                continue;
            };
            let interval = median_interval(&values, level)
                .filter(|_| values.len() as f64 >= needed)
                .and_then(|median| median.interval);
            match (interval, open) {
                (Some((low, high)), true) => {
                    if let Some(run) = runs.last_mut() {
                        run.push((age, low, high));
                    }
                }
                (Some((low, high)), false) => runs.push(vec![(age, low, high)]),
                (None, _) => {}
            }
            open = interval.is_some();
        }
        runs
    }

    /// The median line of [`Self::median_line`], which ends where fewer than half of `services` have readings.
    pub fn fleet_median_line(&self, services: &[usize]) -> Vec<Vec<Point>> {
        self.line(services, self.share_of(services))
    }

    /// The median over `services` (positions) for each bin of age, split where no service has readings.
    pub fn median_line(&self, services: &[usize]) -> Vec<Vec<Point>> {
        self.line(services, 0.0)
    }

    /// Medians of bins in which at least `needed` services have readings, split where none has.
    fn line(&self, services: &[usize], needed: f64) -> Vec<Vec<Point>> {
        let mut segments: Vec<Vec<Point>> = Vec::new();
        let mut empty = usize::MAX;
        for bin in self.by_bin(services) {
            let Some((age, values)) = bin else {
                empty = empty.saturating_add(1);
                continue;
            };
            if empty > BRIDGED_BINS {
                segments.push(Vec::new());
            }
            empty = 0;
            let level = median(&values).filter(|_| values.len() as f64 >= needed);
            if let Some((segment, level)) = segments.last_mut().zip(level) {
                segment.push((age, level));
            }
        }
        segments.retain(|segment| !segment.is_empty());
        segments
    }

    /// How many of `services` have to have readings: those without an age have none anywhere.
    fn share_of(&self, services: &[usize]) -> f64 {
        let aged = |index: &&usize| {
            self.services.get(**index).is_some_and(|service| service.levels.iter().any(Option::is_some))
        };
        SHARE_OF_SERVICES * services.iter().filter(aged).count() as f64
    }

    /// Of each bin of age the mean age of the readings of `services`, and the level of each service there.
    fn by_bin(&self, services: &[usize]) -> impl Iterator<Item = Option<(f64, Vec<f64>)>> {
        let bins = self.services.iter().map(|service| service.levels.len()).max().unwrap_or(0);
        (0..bins).map(move |bin| {
            let level = |index: &usize| self.services.get(*index)?.levels.get(bin).copied().flatten();
            let points: Vec<Point> = services.iter().filter_map(level).collect();
            let age = points.iter().map(|point| point.0).sum::<f64>() / points.len() as f64;
            (!points.is_empty()).then(|| (age, points.iter().map(|point| point.1).collect()))
        })
    }
}

impl Trajectory {
    /// Highest age in seconds.
    pub fn last_age(&self) -> Option<f64> {
        self.segments.last()?.last().map(|point| point.0)
    }
}

/// Which of `shown` have a line of their own: the off-treatment services of each arm, and services evenly spaced in its list.
fn drawn(fleet: &Fleet, shown: &[(usize, usize, bool)], aged: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut drawn: Vec<bool> = shown.iter().map(|(_, _, off_treatment)| *off_treatment).collect();
    for arm in 0..fleet.arms.len() {
        let of_arm = |i: &usize| shown[*i].1 == arm && !shown[*i].2 && aged(shown[*i].0);
        let own: Vec<usize> = (0..shown.len()).filter(of_arm).collect();
        let lines = own.len().min(LINES_PER_ARM);
        for line in 0..lines {
            drawn[own[line * own.len() / lines]] = true;
        }
    }
    drawn
}

/// The lives of a service on one axis, from its first start.
fn end_to_end(service: &crate::analysis::FleetService) -> Vec<Point> {
    let first = service.lives.first().map_or(0.0, |life| life.started_at);
    let lives = service.lives.iter();
    lives
        .flat_map(|life| {
            let offset = life.started_at - first;
            life.readings.iter().map(move |reading| (offset + reading.age_seconds(), reading.bytes()))
        })
        .collect()
}

#[derive(Debug, Clone, Copy)]
struct Grid {
    bins: usize,
    bin_seconds: f64,
}

impl Grid {
    /// Up to `horizon`, for series of `longest` readings at most, in `most` bins at most. No bin of a short series holds readings of two
    /// ages, whose median would be that of neither: the last one, which is at the horizon, has a bin of its own.
    fn new(horizon: f64, longest: usize, most: usize) -> Self {
        let within = longest.clamp(1, most);
        let bin_seconds = if horizon > 0.0 { horizon / within as f64 } else { 1.0 };
        Self { bins: within + usize::from(longest <= most), bin_seconds }
    }

    fn trajectory(self, arm: usize, points: &[impl Aged], rolled_up: f64, drawn: bool) -> Trajectory {
        let lines = |run| extremes(run, FLEET_LINE_BINS);
        let runs = drawn.then(|| split_at_gaps(points, rolled_up));
        let segments = runs.into_iter().flatten().map(lines).collect();
        Trajectory { arm, segments, levels: self.levels(points) }
    }

    fn levels(self, points: &[impl Aged]) -> Vec<Option<Point>> {
        // A little more: ages that are whole bins are not to fall short of them by rounding.
        let bin = |age: f64| ((age.max(0.0) / self.bin_seconds + 1e-6) as usize).min(self.bins - 1);
        let mut levels = vec![None; self.bins];
        for chunk in points.chunk_by(|a, b| bin(a.age_seconds()) == bin(b.age_seconds())) {
            let values: Vec<f64> = chunk.iter().map(Aged::bytes).collect();
            let age = chunk.iter().map(Aged::age_seconds).sum::<f64>() / chunk.len() as f64;
            levels[bin(chunk[0].age_seconds())] = median(&values).map(|level| (age, level));
        }
        levels
    }
}

/// The runs of points between gaps, where old ones stand for so many seconds each.
pub fn split_at_gaps<P: Aged>(points: &[P], rolled_up_seconds: f64) -> impl Iterator<Item = &[P]> {
    let mut distances: Vec<f64> =
        points.windows(2).map(|pair| pair[1].age_seconds() - pair[0].age_seconds()).collect();
    let middle = distances.len() / 2;
    let usual = match distances.get(middle) {
        Some(_) => *distances.select_nth_unstable_by(middle, f64::total_cmp).1,
        None => 0.0,
    };
    let longest = longest_distance(usual, rolled_up_seconds);
    points.chunk_by(move |a, b| b.age_seconds() - a.age_seconds() <= longest)
}

/// The lowest and the highest reading of each bin, in order of age; all readings where they are few.
pub fn extremes<P: Aged>(points: &[P], bins: usize) -> Vec<Point> {
    let point = |p: &P| (p.age_seconds(), p.bytes());
    if points.len() <= 2 * bins {
        return points.iter().map(point).collect();
    }
    let pairs = points.chunks(points.len().div_ceil(bins)).flat_map(|chunk| {
        let low = chunk.iter().min_by(|a, b| a.bytes().total_cmp(&b.bytes()));
        let high = chunk.iter().max_by(|a, b| a.bytes().total_cmp(&b.bytes()));
        let mut pair: Vec<Point> = low.into_iter().chain(high).map(point).collect();
        pair.sort_by(|a, b| a.0.total_cmp(&b.0));
        pair
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Readings of ages in seconds and KiB.
    fn series(values: &[(f64, u64)]) -> Vec<Reading> {
        let reading = |(age, kib): &(f64, u64)| Reading { age_seconds: *age as f32, kib: *kib as u32 };
        values.iter().map(reading).collect()
    }

    #[test]
    fn a_gap_splits_the_line() {
        let points = series(&[(0.0, 1), (1.0, 2), (2.0, 3), (30.0, 4), (31.0, 5)]);
        let thin = Trajectories::thin([(0, points.as_slice())].into_iter());
        let lengths: Vec<usize> = thin.services[0].segments.iter().map(Vec::len).collect();
        assert_eq!(lengths, [3, 2]);
    }

    #[test]
    fn what_was_rolled_up_is_no_gap() {
        let ages =
            (0..20).map(|i| f64::from(i) * 900.0).chain((0..200).map(|i| 18_000.0 + f64::from(i) * 60.0));
        let points: Vec<Point> = ages.map(|age| (age, 1.0)).collect();
        assert_eq!(split_at_gaps(&points, 900.0).count(), 1);
        assert_eq!(split_at_gaps(&points, 0.0).count(), 21);
    }

    #[test]
    fn the_median_line_is_taken_over_services_at_equal_age() {
        let flat = |bytes| series(&(0..40).map(|i| (f64::from(i), bytes)).collect::<Vec<_>>());
        let all = [flat(10), flat(20), flat(90)];
        let thin = Trajectories::thin(all.iter().map(|points| (0, points.as_slice())));
        let line = thin.median_line(&[0, 1, 2]);
        assert_eq!(line.len(), 1);
        assert!(line[0].iter().all(|point| point.1 == 20.0 * 1024.0), "{line:?}");
        assert!(thin.median_line(&[]).is_empty());
    }

    #[test]
    fn every_reading_of_a_short_series_is_on_the_median_line() {
        for count in [1, 2, 7, 17, 83, 120] {
            // Hours of a relay's life, one for each consensus.
            let points = series(&(1..=count).map(|k| (3600.0 * f64::from(k), k as u64)).collect::<Vec<_>>());
            let thin = Trajectories::thin([(0, points.as_slice())].into_iter());
            let line = thin.median_line(&[0]).concat();
            let told: Vec<f64> = line.iter().map(|point| point.1 / 1024.0).collect();
            assert_eq!(told, (1..=count).map(f64::from).collect::<Vec<_>>(), "{count}");
        }
    }

    #[test]
    fn a_median_line_ends_where_its_services_end() {
        // Bins are wider than the distance of readings: their middles would lie beyond the last ones.
        let points: Vec<(f64, u64)> = (0..1000).map(|i| (f64::from(i), 7)).collect();
        let all = [series(&points), series(&points[..501])];
        let thin = Trajectories::thin(all.iter().map(|points| (0, points.as_slice())));
        let line = thin.median_line(&[1]);
        assert!(line[0].last().unwrap().0 <= 500.0, "{line:?}");
    }

    #[test]
    fn a_service_of_unknown_start_is_not_drawn_by_age() {
        use crate::analysis::{FleetArm, FleetLife, FleetService};
        use heaptrial_model::LifeStart;
        let service = |start, age_seconds| FleetService {
            arms: vec![0],
            lives: vec![FleetLife {
                started_at: 0.0,
                start,
                contamination: None,
                proved: false,
                readings: vec![Reading { age_seconds, kib: 4 }],
                rolled_up_seconds: 0.0,
                peaks: Vec::new(),
                work: Default::default(),
            }],
            ..FleetService::default()
        };
        let known = service(LifeStart::Inferred { uncertainty_us: 0 }, 100.0);
        let fleet = Fleet {
            arms: vec![FleetArm::default()],
            services: vec![known, service(LifeStart::Unknown, 900.0)],
            ..Fleet::default()
        };
        let drawn = |bounds| {
            let thin = Trajectories::thin_fleet(&fleet, &[(0, 0, false), (1, 0, false)], bounds);
            thin.services.iter().map(|service| service.segments.len()).collect::<Vec<_>>()
        };
        assert_eq!((drawn(false), drawn(true)), (vec![1, 0], vec![1, 1]));
    }

    proptest! {
        #[test]
        fn thinning_keeps_the_extremes_and_the_order(values in prop::collection::vec(1u64..1_000_000, 1..3000)) {
            let points = series(&values.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect::<Vec<_>>());
            let thin = Trajectories::thin([(0, points.as_slice())].into_iter());
            let line: Vec<Point> = thin.services[0].segments.concat();
            prop_assert!(line.len() <= 2 * LINE_BINS);
            prop_assert!(line.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            let (low, high) = (values.iter().min().unwrap(), values.iter().max().unwrap());
            prop_assert!(line.iter().any(|point| point.1 == *low as f64 * 1024.0));
            prop_assert!(line.iter().any(|point| point.1 == *high as f64 * 1024.0));
        }
    }
}
