//! What a rollout's gate takes from one life, without any comparison.

use crate::analysis::FleetLife;
use heaptrial_model::TorFlag;
use heaptrial_stats::median;

/// Without a forecast a level is the median over the last hour, or over half of a shorter life.
const WINDOW_SECONDS: f64 = 3600.0;

impl FleetLife {
    /// Median memory in bytes over the last hour, or over the last half of a shorter life.
    pub fn last_level(&self) -> Option<f64> {
        let age = self.last_age()?;
        let from = age - WINDOW_SECONDS.min(age / 2.0);
        let window = self.readings.iter().filter(|reading| f64::from(reading.age_seconds) >= from);
        median(&window.map(|reading| f64::from(reading.kib) * 1024.0).collect::<Vec<_>>())
    }

    /// The flags that it has now; `None` where none was ever read.
    pub fn flags(&self) -> Option<Vec<TorFlag>> {
        if self.work.flags.is_empty() {
            return None;
        }
        let has = self.work.flags.iter().filter(|flag| flag.changes.last().is_some_and(|change| change.1));
        Some(has.map(|flag| flag.name).collect())
    }
}
