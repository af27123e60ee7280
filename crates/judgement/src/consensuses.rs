//! How far through its life a relay of a lab is: a relay gets one consensus an hour, so those that it took are its clock.

use heaptrial_stats::median;
use heaptrial_store::{LifeRecord, SeriesPoint, Store, StoreError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Seconds of a relay's life that stand for a consensus.
pub(crate) const HOUR: f64 = 3600.0;
/// Consensuses that the relay has taken and worked off since its start.
const TAKEN: &str = "consensuses";
/// The same, told once at the end of the rest that follows each.
pub const RESTED: &str = "rested_consensuses";
/// Age in seconds of the consensus that it holds: falls when it takes another.
const AGE: &str = "consensus_age_seconds";

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
#[derive(Debug, Clone, PartialEq)]
pub struct ConsensusClock {
    /// Whether the lab waited after each one until the relays had rested: then figures are of the ends of rests, and ages
    /// are hours of a relay's life.
    pub rested: bool,
    /// Most that a relay took that counts.
    pub consensuses: u32,
    /// Hours of a relay's life, and the lab's seconds that passed until then since the relays were started: medians over
    /// the relays, ascending.
    pub reached: Vec<(f64, f64)>,
}

impl ConsensusClock {
    /// How many times faster than life the run went; `None` where it got nowhere.
    pub fn pace(&self) -> Option<f64> {
        let (hours, seconds) = self.reached.last()?;
        Some(hours * HOUR / seconds).filter(|pace| pace.is_finite() && *pace > 0.0)
    }

    /// Of the relays that count; `None` where none is known to have taken any.
    pub(crate) fn of(relays: &[&Taken]) -> Option<Self> {
        let consensuses = relays.iter().map(|taken| taken.last()).max()?;
        let reached = (0..=consensuses).filter_map(|hours| {
            let at: Vec<f64> = relays.iter().filter_map(|taken| taken.age_at(f64::from(hours))).collect();
            Some((f64::from(hours), median(&at)?))
        });
        // Relays that end early must not turn the clock back.
        let mut reached: Vec<(f64, f64)> = reached.collect();
        let mut latest = f64::NEG_INFINITY;
        reached.retain(|(_, at)| {
            let later = *at > latest;
            latest = latest.max(*at);
            later
        });
        Some(Self { rested: relays.iter().any(|taken| taken.is_rested()), consensuses, reached })
    }
}

/// The consensuses that a relay took.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Taken {
    /// Age in seconds of the lab, and hours of a relay's life: both ascending.
    knots: Vec<(f64, f64)>,
    /// Its rests, one for each number.
    pub(crate) rests: Vec<Rest>,
    count: u32,
}

impl Taken {
    /// Those of a life with these readings; `None` where nothing tells of any.
    pub(crate) fn read(
        store: &Store,
        life: &LifeRecord,
        series: &[SeriesPoint],
    ) -> Result<Option<Self>, StoreError> {
        let rests = rests(&store.observations(life, RESTED)?, series);
        let mut taken = store.observations(life, TAKEN)?;
        if taken.is_empty() {
            taken = counted(&store.observations(life, AGE)?);
        }
        let most = taken.iter().map(|(_, count)| *count as u32).max().unwrap_or(0);
        let count = most.max(rests.last().map_or(0, |rest| rest.consensuses));
        let knots = match rests.is_empty() {
            true => between(&taken, series.last().map_or(0.0, |point| point.age_seconds)),
            false => {
                let own = rests.iter().map(|rest| (rest.age_seconds, f64::from(rest.consensuses)));
                std::iter::once((0.0, 0.0)).chain(own).collect()
            }
        };
        Ok((count > 0).then_some(Self { knots, rests, count }))
    }

    pub(crate) fn is_rested(&self) -> bool {
        !self.rests.is_empty()
    }

    /// The last one that ended in a rest; without rests, how many it took.
    pub(crate) fn last(&self) -> u32 {
        self.rests.last().map_or(self.count, |rest| rest.consensuses)
    }

    /// Hours of life at an age in seconds of the lab; `None` before the first consensus and after the last.
    pub(crate) fn hours_at(&self, age: f64) -> Option<f64> {
        between_knots(&self.knots, age)
    }

    /// Age in seconds of the lab at so many hours of life.
    pub(crate) fn age_at(&self, hours: f64) -> Option<f64> {
        let turned: Vec<(f64, f64)> = self.knots.iter().map(|(age, hours)| (*hours, *age)).collect();
        between_knots(&turned, hours)
    }
}

fn between_knots(knots: &[(f64, f64)], at: f64) -> Option<f64> {
    let next = knots.partition_point(|knot| knot.0 < at);
    let right = knots.get(next)?;
    if right.0 == at {
        return Some(right.1);
    }
    let left = knots.get(next.checked_sub(1)?)?;
    Some(left.1 + (right.1 - left.1) * (at - left.0) / (right.0 - left.0))
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

/// How many were taken, from the age of the one that is held: it falls with each.
fn counted(ages: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut count = 0.0;
    let mut before = f64::INFINITY;
    let mut counted = Vec::new();
    for (age, of_consensus) in ages {
        if *of_consensus < before {
            count += 1.0;
        }
        before = *of_consensus;
        counted.push((*age, count));
    }
    counted
}

/// Without rests a relay is k hours old when it takes its next one after the k-th; what is left at the end counts in
/// proportion to the usual distance.
fn between(taken: &[(f64, f64)], end: f64) -> Vec<(f64, f64)> {
    let mut knots: Vec<(f64, f64)> = Vec::new();
    let mut before = 0.0;
    for (age, count) in taken {
        if *count > before {
            knots.push((*age, *count - 1.0));
            before = *count;
        }
    }
    let distances: Vec<f64> =
        knots.windows(2).map(|pair| (pair[1].0 - pair[0].0) / (pair[1].1 - pair[0].1)).collect();
    if let (Some(usual), Some((age, hours))) = (median(&distances), knots.last().copied()) {
        if end > age && usual > 0.0 {
            // No further than the next one would have come.
            let over = ((end - age) / usual).min(1.0);
            knots.push((age + over * usual, hours + over));
        }
    }
    knots
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
    fn without_rests_an_hour_is_from_one_consensus_to_the_next() {
        let ages = [(5.0, 3.0), (10.0, 8.0), (15.0, 1.0), (20.0, 6.0), (35.0, 0.5), (45.0, 10.5)];
        let taken = counted(&ages);
        assert_eq!(taken.iter().map(|step| step.1).collect::<Vec<_>>(), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        let taken = Taken { knots: between(&taken, 45.0), rests: Vec::new(), count: 3 };
        assert_eq!(taken.hours_at(4.0), None);
        assert_eq!(taken.hours_at(5.0), Some(0.0));
        assert_eq!(taken.hours_at(10.0), Some(0.5));
        assert_eq!(taken.hours_at(25.0), Some(1.5));
        // Ten of the usual 15 seconds.
        assert!((taken.hours_at(45.0).unwrap() - (2.0 + 10.0 / 15.0)).abs() < 1e-9);
        assert_eq!(taken.age_at(2.0), Some(35.0));
        assert_eq!(taken.age_at(3.5), None);
        let clock = ConsensusClock::of(&[&taken]).unwrap();
        assert_eq!((clock.rested, clock.consensuses), (false, 3));
        assert!((clock.pace().unwrap() - 2.0 * 3600.0 / 35.0).abs() < 1e-9);
    }
}
