use std::time::{Duration, Instant};

use super::Clock;

/// The clocks of the kernel.
#[derive(Debug)]
pub(super) struct ThisClock {
    began: Instant,
}

impl Default for ThisClock {
    fn default() -> Self {
        Self { began: Instant::now() }
    }
}

impl Clock for ThisClock {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn wall_us(&self) -> i64 {
        heaptrial_host::Instant::now().wall_us
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
