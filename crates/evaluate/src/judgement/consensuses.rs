//! How far through its life a relay of a lab is: a relay gets one consensus an hour, so those that it took are its clock.

use heaptrial_model::units::HOUR;
use heaptrial_stats::median;
use heaptrial_store::{LifeRecord, SeriesPoint, Store, StoreError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Consensuses that the relay has taken and worked off since its start.
const TAKEN: &str = "consensuses";
/// The same, reported once at the end of the rest that follows each.
pub const RESTED: &str = "rested_consensuses";

/// A relay at the end of the rest that followed a consensus.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rest {
    /// Consensuses that it had taken: hours of a relay's life.
    pub consensuses: u32,
    /// Its age in seconds of the lab.
    pub age_seconds: f64,
    /// The metric then, in bytes.
    pub level_bytes: u64,
    /// The highest reading of the metric since the rest before, in bytes.
    pub peak_bytes: u64,
}

/// The consensuses of a lab run as its clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConsensusClock {
    /// Most that a relay took that counts.
    pub taken: u32,
    /// How many times faster than life the run went.
    pub pace: Option<f64>,
}

impl ConsensusClock {
    /// Of the relays that count; `None` where none is known to have taken any.
    pub(crate) fn of(relays: &[&Taken]) -> Option<Self> {
        let most = relays.iter().map(|taken| taken.last()).max()?;
        let last = |taken: &&Taken| taken.rests.last().filter(|rest| rest.consensuses == most).copied();
        let ages: Vec<f64> = relays.iter().filter_map(last).map(|rest| rest.age_seconds).collect();
        let pace = median(&ages).map(|seconds| f64::from(most) * HOUR / seconds);
        Some(Self { taken: most, pace: pace.filter(|pace| pace.is_finite()) })
    }
}

/// The consensuses that a relay took.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Taken {
    /// Age in seconds of the lab, and hours of a relay's life: both ascending.
    knots: Vec<(f64, f64)>,
    pub(crate) rests: Vec<Rest>,
    count: u32,
}

impl Taken {
    /// Those of a life with these readings; `None` where nothing reports any.
    pub(crate) fn read(
        store: &Store,
        life: &LifeRecord,
        series: &[SeriesPoint],
    ) -> Result<Option<Self>, StoreError> {
        let rests = rests(&store.observations(life, RESTED)?, series);
        let taken = store.observations(life, TAKEN)?;
        let most = taken.iter().map(|(_, count)| *count as u32).max().unwrap_or(0);
        let count = most.max(rests.last().map_or(0, |rest| rest.consensuses));
        let own = rests.iter().map(|rest| (rest.age_seconds, f64::from(rest.consensuses)));
        let knots = std::iter::once((0.0, 0.0)).chain(own).collect();
        Ok((count > 0).then_some(Self { knots, rests, count }))
    }

    pub(crate) fn is_rested(&self) -> bool {
        !self.rests.is_empty()
    }

    /// The last one that ended in a rest; without rests, how many it took.
    pub(crate) fn last(&self) -> u32 {
        self.rests.last().map_or(self.count, |rest| rest.consensuses)
    }

    /// Hours of life at an age in seconds of the lab; `None` after the last rest.
    pub(crate) fn hours_at(&self, age: f64) -> Option<f64> {
        let next = self.knots.partition_point(|knot| knot.0 < age);
        let right = self.knots.get(next)?;
        if right.0 == age {
            return Some(right.1);
        }
        let left = self.knots.get(next.checked_sub(1)?)?;
        Some(left.1 + (right.1 - left.1) * (age - left.0) / (right.0 - left.0))
    }
}

/// Levels at the ends of rests, and peaks between them. Of several rests after the same consensus the last one stands; a
/// rest before the first consensus has no age.
fn rests(observed: &[(f64, f64)], series: &[SeriesPoint]) -> Vec<Rest> {
    let mut rests: Vec<Rest> = Vec::new();
    let mut from = 0;
    for (age, count) in observed {
        // A tick has both, or the sample failed.
        let end = series.partition_point(|point| point.age_seconds <= *age);
        let Some(point) = end.checked_sub(1).and_then(|place| series.get(place)) else { continue };
        let consensuses = *count as u32;
        let peak = series.get(from..end).unwrap_or(&[]).iter().map(|point| point.metric_bytes).max();
        let mut rest = Rest {
            consensuses,
            age_seconds: *age,
            level_bytes: point.metric_bytes,
            peak_bytes: peak.unwrap_or(0).max(point.metric_bytes),
        };
        from = end;
        if consensuses == 0 || rests.last().is_some_and(|last| last.consensuses > consensuses) {
            continue;
        }
        if let Some(same) = rests.last().filter(|last| last.consensuses == consensuses) {
            rest.peak_bytes = rest.peak_bytes.max(same.peak_bytes);
            rests.pop();
        }
        rests.push(rest);
    }
    rests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(age_seconds: f64, metric_bytes: u64) -> SeriesPoint {
        SeriesPoint { age_seconds, metric_bytes, rss_bytes: 0, anon_bytes: 0, cpu_us: 0 }
    }

    #[test]
    fn a_rest_has_its_level_and_the_peak_of_the_work_before() {
        let series: Vec<SeriesPoint> =
            [(1.0, 5), (2.0, 50), (3.0, 20), (4.0, 21), (5.0, 90), (6.0, 30), (7.0, 31), (8.0, 400)]
                .map(|(age, bytes)| point(age, bytes))
                .into();
        let found = rests(&[(1.0, 0.0), (3.0, 1.0), (6.0, 2.0), (7.0, 2.0)], &series);
        let found: Vec<(u32, f64, u64, u64)> = found
            .iter()
            .map(|rest| (rest.consensuses, rest.age_seconds, rest.level_bytes, rest.peak_bytes))
            .collect();
        assert_eq!(found, [(1, 3.0, 20, 50), (2, 7.0, 31, 90)]);
    }

    #[test]
    fn hours_of_life_are_those_of_the_rests() {
        let rest =
            |consensuses, age_seconds| Rest { consensuses, age_seconds, level_bytes: 1, peak_bytes: 1 };
        let rests = vec![rest(1, 20.0), rest(3, 60.0)];
        let knots = vec![(0.0, 0.0), (20.0, 1.0), (60.0, 3.0)];
        let taken = Taken { knots, rests, count: 4 };
        assert_eq!([0.0, 10.0, 40.0, 60.0].map(|age| taken.hours_at(age)), [0.0, 0.5, 2.0, 3.0].map(Some));
        assert_eq!(taken.hours_at(61.0), None);
        let clock = ConsensusClock::of(&[&taken]).unwrap();
        assert_eq!((clock.taken, clock.pace), (3, Some(180.0)));
    }
}
