//! The forecast of an arm from its lives.

use heaptrial_stats::{mean, median, normal_quantile, theil_sen_slope, variance};
use rayon::prelude::*;

use super::{Forecast, ForecastError, Knot, Slope};
use crate::analysis::age::{Ages, tolerance};
use crate::analysis::fleet::{Fleet, FleetLife, FleetService, bytes};
use crate::analysis::outcome::{DAY, Growth, ServiceResult, Settings, window_before};
use crate::analysis::service::level_at;
use crate::analysis::{growth, service};

const KNOTS: usize = 32;
/// The first one lies at the last one over this.
const AGE_RATIO: f64 = 100.0;
/// Parts of a window in which what services share within it is looked at.
const PARTS: usize = 24;
/// Fewer windows after warm-up show nothing about what services share from one to the next.
const FEWEST_WINDOWS: usize = 5;

impl Forecast {
    /// From the lives of an arm that count: proved to run its treatment where the fleet has a ledger, not
    /// contaminated, of known age. Of a service each age is that of its last such life that reached it, so that a
    /// service is one number at each age. The last age is the oldest that half of the services, at least 2, reached.
    pub fn of_arm(fleet: &Fleet, settings: &Settings, arm: &str) -> Result<Self, ForecastError> {
        let position = fleet.arms.iter().position(|own| own.name == arm).ok_or_else(|| {
            let arms: Vec<&str> = fleet.arms.iter().map(|own| own.name.as_str()).collect();
            ForecastError::NoArm { arm: arm.to_owned(), arms: arms.join(", ") }
        })?;
        let own = of_arm_alone(fleet, position);
        let arm = arm.to_owned();
        match own.services.len() {
            0 => return Err(ForecastError::NoReadings { arm }),
            1 => return Err(ForecastError::TooFewServices { arm, services: 1 }),
            _ => {}
        }
        let knots = knots(&own.services, settings);
        let Some(last) = knots.last().copied() else { return Err(ForecastError::NoLevels { arm }) };
        let ages = Ages::of(&own, settings);
        let results: Vec<ServiceResult> =
            own.services.par_iter().map(|of| service::figures(of, &ages, settings)).collect();
        let members: Vec<usize> = (0..own.services.len()).collect();
        let growth = growth::of_arm(&own, settings, &ages, &results, &members);
        let slope = slope(&results, growth.as_ref(), settings).filter(|_| !own.arms[0].restarted);
        Ok(Self {
            arm,
            services: own.services.len() as u32,
            window_seconds: settings.window_seconds,
            drift: drift(&own.services, settings, last.age_seconds),
            swing: swing(&own.services, settings, last.age_seconds),
            knots,
            slope,
            growth: growth.map(|growth| growth.share_per_day),
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
    let reached = |life: &&FleetLife| life.last_age().is_some_and(|last| last >= age - tolerance(life, age));
    let lives = service.lives.iter().rev().filter(reached);
    lives.filter_map(|life| level_at(life, window_before(age, window_seconds), age)).map(f64::ln).next()
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

fn slope(results: &[ServiceResult], growth: Option<&Growth>, settings: &Settings) -> Option<Slope> {
    let slopes: Vec<f64> = results.iter().filter_map(|service| service.growth_log_per_day).collect();
    let (_, spread) = moments(&slopes)?;
    let growth = growth?.share_per_day;
    let quantile = normal_quantile((1.0 + settings.confidence_level) / 2.0)?;
    let shared = growth.interval().map_or(0.0, |(low, high)| (high - low) / 2.0 / quantile);
    Some(Slope { per_day: growth.value, spread, shared })
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
    let Some(slope) = theil_sen_slope(&course).filter(|_| course.len() >= FEWEST_WINDOWS) else { return 0.0 };
    let left: Vec<f64> = course.iter().map(|(days, log)| log - slope * days).collect();
    let n = left.len() as f64;
    // One degree of freedom more is gone with the slope.
    moments(&left).map_or(0.0, |(_, spread)| spread * ((n - 1.0) / (n - 2.0)).sqrt())
}

/// Standard deviation of the arm's mean within windows that end at the last age, after warm-up.
fn swing(services: &[FleetService], settings: &Settings, last: f64) -> f64 {
    let window = settings.window_seconds;
    let windows = (((1.0 - settings.warm_up_share) * last / window) as usize).max(1);
    let part = window / PARTS as f64;
    let start = last - window * windows as f64;
    // What each service adds to the sums and counts of the parts.
    let mut sums = vec![(0.0, 0_usize); windows * PARTS];
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
        .chunks(PARTS)
        .filter_map(|window| {
            let means = window.iter().filter(|sum| sum.1 > 0 && whole(sum.1));
            moments(&means.map(|sum| sum.0 / sum.1 as f64).collect::<Vec<_>>())
        })
        .map(|(_, spread)| spread)
        .collect();
    median(&spreads).unwrap_or(0.0)
}
