//! The figures of one service.

use heaptrial_model::{Reading, units};
use heaptrial_stats::{mean, median, theil_sen_slope, time_average};

use crate::analysis::age::{Ages, in_sawtooth, tolerance};
use crate::analysis::fleet::{FleetLife, FleetService, bytes};
use crate::analysis::gap::{distances, longest_distance};
use crate::analysis::outcome::{DAY, DayLevel, ServiceResult, Settings, window_before};
use crate::analysis::thresholds::USUAL_SHARE;
use crate::analysis::work;

/// Points that a slope is computed from: medians of equal spans of time.
const SLOPE_POINTS: usize = 150;
/// Fewer readings after warm-up, lives or windows make no slope.
pub(crate) const FEWEST_OF_A_SLOPE: usize = 5;
/// Memory of a lab run goes up and down where this share of neighbouring readings,
const STEPS_SHARE: f64 = 0.1;
/// are apart by this factor.
const STEP: f64 = 1.5;
/// Parts of a window of a level, each of which counts alike however often it was read: hours of a day.
pub(crate) const WINDOW_PARTS: usize = 24;

/// The figures of a service, but for whether it is off treatment in its arms.
pub(crate) fn figures(service: &FleetService, ages: &Ages, settings: &Settings) -> ServiceResult {
    let life = service.current();
    let sawtooth = in_sawtooth(service, ages);
    let time_average_bytes = average_over_time(service, ages);
    let (level_bytes, no_level) = match life.map(|life| level(service, life, ages, settings)) {
        _ if sawtooth => (time_average_bytes.filter(|bytes| *bytes > 0.0), None),
        Some(Ok(level)) => (Some(level), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, Some("it has no readings".to_owned())),
    };
    let growth = growth_points(service, ages, settings, 1.0);
    ServiceResult {
        name: service.name.clone(),
        arms: service.arms.clone(),
        restarts: service.lives.len().saturating_sub(1) as u32,
        started_at: life.map(|life| life.started_at),
        start: life.map(|life| life.start),
        age_seconds: life.and_then(FleetLife::last_age),
        readings: life.map_or(0, |life| life.readings.len() as u64),
        final_bytes: life.and_then(|life| life.readings.last()).map(bytes),
        peak_bytes: service
            .lives
            .iter()
            .filter(|other| {
                other.contamination.is_none() || life.is_some_and(|life| std::ptr::eq(*other, life))
            })
            .flat_map(|life| life.readings.iter().chain(&life.peaks).map(|reading| reading.kib))
            .max()
            .map(|kib| f64::from(kib) * 1024.0),
        level_bytes,
        no_level,
        growth_bytes_per_day: theil_sen_slope(&growth),
        growth_log_per_day: theil_sen_slope(&logs(&growth)),
        time_average_bytes,
        work: work::of_service(service, ages, settings),
        off_treatment_in: Vec::new(),
    }
}

/// Median of the readings in the window that ends at the matched age.
fn level(service: &FleetService, life: &FleetLife, ages: &Ages, settings: &Settings) -> Result<f64, String> {
    let Some(matched) = ages.matched else { return Err("no age was reached by enough services".to_owned()) };
    if !ages.usable(service, life) {
        return Err("its start is not known, so its age is not".to_owned());
    }
    if !ages.reached(life) {
        let (age, matched) = (units::duration(life.last_age().unwrap_or(0.0)), units::duration(matched));
        return Err(format!("too young to compare: it reached {age} of {matched}"));
    }
    let from = settings.level_from(matched);
    if !settings.level_from_warm_up {
        return level_at(life, from, matched)
            .ok_or_else(|| "its readings do not cover the window before the matched age".to_owned());
    }
    // A lab reads all services at the same ages: nothing has to be put between readings.
    match in_window(life, from, matched) {
        inside @ [_, _, ..] => level_of_lab(inside).ok_or_else(|| "it had no memory".to_owned()),
        _ => Err("it was read less than twice after its warm-up".to_owned()),
    }
}

/// The median, or the mean of memory that goes up and down: of two states the median is one or the other by chance.
fn level_of_lab(readings: &[Reading]) -> Option<f64> {
    let values: Vec<f64> = readings.iter().map(bytes).collect();
    match goes_up_and_down(&values) {
        true => Some(values.iter().sum::<f64>() / values.len() as f64),
        false => median(&values),
    }
    .filter(|level| *level > 0.0)
}

