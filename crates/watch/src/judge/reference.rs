//! What is expected at any age, also beyond the forecast.

use heaptrial_analysis::{DAY, LogLevel};

use crate::plan::WatchPlan;

/// Ages up to this many times the oldest one that the trial saw are compared with what it showed.
pub(crate) const COMPARED_UP_TO: f64 = 5.0;

impl WatchPlan {
    /// The level that is expected at an age. Beyond the ages that the trial saw its last level goes on by the growth
    /// that is never alerted, or that the trial showed: an upper bound, since alerts are about more. The forecast there carries
    /// a slope on whose error grows by the day, so that against it nothing could be shown.
    pub(crate) fn expected(&self, age: f64) -> Option<LogLevel> {
        let end = self.forecast.last_age();
        if age <= end {
            return self.forecast.log_level(age);
        }
        let last = self.forecast.log_level(end).filter(|_| age <= COMPARED_UP_TO * end)?;
        let growth = self.shown_growth().max(self.limits.growth_per_day);
        Some(LogLevel { mean: last.mean + growth * (age - end) / DAY, ..last })
    }

    /// What a service that goes on as the trial showed has at an age, on the log scale: the forecast as far as it was
    /// observed, and beyond that growth only if the trial showed it.
    pub(crate) fn course(&self, age: f64) -> Option<f64> {
        let last = self.forecast.last_age();
        let level = self.forecast.log_level(age.min(last))?;
        Some(level.mean + self.shown_growth() * ((age - last) / DAY).max(0.0))
    }

    /// Growth a day that the trial's interval holds to be above 0.
    pub(crate) fn shown_growth(&self) -> f64 {
        let growth = self.forecast.growth().filter(|growth| growth.low.is_some_and(|low| low > 0.0));
        growth.map_or(0.0, |growth| growth.value)
    }
}
