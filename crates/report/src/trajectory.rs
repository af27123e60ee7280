//! The series of the services, thinned to what a chart can show.

use heaptrial_stats::median;
use heaptrial_store::SeriesPoint;

/// Bins of a service's line; each gives its lowest and its highest reading.
const LINE_BINS: usize = 150;
/// Bins of the grid on which medians over services are taken.
const GRID_BINS: usize = 200;
/// Readings further apart than this many times the usual distance have a gap between them.
const GAP_FACTOR: f64 = 5.0;
/// Empty bins of the grid that a line bridges.
const BRIDGED_BINS: usize = 2;

/// Age and memory: seconds and bytes.
pub type Point = (f64, f64);

/// The thinned series of all services of a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trajectories {
    /// One for each service of the report, in the same order.
    pub services: Vec<Trajectory>,
    /// Width of a bin of [`Trajectory::levels`] in seconds.
    pub bin_seconds: f64,
}

/// The thinned series of one service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trajectory {
    /// Position of its arm in the report.
    pub arm: usize,
    /// At most 300 readings, the extremes among them, split where readings are missing.
    pub segments: Vec<Vec<Point>>,
    /// Median reading of each bin of age, from age 0.
    pub levels: Vec<Option<f64>>,
}

impl Trajectories {
    /// Thins `series`: the position of the arm in the report, and the readings.
    pub(crate) fn thin<'a>(series: impl Iterator<Item = (usize, &'a [SeriesPoint])> + Clone) -> Self {
        let horizon = series.clone().filter_map(|(_, points)| points.last()).map(|point| point.age_seconds);
        let horizon = horizon.fold(0.0, f64::max);
        let longest = series.clone().map(|(_, points)| points.len()).max().unwrap_or(0);
        // No bin of a short series holds readings of two ages: their median would be that of neither.
        let bins = longest.clamp(1, GRID_BINS);
        let bin_seconds = if horizon > 0.0 { horizon / bins as f64 } else { 1.0 };
        let services = series
            .map(|(arm, points)| Trajectory {
                arm,
                segments: split_at_gaps(points).map(extremes).collect(),
                levels: levels(points, bins, bin_seconds),
            })
            .collect();
        Self { services, bin_seconds }
    }

    /// The median over `services` (positions) for each bin of age, split where no service has readings.
    pub fn median_line(&self, services: &[usize]) -> Vec<Vec<Point>> {
        let bins = self.services.iter().map(|service| service.levels.len()).max().unwrap_or(0);
        let mut segments: Vec<Vec<Point>> = Vec::new();
        let mut empty = usize::MAX;
        for bin in 0..bins {
            let values: Vec<f64> = services
                .iter()
                .filter_map(|index| self.services.get(*index)?.levels.get(bin).copied().flatten())
                .collect();
            let Some(level) = median(&values) else {
                empty = empty.saturating_add(1);
                continue;
            };
            if empty > BRIDGED_BINS {
                segments.push(Vec::new());
            }
            empty = 0;
            if let Some(segment) = segments.last_mut() {
                segment.push(((bin as f64 + 0.5) * self.bin_seconds, level));
            }
        }
        segments
    }
}

impl Trajectory {
    /// Highest age in seconds.
    pub fn last_age(&self) -> Option<f64> {
        self.segments.last()?.last().map(|point| point.0)
    }
}

fn split_at_gaps(points: &[SeriesPoint]) -> impl Iterator<Item = &[SeriesPoint]> {
    let mut distances: Vec<f64> =
        points.windows(2).map(|pair| pair[1].age_seconds - pair[0].age_seconds).collect();
    let middle = distances.len() / 2;
    let usual = match distances.get(middle) {
        Some(_) => *distances.select_nth_unstable_by(middle, f64::total_cmp).1,
        None => 0.0,
    };
    points.chunk_by(move |a, b| b.age_seconds - a.age_seconds <= GAP_FACTOR * usual)
}

/// The lowest and the highest reading of each bin, in order of age; all readings where they are few.
fn extremes(points: &[SeriesPoint]) -> Vec<Point> {
    let point = |p: &SeriesPoint| (p.age_seconds, p.metric_bytes as f64);
    if points.len() <= 2 * LINE_BINS {
        return points.iter().map(point).collect();
    }
    points
        .chunks(points.len().div_ceil(LINE_BINS))
        .flat_map(|chunk| {
            let low = chunk.iter().min_by_key(|p| p.metric_bytes);
            let high = chunk.iter().max_by_key(|p| p.metric_bytes);
            let mut pair: Vec<Point> = low.into_iter().chain(high).map(point).collect();
            pair.sort_by(|a, b| a.0.total_cmp(&b.0));
            pair
        })
        .collect()
}

fn levels(points: &[SeriesPoint], bins: usize, bin_seconds: f64) -> Vec<Option<f64>> {
    let bin = |point: &SeriesPoint| ((point.age_seconds.max(0.0) / bin_seconds) as usize).min(bins - 1);
    let mut levels = vec![None; bins];
    for chunk in points.chunk_by(|a, b| bin(a) == bin(b)) {
        let values: Vec<f64> = chunk.iter().map(|point| point.metric_bytes as f64).collect();
        levels[bin(&chunk[0])] = median(&values);
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(values: &[(f64, u64)]) -> Vec<SeriesPoint> {
        let point = |(age_seconds, metric_bytes): &(f64, u64)| SeriesPoint {
            age_seconds: *age_seconds,
            metric_bytes: *metric_bytes,
            rss_bytes: 0,
            anon_bytes: 0,
            cpu_us: 0,
        };
        values.iter().map(point).collect()
    }

    #[test]
    fn a_gap_splits_the_line() {
        let points = series(&[(0.0, 1), (1.0, 2), (2.0, 3), (30.0, 4), (31.0, 5)]);
        let thin = Trajectories::thin([(0, points.as_slice())].into_iter());
        let lengths: Vec<usize> = thin.services[0].segments.iter().map(Vec::len).collect();
        assert_eq!(lengths, [3, 2]);
    }

    #[test]
    fn the_median_line_is_taken_over_services_at_equal_age() {
        let flat = |bytes| series(&(0..40).map(|i| (f64::from(i), bytes)).collect::<Vec<_>>());
        let all = [flat(10), flat(20), flat(90)];
        let thin = Trajectories::thin(all.iter().map(|points| (0, points.as_slice())));
        let line = thin.median_line(&[0, 1, 2]);
        assert_eq!(line.len(), 1);
        assert!(line[0].iter().all(|point| point.1 == 20.0), "{line:?}");
        assert!(thin.median_line(&[]).is_empty());
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
            prop_assert!(line.iter().any(|point| point.1 == *low as f64));
            prop_assert!(line.iter().any(|point| point.1 == *high as f64));
        }
    }
}
