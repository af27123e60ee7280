//! What a rollout's gate takes from one life, without any comparison.

use crate::analysis::{FleetLife, window_before};
use heaptrial_model::TorFlag;
use heaptrial_model::units::HOUR;

impl FleetLife {
    /// Median memory in bytes over the last hour, or over the last half of a shorter life: the level without a forecast.
    pub fn last_level(&self) -> Option<f64> {
        let age = self.last_age()?;
        self.median_between(window_before(age, HOUR), age)
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