/// Whether one reading in [`STEPS_SHARE`] or more differs from the one before it by [`STEP`] or more, up and down alike: what
/// grows or settles goes one way.
fn goes_up_and_down(values: &[f64]) -> bool {
    let steps = |up: bool| {
        let far = |pair: &&[f64]| {
            let (from, to) = if up { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
            to >= STEP * from
        };
        values.windows(2).filter(far).count()
    };
    // Once there and back is an exception.
    let times = steps(true).min(steps(false));
    times >= 2 && 2.0 * times as f64 >= STEPS_SHARE * (values.len() - 1) as f64
}

/// Median of memory between two ages, over equal parts of that time: a part has the median of its readings, or memory at its
/// middle between the readings around it. So neither the moments of few readings nor hours that were read more often decide.
/// `None` where less than half of the parts are known.
fn level_at(life: &FleetLife, start: f64, age: f64) -> Option<f64> {
    let longest = longest_distance(usual_distance(life)?, life.rolled_up_seconds);
    let inside = in_window(life, start, age);
    let step = (age - start) / WINDOW_PARTS as f64;
    let place = |reading: &Reading| f64::from(reading.age_seconds) - start;
    let known = |part: usize| {
        let from = inside.partition_point(|reading| place(reading) < step * part as f64);
        // What was read a little late belongs to the last part.
        let to = match part + 1 {
            WINDOW_PARTS => inside.len(),
            next => inside.partition_point(|reading| place(reading) < step * next as f64),
        };
        let values: Vec<f64> = inside[from..to].iter().map(bytes).collect();
        median(&values).or_else(|| memory_at(life, start + step * (part as f64 + 0.5), longest))
    };
    let known: Vec<f64> = (0..WINDOW_PARTS).filter_map(known).filter(|bytes| *bytes > 0.0).collect();
    if 2 * known.len() < WINDOW_PARTS { None } else { median(&known) }
}

/// The level of a life at an age, over the window that ends there; `None` where it did not reach that age.
pub(crate) fn level_when_reached(life: &FleetLife, age: f64, window_seconds: f64) -> Option<f64> {
    life.last_age().filter(|last| *last >= age - tolerance(life, age))?;
    level_at(life, window_before(age, window_seconds), age)
}

/// The readings between two ages.
fn in_window(life: &FleetLife, start: f64, age: f64) -> &[Reading] {
    let end = age + tolerance(life, age);
    let before = life.readings.partition_point(|reading| f64::from(reading.age_seconds) < start);
    let to = life.readings.partition_point(|reading| f64::from(reading.age_seconds) <= end);
    life.readings.get(before..to).unwrap_or(&[])
}

/// Memory at an age, on the log scale between two readings that are at most `longest_gap` apart.
pub(crate) fn memory_at(life: &FleetLife, age: f64, longest_gap: f64) -> Option<f64> {
    let next = life.readings.partition_point(|reading| f64::from(reading.age_seconds) < age);
    let (left, right) = (life.readings.get(next.checked_sub(1)?)?, life.readings.get(next)?);
    let (from, to) = (f64::from(left.age_seconds), f64::from(right.age_seconds));
    let part = (age - from) / (to - from);
    let log = bytes(left).ln() * (1.0 - part) + bytes(right).ln() * part;
    (to - from <= longest_gap).then(|| log.exp())
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
    let own = first + settings.warm_up_of(last - first).max(ages.warm_up);
    let start = ages.growth_from.map_or(own, |from| own.max(from - life.started_at));
    let end = start + share * (last - start);
    let from = life.readings.partition_point(|reading| f64::from(reading.age_seconds) < start);
    let to = life.readings.partition_point(|reading| f64::from(reading.age_seconds) <= end);
    life.readings.get(from..to).unwrap_or(&[])
}

/// What growth of a service is measured from: (days, bytes), up to a share of the time after warm-up. Of a life,
/// age and medians of spans of time; of a service that is restarted at intervals, start and median of each of
/// its complete lives, because what grows between two restarts is lost at the next.
/// Empty where there is too little.
pub(crate) fn growth_points(
    service: &FleetService,
    ages: &Ages,
    settings: &Settings,
    share: f64,
) -> Vec<(f64, f64)> {
    let points = if in_sawtooth(service, ages) {
        let mut lives = lives_as_points(service);
        lives.truncate((share * lives.len() as f64).ceil() as usize);
        lives
    } else {
        let Some(life) = service.current() else { return Vec::new() };
        let readings = after_warm_up(life, ages, settings, share);
        readings.iter().map(|reading| (f64::from(reading.age_seconds) / DAY, bytes(reading))).collect()
    };
    if points.len() < FEWEST_OF_A_SLOPE { Vec::new() } else { thin_by_time(&points, SLOPE_POINTS) }
}

/// Medians of the points in each of `limit` equal spans of time.
fn thin_by_time(points: &[(f64, f64)], limit: usize) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let span = (last.0 - first.0) / limit as f64;
    let place = |point: &(f64, f64)| (((point.0 - first.0) / span) as usize).min(limit - 1);
    let middle = |chunk: &[(f64, f64)]| {
        let of = |value: fn(&(f64, f64)) -> f64| median(&chunk.iter().map(value).collect::<Vec<_>>());
        Some((of(|point| point.0)?, of(|point| point.1)?))
    };
    points.chunk_by(|a, b| place(a) == place(b)).filter_map(middle).collect()
}

