//! What services of an arm have at one age: for charts of trials that still run.

use heaptrial_stats::median;

use crate::judgement::trajectory::{Point, Trajectories};

/// Lines end where fewer than this share of an arm's services have readings.
const SHARE_OF_SERVICES: f64 = 0.5;
/// Empty bins of age that a line bridges: readings may be further apart than bins are wide.
const BRIDGED_BINS: usize = 3;

/// An arm at one age: the age in seconds, and the lowest, the middle and the highest of its services in bytes.
pub type Level = (f64, f64, f64, f64);

impl Trajectories {
    /// Levels of an arm over age, split where fewer than half of its services have readings.
    pub fn levels_of(&self, arm: usize) -> Vec<Vec<Level>> {
        let services: Vec<&Vec<Option<Point>>> =
            self.services.iter().filter(|line| line.arm == arm).map(|line| &line.levels).collect();
        let aged = services.iter().filter(|levels| levels.iter().any(Option::is_some)).count();
        let needed = SHARE_OF_SERVICES * aged as f64;
        let bins = services.iter().map(|levels| levels.len()).max().unwrap_or(0);
        let level = |bin: usize| -> Option<Level> {
            let points: Vec<Point> =
                services.iter().filter_map(|levels| levels.get(bin).copied().flatten()).collect();
            if points.is_empty() || (points.len() as f64) < needed {
                return None;
            }
            let values: Vec<f64> = points.iter().map(|point| point.1).collect();
            let age = points.iter().map(|point| point.0).sum::<f64>() / points.len() as f64;
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(0.0, f64::max);
            Some((age, low, median(&values)?, high))
        };
        let mut runs: Vec<Vec<Level>> = Vec::new();
        let mut empty = usize::MAX;
        for level in (0..bins).map(level) {
            let Some(level) = level else {
                empty = empty.saturating_add(1);
                continue;
            };
            match runs.last_mut().filter(|_| empty <= BRIDGED_BINS) {
                Some(run) => run.push(level),
                None => runs.push(vec![level]),
            }
            empty = 0;
        }
        runs
    }
}
