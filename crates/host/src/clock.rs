use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// One moment on both clocks that Heaptrial keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// Microseconds since 1970-01-01T00:00:00Z; jumps when the clock is set.
    pub wall_us: i64,
    /// Microseconds since boot, counting suspends; never jumps (`CLOCK_BOOTTIME`).
    pub boottime_us: i64,
}

impl Instant {
    pub fn now() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let boot = clock_gettime(ClockId::Boottime);
        Self { wall_us: wall.as_micros() as i64, boottime_us: boot.tv_sec * 1_000_000 + boot.tv_nsec / 1_000 }
    }

    /// The moment at a time since boot; both clocks have run alike since then.
    pub fn at_boottime(boottime_us: i64) -> Self {
        let now = Self::now();
        Self { wall_us: now.wall_us - (now.boottime_us - boottime_us), boottime_us }
    }

    /// Seconds from the start of a process, in clock ticks since boot, to this moment.
    pub fn age_seconds(&self, start_ticks: u64) -> f64 {
        let started_us = start_ticks as f64 * 1e6 / rustix::param::clock_ticks_per_second() as f64;
        // The start is known in whole ticks, so that a process which just started may lie up to one ahead.
        ((self.boottime_us as f64 - started_us) / 1e6).max(0.0)
    }
}
