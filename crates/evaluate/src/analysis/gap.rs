//! Where readings have a gap between them.

use heaptrial_model::Reading;

/// Readings further apart than this many times the usual distance have a gap between them.
const TIMES: f64 = 5.0;
/// Rolled-up readings have a gap between them where they are further apart than this many spans: each lies anywhere in its
/// own, so that two neighbours may be almost two spans apart.
const ROLLED_UP_SPANS: f64 = 2.5;

/// Two readings further apart have a gap between them: by their usual distance, and by the span of each of those that were
/// rolled up (0 where none was). All in one unit of time.
pub fn longest_distance(usual: f64, rolled_up: f64) -> f64 {
    (TIMES * usual).max(ROLLED_UP_SPANS * rolled_up)
}

/// The distances of readings in seconds.
pub(crate) fn distances(readings: &[Reading]) -> impl Iterator<Item = f64> {
    readings.windows(2).map(|pair| f64::from(pair[1].age_seconds - pair[0].age_seconds))
}
