//! What one life tells a rollout's gate, without any comparison.

use crate::analysis::FleetLife;
use heaptrial_model::TorFlag;
use heaptrial_stats::median;

/// Without a forecast a level is the median over the last hour, or over half of a shorter life.
const WINDOW_SECONDS: f64 = 3600.0;

/// Figures of one life, read off its samples.
pub trait LifeFigures {
    /// Median memory in bytes over the last hour, or over the last half of a shorter life.
    fn last_level(&self) -> Option<f64>;
    /// The flags that it has now; `None` where none was ever read.
    fn flags(&self) -> Option<Vec<TorFlag>>;
}

impl LifeFigures for FleetLife {
    fn last_level(&self) -> Option<f64> {
        let age = self.last_age()?;
        let from = age - WINDOW_SECONDS.min(age / 2.0);
        let window = self.readings.iter().filter(|reading| f64::from(reading.age_seconds) >= from);
        median(&window.map(|reading| f64::from(reading.kib) * 1024.0).collect::<Vec<_>>())
    }

    fn flags(&self) -> Option<Vec<TorFlag>> {
        if self.work.flags.is_empty() {
            return None;
        }
        let has = self.work.flags.iter().filter(|flag| flag.changes.last().is_some_and(|change| change.1));
        Some(has.map(|flag| flag.name).collect())
    }
}

/// The middle of readings of several services at one moment: what a status line shows.
pub fn middle(values: &[f64]) -> Option<f64> {
    median(values)
}
