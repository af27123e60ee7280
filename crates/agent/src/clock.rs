//! The two clocks: ages and pauses are of the boot clock; the wall clock may be set.

use heaptrial_host::Instant;
use heaptrial_model::{HumanDuration, LifeKey};
use heaptrial_store::NewTrial;
use std::time::Duration;

/// A smaller change is the clock being disciplined, not set.
const JUMP_US: i64 = 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct Clock {
    #[cfg(test)]
    pub(crate) set_by_us: i64,
}

impl Clock {
    pub(crate) fn now(&self) -> Instant {
        let now = Instant::now();
        #[cfg(test)]
        let now = Instant { wall_us: now.wall_us + self.set_by_us, ..now };
        now
    }
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn human(us: i64) -> HumanDuration {
    let rounded = if us >= 10_000_000 { (us + 500_000) / 1_000_000 * 1_000_000 } else { us / 1_000 * 1_000 };
    HumanDuration(Duration::from_micros(rounded.max(0) as u64))
}

pub(crate) fn start_of(key: &LifeKey, now: Instant) -> Instant {
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    let boottime_us = (u128::from(key.start_ticks) * 1_000_000 / u128::from(ticks_per_second)) as i64;
    Instant { wall_us: now.wall_us - (now.boottime_us - boottime_us), boottime_us }
}

/// A moment on both clocks of a boot: the start of a trial, or its last tick.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub(crate) boot_id: String,
    pub(crate) at: Instant,
}

impl Moment {
    pub(crate) fn start_of(plan: &NewTrial) -> Self {
        let boottime_us = plan.parameters["started_boottime_us"].as_i64().unwrap_or(0);
        Self { boot_id: plan.boot_id.clone(), at: Instant { wall_us: plan.started_wall_us, boottime_us } }
    }

    /// By how many microseconds the wall clock was set since, where that was on this boot: the boot clock begins at each.
    pub(crate) fn clock_set_by(&self, boot_id: &str, now: Instant) -> Option<i64> {
        let by = (now.wall_us - now.boottime_us) - (self.at.wall_us - self.at.boottime_us);
        (self.boot_id == boot_id && by.abs() >= JUMP_US).then_some(by)
    }

    /// How long ago that was; by the wall clock where the host was rebooted since.
    pub(crate) fn elapsed_us(&self, boot_id: &str, now: Instant) -> i64 {
        match self.boot_id == boot_id {
            true => now.boottime_us - self.at.boottime_us,
            false => now.wall_us - self.at.wall_us,
        }
    }

    /// Whether it is after the start of a life that was met while the trial ran.
    pub(crate) fn is_after(&self, boot_id: &str, life: Instant) -> bool {
        self.boot_id == boot_id && life.boottime_us < self.at.boottime_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_noticed_and_one_that_is_slewed_is_not() {
        let at = |boottime_us, offset| Instant { wall_us: boottime_us + offset, boottime_us };
        let before = Moment { boot_id: "b".to_owned(), at: at(60_000_000, 5_000_000) };
        let set_by = |now| before.clock_set_by("b", now);
        assert_eq!(set_by(at(120_000_000, 5_030_000)), None);
        assert_eq!(set_by(at(120_000_000, -3_595_000_000)), Some(-3_600_000_000));
        assert_eq!(set_by(at(120_000_000, 6_000_000)), Some(1_000_000));
    }
}