/// Start in days since the first one and median bytes of the lives of a service but the last, which goes on.
fn lives_as_points(service: &FleetService) -> Vec<(f64, f64)> {
    let lives: Vec<&FleetLife> = service.lives.iter().filter(|life| !life.readings.is_empty()).collect();
    let Some((_, complete)) = lives.split_last() else { return Vec::new() };
    let Some(first) = complete.first().map(|life| life.started_at) else { return Vec::new() };
    let middle = |life: &FleetLife| median(&life.readings.iter().map(bytes).collect::<Vec<_>>());
    let known = complete.iter().filter(|life| life.age_known());
    known.filter_map(|life| Some(((life.started_at - first) / DAY, middle(life)?))).collect()
}

/// The same on the log scale; empty where a value has no logarithm.
pub(crate) fn logs(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.iter().any(|point| point.1 <= 0.0) {
        return Vec::new();
    }
    points.iter().map(|(days, bytes)| (*days, bytes.ln())).collect()
}

/// Memory of a life by day of age.
pub(crate) fn by_day(life: &FleetLife) -> Vec<DayLevel> {
    let age = |reading: &Reading| f64::from(reading.age_seconds);
    let day = |reading: &Reading| ((age(reading) / DAY) as u32).saturating_add(1);
    let of_day = |chunk: &[Reading]| {
        Some(DayLevel {
            day: day(&chunk[0]),
            services: 1,
            median_bytes: median(&chunk.iter().map(bytes).collect::<Vec<_>>())?,
            age_days: mean(&chunk.iter().map(age).collect::<Vec<_>>()) / DAY,
        })
    };
    life.readings.chunk_by(|a, b| day(a) == day(b)).filter_map(of_day).collect()
}

/// The usual distance between readings of a life in seconds, which [`USUAL_SHARE`] of them do not exceed: where a service was read
/// more often for a while, the distance of the rest is usual, and a few gaps are not.
pub(crate) fn usual_distance(life: &FleetLife) -> Option<f64> {
    let mut own: Vec<f64> = distances(&life.readings).collect();
    own.sort_unstable_by(f64::total_cmp);
    own.get((USUAL_SHARE * own.len().checked_sub(1)? as f64) as usize).copied()
}

/// Memory averaged over the observed time: of the last life, or of all lives since `from`. The life during which a
/// service was first seen began before the trial and is left out, unless it is the only one.
fn average_over_time(service: &FleetService, ages: &Ages) -> Option<f64> {
    let from = ages.average_from;
    let mut observed = 0.0;
    let mut sum = 0.0;
    let lives: Vec<&FleetLife> = match from {
        Some(_) if service.lives.len() > 1 => service.lives.iter().filter(|life| life.age_known()).collect(),
        Some(_) => service.lives.iter().collect(),
        None => service.current().into_iter().collect(),
    };
    for life in lives {
        let Some(usual) = usual_distance(life) else { continue };
        let begun = from.map_or(0.0, |from| from - life.started_at);
        let all: Vec<(f64, f64)> = life
            .readings
            .iter()
            .map(|reading| (f64::from(reading.age_seconds), bytes(reading)))
            .filter(|point| point.0 >= begun)
            .collect();
        let longest = longest_distance(usual, life.rolled_up_seconds);
        let time: f64 = all.windows(2).map(|pair| pair[1].0 - pair[0].0).filter(|gap| *gap <= longest).sum();
        if let Some(average) = time_average(&all, longest) {
            observed += time;
            sum += time * average;
        }
    }
    (observed > 0.0).then(|| sum / observed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_of_a_lab_run_is_a_median_of_what_was_read_or_a_mean() {
        let level = |mib: &[u32]| {
            let reading = |(at, mib): (usize, &u32)| Reading { age_seconds: at as f32, kib: mib * 1024 };
            let readings: Vec<Reading> = mib.iter().enumerate().map(reading).collect();
            level_of_lab(&readings).unwrap() / 1048576.0
        };
        assert_eq!(level(&[100, 101, 103, 102]), 101.5);
        // It settles, then it grows: one way each.
        assert_eq!(level(&[10, 20, 40, 80, 81, 82, 83]), 80.0);
        assert_eq!(level(&[90, 40, 20, 20, 20, 21, 22, 23]), 21.5);
        // Of two states the mean, however readings fall.
        for first in 0..3 {
            let states: Vec<u32> =
                (first..first + 15).map(|turn| if turn % 3 == 2 { 10 } else { 100 }).collect();
            assert!((level(&states) - 70.0).abs() < 1e-9, "{states:?}");
        }
        // One short rise in twenty readings is no state.
        let mut spike = [50; 20];
        spike[7] = 400;
        assert_eq!(level(&spike), 50.0);
    }
}
