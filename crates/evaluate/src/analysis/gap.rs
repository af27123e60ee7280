//! Where readings have a gap between them.

use heaptrial_model::Reading;

/// Readings further apart than this many times the usual distance have a gap between them.
const TIMES: f64 = 5.0;
/// What was rolled up has a gap where readings are further apart than this many spans: each stands anywhere in its own,
/// so that two neighbours may be almost two spans apart.
const ROLLED_UP_SPANS: f64 = 2.5;
/// Readings nearer than this share of a span were not rolled up.
const RAW_SPANS: f64 = 0.5;
/// Readings are of two kinds where more than this share of their time is rolled up, and more than this share of them is not.
const LEAST_SHARE: f64 = 0.05;

/// Two readings further apart have a gap between them: by their usual distance, and by how long each of those stands that
/// were rolled up (0 where none was). All in one unit of time.
pub fn longest_distance(usual: f64, rolled_up: f64) -> f64 {
    (TIMES * usual).max(ROLLED_UP_SPANS * rolled_up)
}

/// Whether two neighbours of a life so far apart were rolled up.
pub(crate) fn is_rolled_up(seconds: f64, rolled_up_seconds: f64) -> bool {
    rolled_up_seconds > 0.0
        && (RAW_SPANS * rolled_up_seconds..=ROLLED_UP_SPANS * rolled_up_seconds).contains(&seconds)
}

/// Whether readings are of two kinds: as they were taken, and rolled up to one in so many seconds.
pub(crate) fn is_partly_rolled_up(readings: &[Reading], rolled_up_seconds: f64) -> bool {
    are_of_two_kinds(|| distances(readings), rolled_up_seconds)
}

/// The same of readings with these distances in seconds.
pub(crate) fn are_of_two_kinds<D: Iterator<Item = f64>>(
    distances: impl Fn() -> D,
    rolled_up_seconds: f64,
) -> bool {
    if rolled_up_seconds <= 0.0 {
        return false;
    }
    let raw = distances().filter(|distance| *distance < RAW_SPANS * rolled_up_seconds).count();
    let rolled_up: f64 = distances().filter(|distance| is_rolled_up(*distance, rolled_up_seconds)).sum();
    rolled_up > LEAST_SHARE * distances().sum::<f64>()
        && raw as f64 > LEAST_SHARE * distances().count() as f64
}

/// The distances of readings in seconds.
pub(crate) fn distances(readings: &[Reading]) -> impl Iterator<Item = f64> {
    readings.windows(2).map(|pair| f64::from(pair[1].age_seconds - pair[0].age_seconds))
}
