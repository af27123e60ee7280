//! What one further service under an arm's treatment is expected to use at an age.

use heaptrial_stats::{mean, median, theil_sen_slope, variance};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::analysis::age::{Ages, TOLERANCE_SHARE};
use crate::analysis::data::Data;
use crate::analysis::fleet::{Fleet, FleetLife, FleetService, bytes};
use crate::analysis::outcome::{DAY, Estimate, ServiceResult, Settings};
use crate::analysis::service::{FEWEST_OF_A_SLOPE, WINDOW_PARTS, level_when_reached};
use crate::analysis::{growth, service};

/// Ages at which levels are held.
const KNOTS: usize = 32;
/// The first one lies at the last one over this.
const AGE_RATIO: f64 = 100.0;

/// What services under an arm's treatment are expected to use by age, from a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    pub services: u32,
    /// A level is the median of a window of so many seconds, or of half the age where that is less.
    pub window_seconds: f64,
    /// Levels by age, ascending, at equal distances of its logarithm.
    knots: Vec<Knot>,
    /// Growth a day as a share, median over services.
    pub growth: Option<Estimate>,
    /// SD of what all services share from window to window, on the log scale; 0 where the trial was too short for one.
    drift: f64,
    /// SD of what all services share within a window, on the log scale: daily load.
    swing: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Knot {
    age_seconds: f64,
    /// Mean of the logarithms of services' levels.
    log_bytes: f64,
    /// Standard deviation of these logarithms.
    spread: f64,
    services: u32,
}

/// The level that is expected of one further service at an age, on the log scale: of the median of a window, not of single
/// readings.
///
/// For a mean *m* and SD *s* of *n* services the limits are `m ± t √(s² (1 + 1/n) + 2 c²)`, with Student's t of n - 1 degrees of
/// freedom and *c* the SD of what all services share (G. J. Hahn, W. Q. Meeker, "Statistical Intervals", 1991, section 4.7; the
/// term in *c* is added, once for the trial's days and once for those to come).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogLevel {
    /// Mean of the logarithm of bytes.
    pub mean: f64,
    /// Standard deviation of it between services.
    pub spread: f64,
    /// Services that both come from.
    pub services: u32,
    /// What all services share, `√2 c`: the trial's days were not those to come.
    pub shared: f64,
}

impl Forecast {
    /// From the lives of an arm that count: proved to run its treatment where the fleet has a ledger, not
    /// contaminated, of known age. Of a service each age is that of its last such life that reached it, so that a
    /// service is one number at each age. The last age is the oldest that half of the services, at least 2, reached. `None`
    /// with fewer services, or where their readings cover no age.
    pub fn of_arm(fleet: &Fleet, settings: &Settings, arm: usize) -> Option<Self> {
        let own = of_arm_alone(fleet, arm);
        let knots = knots(&own.services, settings);
        let last = knots.last()?.age_seconds;
        let ages = Ages::of(&own, settings);
        let results: Vec<ServiceResult> =
            own.services.par_iter().map(|of| service::figures(of, &ages, settings)).collect();
        let members: Vec<usize> = (0..own.services.len()).collect();
        let growth =
            growth::of_arm(Data { fleet: &own, settings, ages: &ages, services: &results }, &members);
        Some(Self {
            services: own.services.len() as u32,
            window_seconds: settings.window_seconds,
            drift: drift(&own.services, settings, last),
            swing: swing(&own.services, settings, last),
            knots,
            growth: growth.map(|growth| growth.share_per_day),
        })
    }

    /// Oldest age observed by enough services, in seconds.
    pub fn last_age(&self) -> f64 {
        self.knots.last().map_or(0.0, |knot| knot.age_seconds)
    }

    /// The level of a life at an age in bytes, as [`Self::log_level`] means it: `None` where the life did not reach the age or
    /// its readings do not cover the window.
    pub fn level_of(&self, life: &FleetLife, age_seconds: f64) -> Option<f64> {
        level_when_reached(life, age_seconds, self.window_seconds)
    }

