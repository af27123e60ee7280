//! The times that consensuses carry.

use serde::{Deserialize, Serialize};

use crate::directory::Validity;

const HOUR: i64 = 3600;
/// Seconds between the stamps of stretched consensuses. A vote parameter in whole hours is how old those may be that relays
/// retain: with two hours between them, one such age leaves half an hour for a cycle on either side.
const STRETCHED: i64 = 2 * HOUR;
/// By so many stamps the last consensus is older than its publication.
const SPARE: i64 = 2;
/// A consensus stays valid for this many of its intervals from its publication.
const VALID_INTERVALS: i64 = 12;
/// What Tor takes for `max-consensus-age-to-cache-for-diff` at most, in hours.
const OLDEST_HOURS: i64 = 8192;

/// The times that consensuses carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Stamps {
    /// Those of consensuses that are published each so many seconds, 10 or more. How many relays retain is up to
    /// their `MaxConsensusAgeForDiffs`. Relays that upload a descriptor are listed, as guards beside the synthetic relays,
    /// which then carry no circuits: with four such relays each of them can build circuits, which is what Tor calls
    /// bootstrapped to 100%. Otherwise only their keys are kept, for the load, so that relays never talk to each other.
    Regular { interval_seconds: u32 },
    /// Two hours between any two, however long ago the last one was published; the first is that much older. So a
    /// consensus is never fresh, relays ask for the next one at once, and they retain a number of consensuses that
    /// does not depend on the pace.
    Stretched {
        /// Consensuses that can be published.
        consensuses: u32,
        /// Older ones that relays retain to make diffs from, at most [`RETAINED_AT_MOST`](crate::RETAINED_AT_MOST); there are
        /// as many before the first that is published.
        retained: u32,
    },
}

impl Stamps {
    /// Consensuses that can be published and retained together.
    pub const STRETCHED_AT_MOST: u32 = (OLDEST_HOURS * HOUR / STRETCHED - SPARE - 2) as u32;

    pub(super) fn lists_uploads(self) -> bool {
        matches!(self, Self::Regular { .. })
    }

    /// How many consensuses there were before the first of a run, and how many there can be from then on.
    pub(super) fn past_and_most(self) -> (u32, u64) {
        match self {
            Self::Regular { .. } => (0, u64::MAX),
            Self::Stretched { consensuses, retained } => (retained, consensuses.into()),
        }
    }
}

/// Stamps from the start of a run on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    stamps: Stamps,
    /// What consensus 0 would carry, in seconds since 1970.
    zeroth: i64,
}

impl Times {
    pub(super) fn new(stamps: Stamps, now: i64) -> Self {
        let zeroth = match stamps {
            Stamps::Regular { interval_seconds } => {
                let interval = i64::from(interval_seconds);
                now / interval * interval - interval
            }
            // A relay asks for the next one up to one and a half intervals after a stamp: the last one is older.
            Stamps::Stretched { consensuses, .. } => now - STRETCHED * (i64::from(consensuses) + SPARE),
        };
        Self { stamps, zeroth }
    }

    /// What the consensus with this number carries if it is published about `now`; the first of a run is 1, those
    /// before it have smaller numbers.
    pub(super) fn of(&self, number: i64, now: i64) -> Validity {
        let interval = match self.stamps {
            Stamps::Regular { interval_seconds } => i64::from(interval_seconds),
            Stamps::Stretched { .. } => STRETCHED,
        };
        let valid_after = self.zeroth + number * interval;
        let retain_hours = match self.stamps {
            Stamps::Regular { .. } => None,
            Stamps::Stretched { retained, .. } => {
                let oldest = valid_after - i64::from(retained) * interval;
                // Half way between the age of the last one to be retained and that of the one before.
                let hours = (now - oldest + interval / 2) as f64 / HOUR as f64;
                Some(hours.round() as u32)
            }
        };
        Validity {
            valid_after,
            fresh_until: valid_after + interval,
            valid_until: now + interval * VALID_INTERVALS,
            retain_hours,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As Tor's `consdiffmgr_cleanup` does it: whatever is older than the age goes.
        #[test]
        fn as_many_are_retained_as_asked_for_at_any_pace(
            retained in 1_u32..100,
            cycles in prop::collection::vec(10_i64..1_500, 1..150),
        ) {
            let stamps = Stamps::Stretched { consensuses: cycles.len() as u32, retained };
            let mut now = 1_800_000_000;
            let times = Times::new(stamps, now);
            let mut stamped: Vec<i64> = Vec::new();
            for (index, cycle) in cycles.iter().enumerate() {
                let next = times.of(index as i64 + 1, now);
                let asked_at_the_latest = next.fresh_until + 120 + STRETCHED / 2;
                prop_assert!(asked_at_the_latest <= now && now < next.valid_until);
                prop_assert!(stamped.last().is_none_or(|last| last + STRETCHED == next.valid_after));
                stamped.push(next.valid_after);
                let hours = i64::from(next.retain_hours.unwrap());
                prop_assert!(hours <= OLDEST_HOURS);
                for at in [now, now + cycle] {
                    let kept = stamped.iter().filter(|stamp| **stamp >= at - hours * HOUR).count();
                    prop_assert_eq!(kept, stamped.len().min(retained as usize + 1));
                }
                now += cycle;
            }
        }
    }

    #[test]
    fn regular_stamps_are_the_times_of_publication() {
        let times = Times::new(Stamps::Regular { interval_seconds: 10 }, 1_800_000_003);
        assert_eq!(times.of(1, 1_800_000_003).valid_after, 1_800_000_000);
        assert_eq!(times.of(2, 1_800_000_010).valid_after, 1_800_000_010);
        assert_eq!(times.of(2, 1_800_000_010).retain_hours, None);
    }
}
