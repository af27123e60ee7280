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
    /// Now.
    pub fn now() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let boot = clock_gettime(ClockId::Boottime);
        Self { wall_us: wall.as_micros() as i64, boottime_us: boot.tv_sec * 1_000_000 + boot.tv_nsec / 1_000 }
    }
}
