//! What a service did before and after, over comparable times of the day.

use serde::{Deserialize, Serialize};

use crate::analysis::fleet::FleetLife;

const HOURS: usize = 24;
const HOUR: f64 = 3600.0;
/// The first hour of a life is not its usual work: connections come back one by one.
const WARM_UP_SECONDS: f64 = HOUR;
/// Of a long life, what it did in the last day counts.
const AFTER_SECONDS: f64 = 24.0 * HOUR;
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

    /// What a life did since its treatment: its last day, without the time after its start in which work comes back.
    pub fn of_life(life: &FleetLife) -> Option<Self> {
        let end = f64::from(life.work.bytes()?.last()?.0);
        Self::between(life, WARM_UP_SECONDS.min(end / 2.0).max(end - AFTER_SECONDS))
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
        let worked = Worked::between(life, WARM_UP_SECONDS.min(end / 2.0))?;
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

#[cfg(test)]
mod tests {
    use heaptrial_model::LifeStart;

    use super::*;
    use crate::analysis::work::{Measure, Work};

    /// A life read every ten minutes whose rate follows the time of the day.
    fn life(started_at: f64, hours: f64, rate: impl Fn(f64) -> f64) -> FleetLife {
        let mut bytes = 0.0;
        let readings = (0..=(hours * 6.0) as usize).map(|number| {
            let age = number as f64 * 600.0;
            if number > 0 {
                bytes += 600.0 * rate(started_at + age - 300.0);
            }
            (age as f32, bytes)
        });
        FleetLife {
            started_at,
            start: LifeStart::Observed,
            contamination: None,
            proved: true,
            readings: Vec::new(),
            rolled_up_seconds: 0.0,
            peaks: Vec::new(),
            work: Work { measures: vec![Measure::traffic(readings.collect())], ..Work::default() },
        }
    }

    /// Four times as much by day (from 8 to 20 o'clock) as by night.
    fn daily(at: f64) -> f64 {
        if (8.0..20.0).contains(&(at / HOUR).rem_euclid(24.0)) { 4e6 } else { 1e6 }
    }

    #[test]
    fn work_by_night_is_compared_with_that_of_nights_before() {
        let usual = UsualWork::of_life(&life(0.0, 72.0, daily)).unwrap();
        let night = life(100.0 * 24.0 * HOUR + 22.0 * HOUR, 6.0, daily);
        let ratio = Worked::of_life(&night).unwrap().over(&usual).unwrap();
        assert!(ratio.same_hours && (ratio.value() - 1.0).abs() < 0.01, "{ratio:?}");
        let less = life(100.0 * 24.0 * HOUR + 22.0 * HOUR, 6.0, |at| 0.4 * daily(at));
        let ratio = Worked::of_life(&less).unwrap().over(&usual).unwrap();
        assert!((ratio.value() - 0.4).abs() < 0.01, "{ratio:?}");
    }

    #[test]
    fn where_no_hour_is_shared_the_whole_is_compared_and_told() {
        let usual = UsualWork::of_life(&life(9.0 * HOUR, 6.0, daily)).unwrap();
        let night = Worked::of_life(&life(22.0 * HOUR, 6.0, daily)).unwrap();
        let ratio = night.over(&usual).unwrap();
        assert!(!ratio.same_hours && (ratio.value() - 0.25).abs() < 0.01, "{ratio:?}");
        let since_start = UsualWork::since_start(1e6 * 5000.0, 5000.0).unwrap();
        let ratio = night.over(&since_start).unwrap();
        assert!(!ratio.same_hours && (ratio.value() - 1.0).abs() < 0.01, "{ratio:?}");
    }

    #[test]
    fn the_hour_after_a_start_does_not_count_and_little_time_tells_nothing() {
        let begins = |at: f64| if at < HOUR { 0.0 } else { 1e6 };
        let worked = Worked::of_life(&life(0.0, 4.0, begins)).unwrap();
        assert_eq!((worked.seconds, worked.bytes), (3.0 * HOUR, 3.0 * HOUR * 1e6));
        assert_eq!(UsualWork::of_life(&life(0.0, 0.1, daily)), None);
        assert_eq!(UsualWork::since_start(1e9, 60.0), None);
        assert_eq!(Worked::of_life(&life(0.0, 0.1, daily)).map(|worked| worked.seconds), Some(0.0));
    }

    #[test]
    fn only_the_last_day_of_a_long_life_counts() {
        let stops = |at: f64| if at < 5.0 * 24.0 * HOUR { 1e6 } else { 0.0 };
        let worked = Worked::of_life(&life(0.0, 6.0 * 24.0, stops)).unwrap();
        assert!(worked.seconds <= AFTER_SECONDS + 600.0);
        assert!(worked.bytes <= 600.0 * 1e6, "{}", worked.bytes);
    }

    #[test]
    fn one_that_did_nothing_before_has_no_ratio() {
        let usual = UsualWork::of_life(&life(0.0, 48.0, |_| 0.0)).unwrap();
        assert_eq!(Worked::of_life(&life(0.0, 48.0, daily)).unwrap().over(&usual), None);
    }
}
