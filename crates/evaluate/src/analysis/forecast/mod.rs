//! What one further service under an arm's treatment is expected to use at an age.

use heaptrial_model::{Classified, ErrorClass};
use heaptrial_stats::student_quantile;

mod fit;

use serde::{Deserialize, Serialize};

use crate::analysis::age::tolerance;
use crate::analysis::fleet::FleetLife;
use crate::analysis::outcome::{DAY, Estimate, window_before};
use crate::analysis::service::level_at;

/// Ages up to this many times the last observed one are forecast, by carrying growth on.
const CARRIED_ON: f64 = 2.0;
/// Readings end a little before the age at which they are taken.
const ROUNDING: f64 = 1.001;

/// What services under an arm's treatment are expected to use by age, from a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// The arm.
    arm: String,
    /// Services that it comes from.
    services: u32,
    /// A level is the median of a window of so many seconds, or of half the age where that is less.
    window_seconds: f64,
    /// Levels by age, ascending, at equal distances of its logarithm.
    knots: Vec<Knot>,
    /// Slope of the logarithm of memory a day by which levels are carried on beyond the last age.
    slope: Option<Slope>,
    /// Growth a day as a share, median over services.
    growth: Option<Estimate>,
    /// SD of what all services share from window to window, on the log scale.
    drift: f64,
    /// SD of what all services share within a window, on the log scale: daily load.
    swing: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Knot {
    age_seconds: f64,
    /// Mean of the logarithms of services' levels.
    log_bytes: f64,
    /// Their standard deviation.
    spread: f64,
    /// Services with a level.
    services: u32,
}

/// A slope of logarithms a day.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Slope {
    per_day: f64,
    /// SD between services.
    spread: f64,
    /// Standard error of what all services share.
    shared: f64,
}

/// The level that is expected of one further service at an age, in bytes: of the median of a window, not of single
/// readings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// Half of services lie below.
    pub median_bytes: f64,
    /// Lower prediction limit for one service.
    pub low_bytes: f64,
    /// Upper prediction limit for one service.
    pub high_bytes: f64,
}

/// What is expected at an age on the log scale, in its parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogLevel {
    /// Mean of the logarithm of bytes.
    pub mean: f64,
    /// Standard deviation between services.
    pub spread: f64,
    /// Services that both come from.
    pub services: u32,
    /// Standard deviation of what all services share: the trial's days were not those to come.
    pub shared: f64,
}

/// Why there is no forecast.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ForecastError {
    /// No such arm.
    #[error("there is no arm `{arm}`; the arms are {arms}")]
    NoArm {
        /// What was asked for.
        arm: String,
        /// What there is.
        arms: String,
    },
    /// No life counts, or those that do have no readings.
    #[error(
        "no service of arm `{arm}` has readings that count: lives that were proved to run its treatment, of known age"
    )]
    NoReadings {
        /// The arm.
        arm: String,
    },
    /// One service says nothing about another.
    #[error("{services} service of arm `{arm}` has readings that count; a forecast needs at least 2")]
    TooFewServices {
        /// The arm.
        arm: String,
        /// Services with readings that count.
        services: usize,
    },
    /// Lives are too short or too full of gaps.
    #[error("the readings of arm `{arm}` cover no age at which two of its services could be compared")]
    NoLevels {
        /// The arm.
        arm: String,
    },
}

impl Classified for ForecastError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Refused
    }
}

impl Forecast {
    /// The arm.
    pub fn arm(&self) -> &str {
        &self.arm
    }

    /// Services that it comes from.
    pub fn services(&self) -> u32 {
        self.services
    }

    /// The level of a service at an age is the median of its readings in the window of so many seconds that ends
    /// there, or in the second half of its life where that is shorter.
    pub fn window_seconds(&self) -> f64 {
        self.window_seconds
    }

    /// Youngest age for which there is a forecast, in seconds.
    pub fn first_age(&self) -> f64 {
        self.knots.first().map_or(0.0, |knot| knot.age_seconds)
    }

    /// Oldest age observed by enough services, in seconds.
    pub fn last_age(&self) -> f64 {
        self.knots.last().map_or(0.0, |knot| knot.age_seconds)
    }