    /// What is expected at an age. `None` before the first age and beyond the last one.
    pub fn log_level(&self, age_seconds: f64) -> Option<LogLevel> {
        let (first, last) = (self.knots.first()?.age_seconds, self.last_age());
        // Readings end a little before the age at which they are taken.
        let rounding = 1.0 + TOLERANCE_SHARE;
        if !(first / rounding..=last * rounding).contains(&age_seconds) {
            return None;
        }
        let knot = self.between(age_seconds.clamp(first, last))?;
        // A window that is cut short holds a part of a day only.
        let swing = if age_seconds < 2.0 * self.window_seconds { self.swing } else { 0.0 };
        let shared = 2.0 * (self.drift.powi(2) + swing.powi(2));
        Some(LogLevel {
            mean: knot.log_bytes,
            spread: knot.spread,
            services: knot.services,
            shared: shared.sqrt(),
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

/// The fleet of one arm, with the lives that count and the services that have one.
fn of_arm_alone(fleet: &Fleet, arm: usize) -> Fleet {
    let counts = |life: &&FleetLife| {
        life.contamination.is_none()
            && (life.proved || !fleet.identities_proved)
            && life.age_known()
            && !life.readings.is_empty()
    };
    let services = fleet.services.iter().filter(|service| service.arms.contains(&arm)).map(|service| {
        let lives = service.lives.iter().filter(counts).cloned().collect();
        FleetService { arms: vec![0], lives, ..service.clone() }
    });
    Fleet {
        arms: vec![fleet.arms[arm].clone()],
        services: services.filter(|service| !service.lives.is_empty()).collect(),
        events: Vec::new(),
        ..fleet.clone()
    }
}

/// The logarithm of a service's level at an age: of its last life that reached it.
fn log_level(service: &FleetService, age: f64, window_seconds: f64) -> Option<f64> {
    let mut lives = service.lives.iter().rev();
    lives.find_map(|life| level_when_reached(life, age, window_seconds)).map(f64::ln)
}

/// Services that an age must have: half of them, at least 2.
fn enough(services: usize) -> usize {
    services.div_ceil(2).max(2)
}

fn knots(services: &[FleetService], settings: &Settings) -> Vec<Knot> {
    let oldest =
        |service: &FleetService| service.lives.iter().filter_map(FleetLife::last_age).max_by(f64::total_cmp);
    let mut oldest: Vec<f64> = services.iter().filter_map(oldest).collect();
    oldest.sort_unstable_by(|a, b| b.total_cmp(a));
    let Some(last) = oldest.get(enough(services.len()) - 1).copied().filter(|last| *last > 0.0) else {
        return Vec::new();
    };
    (0..KNOTS)
        .into_par_iter()
        .filter_map(|place| {
            let share = 1.0 - place as f64 / (KNOTS - 1) as f64;
            let age_seconds = last / AGE_RATIO.powf(share);
            let logs: Vec<f64> = services
                .iter()
                .filter_map(|service| log_level(service, age_seconds, settings.window_seconds))
                .collect();
            let (log_bytes, spread) = moments(&logs).filter(|_| logs.len() >= enough(services.len()))?;
            Some(Knot { age_seconds, log_bytes, spread, services: logs.len() as u32 })
        })
        .collect()
}

fn moments(values: &[f64]) -> Option<(f64, f64)> {
    variance(values).map(|variance| (mean(values), variance.sqrt()))
}

/// Standard deviation of the arm's mean level from window to window, beside a straight line.
fn drift(services: &[FleetService], settings: &Settings, last: f64) -> f64 {
    let window = settings.window_seconds;
    let warm = (settings.warm_up_share * last).max(window);
    let windows = ((last - warm) / window) as usize;
    let course: Vec<(f64, f64)> = (0..=windows)
        .into_par_iter()
        .filter_map(|place| {
            let age = last - window * place as f64;
            let logs: Vec<f64> =
                services.iter().filter_map(|service| log_level(service, age, window)).collect();
            (logs.len() >= enough(services.len())).then(|| (age / DAY, mean(&logs)))
        })
        .collect();
    let Some(slope) = theil_sen_slope(&course).filter(|_| course.len() >= FEWEST_OF_A_SLOPE) else {
        return 0.0;
    };
    let left: Vec<f64> = course.iter().map(|(days, log)| log - slope * days).collect();
    let n = left.len() as f64;
    // One degree of freedom more is gone with the slope.
    moments(&left).map_or(0.0, |(_, spread)| spread * ((n - 1.0) / (n - 2.0)).sqrt())
}

/// Standard deviation of the arm's mean within windows that end at the last age, after warm-up.
fn swing(services: &[FleetService], settings: &Settings, last: f64) -> f64 {
    let window = settings.window_seconds;
    let windows = (((1.0 - settings.warm_up_share) * last / window) as usize).max(1);
    let part = window / WINDOW_PARTS as f64;
    let start = last - window * windows as f64;
    // What each service adds to the sums and counts of the parts.
    let mut sums = vec![(0.0, 0_usize); windows * WINDOW_PARTS];
    for life in services.iter().filter_map(FleetService::current) {
        let place = |age: f64| ((age - start) / part) as usize;
        let after = life.readings.partition_point(|reading| f64::from(reading.age_seconds) < start);
        let of_part = life.readings[after..]
            .chunk_by(|a, b| place(f64::from(a.age_seconds)) == place(f64::from(b.age_seconds)));
        for chunk in of_part {
            let values: Vec<f64> = chunk.iter().map(bytes).collect();
            let level = median(&values).filter(|level| *level > 0.0);
            if let (Some(sum), Some(level)) = (sums.get_mut(place(f64::from(chunk[0].age_seconds))), level) {
                *sum = (sum.0 + level.ln(), sum.1 + 1);
            }
        }
    }
    let whole = |count: usize| 2 * count >= services.len();
    let spreads: Vec<f64> = sums
        .chunks(WINDOW_PARTS)
        .filter_map(|window| {
            let means = window.iter().filter(|sum| sum.1 > 0 && whole(sum.1));
            moments(&means.map(|sum| sum.0 / sum.1 as f64).collect::<Vec<_>>())
        })
        .map(|(_, spread)| spread)
        .collect();
    median(&spreads).unwrap_or(0.0)
}
