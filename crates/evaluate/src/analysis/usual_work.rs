//! What a service did before and after, over comparable times of the day.

use heaptrial_model::units::{DAY, HOUR};
use serde::{Deserialize, Serialize};

use crate::analysis::fleet::FleetLife;

/// Of a day: load goes by them.
const HOURS: usize = 24;
/// Readings further apart do not show at which hours the work was done.
const TOLD_BY_HOUR_SECONDS: f64 = 3.0 * HOUR;
/// Work over less time says little: relays are asked every ten minutes.
pub const LEAST_WORK_SECONDS: f64 = 540.0;

/// What a service read and wrote over a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Worked {
    /// Length of the time, in seconds.
    pub seconds: f64,
    pub bytes: f64,
    /// Seconds and bytes by hour of the day (UTC), where readings show them.
    hours: [(f64, f64); HOURS],
}

/// What a service read and wrote a second before something was done to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UsualWork {
    /// Bytes a second over all that is known.
    pub bytes_per_second: f64,
    /// The same by hour of the day (UTC); `None` where nothing was read at that hour, empty where no hour is known.
    pub by_hour: Vec<Option<f64>>,
}

/// Work after over work before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorkRatio {
    pub after: f64,
    pub before: f64,
    /// Whether both are of the same hours of the day.
    pub same_hours: bool,
}

impl WorkRatio {
    pub fn value(self) -> f64 {
        self.after / self.before
    }
}

impl Worked {
    /// From readings of a counter: seconds since 1970 and bytes so far, in order of time.
    pub fn of_counter(points: &[(f64, f64)]) -> Option<Self> {
        let (first, last) = (points.first()?, points.last()?);
        let mut worked = Self { seconds: last.0 - first.0, bytes: 0.0, hours: [(0.0, 0.0); HOURS] };
        for pair in points.windows(2) {
            let (seconds, bytes) = (pair[1].0 - pair[0].0, (pair[1].1 - pair[0].1).max(0.0));
            worked.bytes += bytes;
            if seconds > 0.0 && seconds <= TOLD_BY_HOUR_SECONDS {
                worked.spread(pair[0].0, pair[1].0, bytes / seconds);
            }
        }
        Some(worked)
    }

    /// Adds a rate to the hours of the day between two times.
    fn spread(&mut self, from: f64, to: f64, rate: f64) {
        let mut at = from;
        while at < to {
            let end = (((at / HOUR).floor() + 1.0) * HOUR).min(to);
            let hour = &mut self.hours[(at / HOUR).rem_euclid(HOURS as f64) as usize % HOURS];
            hour.0 += end - at;
            hour.1 += (end - at) * rate;
            at = end;
        }
    }

    /// What a life did since its treatment: its last day, without the hour after its start in which connections come back one by one.
    pub fn of_life(life: &FleetLife) -> Option<Self> {
        let end = f64::from(life.work.bytes()?.last()?.0);
        Self::between(life, HOUR.min(end / 2.0).max(end - DAY))
    }

    fn between(life: &FleetLife, from_age: f64) -> Option<Self> {
        let readings = life.work.bytes()?;
        let begin = readings.partition_point(|(age, _)| f64::from(*age) <= from_age).saturating_sub(1);
        let points: Vec<(f64, f64)> = readings[begin..]
            .iter()
            .map(|(age, bytes)| (life.started_at + f64::from(*age), *bytes))
            .collect();
        Self::of_counter(&points)
    }

    /// Its work beside what is usual of it; `None` where it usually does none, or nothing was read.
    pub fn over(&self, usual: &UsualWork) -> Option<WorkRatio> {
        let (mut matched, mut expected, mut done) = (0.0, 0.0, 0.0);
        for ((seconds, bytes), rate) in self.hours.iter().zip(&usual.by_hour) {
            if let Some(rate) = rate {
                matched += seconds;
                expected += seconds * rate;
                done += bytes;
            }
        }
        let same_hours = matched > 0.0 && matched >= self.seconds / 2.0;
        let (after, before) = match same_hours {
            true => (done / matched, expected / matched),
            false => (self.bytes / self.seconds, usual.bytes_per_second),
        };
        (before > 0.0 && self.seconds > 0.0).then_some(WorkRatio { after, before, same_hours })
    }
}

impl UsualWork {
    /// Of the life that a service has before a rollout; `None` where too little is known.
    pub fn of_life(life: &FleetLife) -> Option<Self> {
        let end = f64::from(life.work.bytes()?.last()?.0);
        let worked = Worked::between(life, HOUR.min(end / 2.0))?;
        (worked.seconds >= LEAST_WORK_SECONDS).then(|| Self {
            bytes_per_second: worked.bytes / worked.seconds,
            by_hour: worked
                .hours
                .iter()
                .map(|(seconds, bytes)| (*seconds >= LEAST_WORK_SECONDS).then(|| bytes / seconds))
                .collect(),
        })
    }

    /// From what a service has done since its start, without any hour of the day; `None` of one that was just started.
    pub fn since_start(bytes: f64, seconds: f64) -> Option<Self> {
        (seconds >= LEAST_WORK_SECONDS)
            .then(|| Self { bytes_per_second: bytes / seconds, by_hour: Vec::new() })
    }
}