    /// Oldest age for which there is a forecast, in seconds: twice the oldest observed one where growth is known.
    pub fn end_age(&self) -> f64 {
        self.last_age() * if self.slope.is_some() { CARRIED_ON } else { 1.0 }
    }

    /// Standard deviation of what all services share from window to window, on the log scale; 0 where the trial was too
    /// short for one.
    pub fn drift(&self) -> f64 {
        self.drift
    }

    /// Growth a day as a share, with its interval where there is one.
    pub fn growth(&self) -> Option<Estimate> {
        self.growth
    }

    /// The expected level of one further service, with prediction limits such as 0.99.
    ///
    /// Student's t with n - 1 degrees of freedom on the logarithms: for a mean *m* and SD *s* of *n* services the
    /// limits are `m ± t √(s² (1 + 1/n) + 2 c²)`, with *c* the SD of what all services share (G. J. Hahn, W. Q.
    /// Meeker, "Statistical Intervals", 1991, section 4.7; the term in *c* is added, once for the trial's days and
    /// once for those to come). Beyond the last observed age the mean goes on by the median slope, and the errors of
    /// slopes are added, up to twice that age. `None` before the first age and beyond that, or where `confidence` is
    /// not between 0 and 1.
    pub fn at(&self, age_seconds: f64, confidence: f64) -> Option<Expectation> {
        if !(confidence > 0.0 && confidence < 1.0) {
            return None;
        }
        let level = self.log_level(age_seconds)?;
        let n = f64::from(level.services);
        let t = student_quantile(n - 1.0, (1.0 + confidence) / 2.0)?;
        let error = (level.spread.powi(2) * (1.0 + 1.0 / n) + level.shared.powi(2)).sqrt();
        Some(Expectation {
            median_bytes: level.mean.exp(),
            low_bytes: (level.mean - t * error).exp(),
            high_bytes: (level.mean + t * error).exp(),
        })
    }

    /// The level of a life at an age in bytes, as [`Self::at`] means it: `None` where the life did not reach the age or
    /// its readings do not cover the window.
    pub fn level_of(&self, life: &FleetLife, age_seconds: f64) -> Option<f64> {
        let reached = life.last_age().is_some_and(|last| last >= age_seconds - tolerance(life, age_seconds));
        if reached {
            level_at(life, window_before(age_seconds, self.window_seconds), age_seconds)
        } else {
            None
        }
    }

    /// What is expected at an age, in the parts that a test over several services needs.
    pub fn log_level(&self, age_seconds: f64) -> Option<LogLevel> {
        let (first, last) = (self.knots.first()?, self.knots.last()?);
        if !(age_seconds >= first.age_seconds / ROUNDING && age_seconds <= self.end_age() * ROUNDING) {
            return None;
        }
        let knot = self.between(age_seconds.clamp(first.age_seconds, last.age_seconds))?;
        // A window that is cut short holds a part of a day only.
        let swing = if age_seconds < 2.0 * self.window_seconds { self.swing } else { 0.0 };
        let shared = 2.0 * (self.drift.powi(2) + swing.powi(2));
        let days = ((age_seconds - last.age_seconds) / DAY).max(0.0);
        let slope = self.slope.unwrap_or(Slope { per_day: 0.0, spread: 0.0, shared: 0.0 });
        Some(LogLevel {
            mean: knot.log_bytes + slope.per_day * days,
            spread: knot.spread.hypot(slope.spread * days),
            services: knot.services,
            shared: (shared + (slope.shared * days).powi(2)).sqrt(),
        })
    }

    /// Linear in the logarithm of age.
    fn between(&self, age_seconds: f64) -> Option<Knot> {
        let next = self.knots.partition_point(|knot| knot.age_seconds < age_seconds);
        let right = *self.knots.get(next)?;
        let Some(left) = next.checked_sub(1).map(|place| self.knots[place]) else { return Some(right) };
        let part =
            (age_seconds.ln() - left.age_seconds.ln()) / (right.age_seconds.ln() - left.age_seconds.ln());
        let mix = |a: f64, b: f64| a + part * (b - a);
        Some(Knot {
            age_seconds,
            log_bytes: mix(left.log_bytes, right.log_bytes),
            spread: mix(left.spread.powi(2), right.spread.powi(2)).sqrt(),
            services: left.services.min(right.services),
        })
    }
}
