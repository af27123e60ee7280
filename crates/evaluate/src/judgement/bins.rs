//! Readings of services in equal bins of an axis, which is age or time: what charts are drawn from.

use heaptrial_stats::median;

use crate::analysis::{ENOUGH, Fleet, distances};

/// Place on the axis and memory: seconds and bytes.
pub type Point = (f64, f64);

/// Empty bins that a line bridges.
const BRIDGED_BINS: usize = 2;
/// Services of which the time between readings is looked at.
const SERVICES_TIMED: usize = 200;
/// Ages that are whole bins are not to fall short of them by rounding.
const ROUNDING: f64 = 1e-6;

/// The usual time between two readings of a service in seconds: the median over services and readings.
pub(crate) fn usual_interval(fleet: &Fleet) -> Option<f64> {
    let every = fleet.services.len().div_ceil(SERVICES_TIMED).max(1);
    let services = fleet.services.iter().step_by(every);
    let usual =
        services.filter_map(|service| median(&distances(&service.current()?.readings).collect::<Vec<_>>()));
    median(&usual.collect::<Vec<_>>()).filter(|interval| *interval > 0.0)
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    from: f64,
    width: f64,
    bins: usize,
}

impl Grid {
    /// At most so many bins, none narrower than the usual time between readings: no bin of a short series holds readings of two
    /// times, whose median would be that of neither.
    pub(crate) fn new((from, to): (f64, f64), usual: f64, most: usize) -> Self {
        let width = ((to - from) / most as f64).max(usual);
        let width = if width > 0.0 { width } else { 1.0 };
        Self { from, width, bins: ((to - from) / width + ROUNDING) as usize + 1 }
    }

    fn bin(self, at: f64) -> usize {
        (((at - self.from).max(0.0) / self.width + ROUNDING) as usize).min(self.bins - 1)
    }

    /// Of each bin the mean place of the readings of a service and their median; `points` are in order.
    pub(crate) fn levels(self, points: &[Point]) -> Vec<Option<Point>> {
        let mut levels = vec![None; self.bins];
        for chunk in points.chunk_by(|a, b| self.bin(a.0) == self.bin(b.0)) {
            let values: Vec<f64> = chunk.iter().map(|point| point.1).collect();
            levels[self.bin(chunk[0].0)] = median(&values).map(|level| (mean_place(chunk), level));
        }
        levels
    }
}

fn mean_place(points: &[Point]) -> f64 {
    points.iter().map(|point| point.0).sum::<f64>() / points.len() as f64
}

/// A summary of the levels of several services in each bin, in runs that are split where no summary is. A bin has one where enough of
/// the services have a level: with fewer the line would be that of others.
pub(crate) fn runs<T>(
    services: &[&[Option<Point>]],
    summary: impl Fn(&[f64]) -> Option<T>,
) -> Vec<Vec<(f64, T)>> {
    let read = services.iter().filter(|levels| levels.iter().any(Option::is_some)).count();
    let bins = services.iter().map(|levels| levels.len()).max().unwrap_or(0);
    let mut runs: Vec<Vec<(f64, T)>> = Vec::new();
    let mut empty = usize::MAX;
    for bin in 0..bins {
        let level = |levels: &&[Option<Point>]| levels.get(bin).copied().flatten();
        let points: Vec<Point> = services.iter().filter_map(level).collect();
        let values: Vec<f64> = points.iter().map(|point| point.1).collect();
        let is_enough = !points.is_empty() && points.len() as f64 >= ENOUGH * read as f64;
        let Some(found) = summary(&values).filter(|_| is_enough) else {
            empty = empty.saturating_add(1);
            continue;
        };
        let found = (mean_place(&points), found);
        match runs.last_mut().filter(|_| empty <= BRIDGED_BINS) {
            Some(run) => run.push(found),
            None => runs.push(vec![found]),
        }
        empty = 0;
    }
    runs
}
