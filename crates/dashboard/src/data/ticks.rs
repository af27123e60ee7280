//! When a trial was read last, and how often it is.

use heaptrial_store::{PartRecord, Store, StoreError, Tick};

/// Ticks from which the usual time between two is taken.
const TICKS: u32 = 30;
/// Where there are no two ticks yet.
const USUAL_INTERVAL_US: i64 = 60_000_000;
/// A reading older than this many intervals is stale.
const STALE_AFTER_INTERVALS: i64 = 3;
const STALE_AFTER_US: i64 = 10_000_000;

/// Ticks of a gathered trial are numbered in the order in which its hosts were gathered: those of the host that was read last show
/// whether it is read.
pub(super) fn recent_ticks(store: &Store, id: i64, parts: &[PartRecord]) -> Result<Vec<Tick>, StoreError> {
    let newest = parts.iter().filter_map(|part| Some((part.last?.wall_us, &part.host))).max();
    if let Some((_, host)) = newest {
        let boots = store.boots_of(id, host)?;
        if !boots.is_empty() {
            return store.recent_ticks(id, Some(&boots), TICKS);
        }
    }
    store.recent_ticks(id, None, TICKS)
}

pub(super) fn stale_after(interval_us: i64) -> i64 {
    (STALE_AFTER_INTERVALS * interval_us).max(STALE_AFTER_US)
}

pub(super) fn interval(ticks: &[Tick]) -> i64 {
    let mut distances: Vec<i64> =
        ticks.windows(2).map(|pair| (pair[0].wall_us - pair[1].wall_us).max(0)).collect();
    distances.sort_unstable();
    distances.get(distances.len() / 2).copied().unwrap_or(USUAL_INTERVAL_US)
}
