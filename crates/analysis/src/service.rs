//! The figures of one service.

use heaptrial_model::{Reading, units};
use heaptrial_stats::{median, theil_sen_slope, thin, time_average};

use crate::age::{Ages, tolerance};
use crate::fleet::{FleetLife, FleetService, bytes};
use crate::outcome::{DAY, ServiceResult, Settings};

/// Points that a slope is computed from: medians of equally long runs of readings.
pub(crate) const SLOPE_POINTS: usize = 150;
/// Fewer readings after warm-up make no slope.
pub(crate) const SLOPE_READINGS: usize = 5;
/// Readings further apart than this many times the usual distance have a gap between them.
const GAP_FACTOR: f64 = 5.0;

/// The figures of a service, but for whether it is a stranger in its arms.
pub(crate) fn figures(service: &FleetService, ages: &Ages, settings: &Settings) -> ServiceResult {
    let life = service.current();
    let sawtooth = service.arms.first().is_some_and(|arm| ages.sawtooth[*arm]);
    let time_average_bytes = average_over_time(service);
    let (level_bytes, no_level) = match life.map(|life| level(life, ages, settings)) {
        _ if sawtooth => (time_average_bytes, None),
        Some(Ok(level)) => (Some(level), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, Some("it has no readings".to_owned())),
    };
    let growth = life.map(|life| after_warm_up(life, ages, settings, 1.0));
    let slope = |of: fn(f64) -> f64| growth.as_ref().and_then(|readings| slope(readings, of));
    ServiceResult {
        name: service.name.clone(),
        arms: service.arms.clone(),
        restarts: service.lives.len().saturating_sub(1) as u32,
        started_at: life.map(|life| life.started_at),
        start: life.map(|life| life.start),
        age_seconds: life.and_then(FleetLife::last_age),
        readings: life.map_or(0, |life| life.readings.len() as u64),
        final_bytes: life.and_then(|life| life.readings.last()).map(bytes),
        peak_bytes: life
            .and_then(|life| life.readings.iter().map(|reading| reading.kib).max())
            .map(|kib| f64::from(kib) * 1024.0),
        level_bytes,
        no_level,
        growth_bytes_per_day: slope(|bytes| bytes),
        growth_log_per_day: slope(f64::ln),
        time_average_bytes,
        stranger_in: Vec::new(),
    }
}

/// Median of the readings in the window that ends at the matched age.
fn level(life: &FleetLife, ages: &Ages, settings: &Settings) -> Result<f64, String> {
    let Some(matched) = ages.matched else { return Err("no age was reached by enough services".to_owned()) };
    if !ages.usable(life) {
        return Err("its start is not known, so its age is not".to_owned());
    }
    if !ages.reached(life) {
        let (age, matched) = (units::duration(life.last_age().unwrap_or(0.0)), units::duration(matched));
        return Err(format!("too young to compare: it reached {age} of {matched}"));
    }
    level_at(life, matched, settings.window_seconds)
        .ok_or_else(|| "it has no reading in the window".to_owned())
}

/// Median of the readings in a window that ends at `age`.
pub(crate) fn level_at(life: &FleetLife, age: f64, window_seconds: f64) -> Option<f64> {
    let end = age + tolerance(life, age);
    // A short trial is not compared by its first minutes.
    let start = age - window_seconds.min(age / 2.0);
    let in_window = |reading: &&Reading| (start..=end).contains(&f64::from(reading.age_seconds));
    let values: Vec<f64> = life.readings.iter().filter(in_window).map(bytes).collect();
    median(&values).filter(|level| *level > 0.0)
}

/// The readings of a life after its warm-up and that of all arms, up to a share of what follows.
pub(crate) fn after_warm_up<'l>(
    life: &'l FleetLife,
    ages: &Ages,
    settings: &Settings,
    share: f64,
) -> &'l [Reading] {
    let Some(last) = life.last_age() else { return &[] };
    let first = life.readings.first().map_or(0.0, |reading| f64::from(reading.age_seconds));
    // Where the start is unknown the first reading may be of any age.
    let first = if life.age_known() { 0.0 } else { first };
    let own = first + settings.warm_up_share * (last - first);
    let start = ages.growth_from.map_or(own, |from| own.max(from - life.started_at));
    let end = start + share * (last - start);
    let from = life.readings.partition_point(|reading| f64::from(reading.age_seconds) < start);
    let to = life.readings.partition_point(|reading| f64::from(reading.age_seconds) <= end);
    life.readings.get(from..to).unwrap_or(&[])
}

/// (age in days, value) of readings, thinned; empty where a value is not finite, as the logarithm of 0.
pub(crate) fn points(readings: &[Reading], value: fn(f64) -> f64) -> Vec<(f64, f64)> {
    let all: Vec<(f64, f64)> = readings
        .iter()
        .map(|reading| (f64::from(reading.age_seconds) / DAY, value(bytes(reading))))
        .collect();
    if all.iter().any(|point| !point.1.is_finite()) { Vec::new() } else { thin(&all, SLOPE_POINTS) }
}

/// Slope in value per day.
pub(crate) fn slope(readings: &[Reading], value: fn(f64) -> f64) -> Option<f64> {
    if readings.len() < SLOPE_READINGS {
        return None;
    }
    theil_sen_slope(&points(readings, value))
}

/// The usual distance between readings of a life in seconds: the median.
pub(crate) fn usual_distance(life: &FleetLife) -> Option<f64> {
    let distances: Vec<f64> =
        life.readings.windows(2).map(|pair| f64::from(pair[1].age_seconds - pair[0].age_seconds)).collect();
    median(&distances)
}

/// Memory averaged over the observed time of all lives.
fn average_over_time(service: &FleetService) -> Option<f64> {
    let mut observed = 0.0;
    let mut sum = 0.0;
    for life in &service.lives {
        let Some(usual) = usual_distance(life) else { continue };
        let all: Vec<(f64, f64)> =
            life.readings.iter().map(|reading| (f64::from(reading.age_seconds), bytes(reading))).collect();
        let longest = GAP_FACTOR * usual;
        let time: f64 = all.windows(2).map(|pair| pair[1].0 - pair[0].0).filter(|gap| *gap <= longest).sum();
        if let Some(average) = time_average(&all, longest) {
            observed += time;
            sum += time * average;
        }
    }
    (observed > 0.0).then(|| sum / observed)
}
