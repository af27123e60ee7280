//! Levels against the forecast: all services together, and each by itself.

use heaptrial_analysis::{Fleet, FleetLife, FleetService, LogLevel};
use heaptrial_model::units;
use heaptrial_stats::holm;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::growth::told;
use crate::alert::{Alert, AlertKind};
use crate::plan::WatchPlan;

/// Readings begin so much of a window late at most, as after a gap at the start of the watch. A level of half a day may
/// be off by some of the daily load, which is below what is never alerted.
const BEGINS_LATE: f64 = 0.5;
/// Readings end so much of a window before the look at most.
const ENDS_EARLY: f64 = 0.25;

/// A service's level beside what is expected of it.
#[derive(Debug, Clone)]
pub(super) struct Level {
    pub(super) service: String,
    pub(super) bytes: f64,
    expected: LogLevel,
    /// Logarithm of the level over the expected one.
    excess: f64,
    /// So much of that it had in the trial already.
    usual: f64,
}

/// The levels of all services at a time, and of those without one the reason.
pub(super) fn levels(plan: &WatchPlan, fleet: &Fleet, at: f64) -> (Vec<Level>, Vec<(String, String)>) {
    let (mut levels, mut missing) = (Vec::new(), Vec::new());
    for service in &fleet.services {
        match level(plan, fleet, service, at) {
            Ok(level) => levels.push(level),
            Err(why) => missing.push((service.name.clone(), why.to_string())),
        }
    }
    (levels, missing)
}

/// Why a service has no level at a look.
#[derive(Debug, thiserror::Error)]
enum NoLevel {
    #[error("no readings")]
    NoReadings,
    #[error("it does not run its treatment: {0}")]
    OffTreatment(String),
    #[error("what it runs is not proved")]
    NotProved,
    #[error("its last reading was {} before", units::duration(*.seconds))]
    Quiet { seconds: f64 },
    #[error("its readings do not cover {}", units::duration(*.seconds))]
    Uncovered { seconds: f64 },
    #[error("it is {} old, too young for the forecast", units::duration(*.seconds))]
    TooYoung { seconds: f64 },
    #[error("it is {} old, too old for the forecast", units::duration(*.seconds))]
    TooOld { seconds: f64 },
}

fn level(plan: &WatchPlan, fleet: &Fleet, service: &FleetService, at: f64) -> Result<Level, NoLevel> {
    let life = service.current().ok_or(NoLevel::NoReadings)?;
    if let Some(why) = &life.contamination {
        return Err(NoLevel::OffTreatment(why.clone()));
    }
    if fleet.identities_proved && !life.proved {
        return Err(NoLevel::NotProved);
    }
    let age = life.last_age().ok_or(NoLevel::NoReadings)?;
    let quiet = at - life.started_at - age;
    if quiet > ENDS_EARLY * plan.forecast.window_seconds() {
        return Err(NoLevel::Quiet { seconds: quiet });
    }
    let bytes = covered(plan, life, age, BEGINS_LATE)
        .ok_or_else(|| NoLevel::Uncovered { seconds: window(plan, age) })?;
    let expected = plan.expected(age).ok_or_else(|| match age < plan.forecast.first_age() {
        true => NoLevel::TooYoung { seconds: age },
        false => NoLevel::TooOld { seconds: age },
    })?;
    let planned = plan.services.iter().find(|planned| planned.service.as_str() == service.name);
    let usual = planned.and_then(|planned| planned.usual_excess).unwrap_or(0.0).max(0.0);
    Ok(Level { service: service.name.clone(), bytes, excess: bytes.ln() - expected.mean, usual, expected })
}

/// The level of a life at an age, where its readings cover the window but for a share `late` at its beginning.
pub(super) fn covered(plan: &WatchPlan, life: &FleetLife, age: f64, late: f64) -> Option<f64> {
    let window = window(plan, age);
    let first = f64::from(life.readings.first()?.age_seconds);
    if first > age - window + late * window {
        return None;
    }
    plan.forecast.level_of(life, age)
}

/// The window of a level that ends at an age.
fn window(plan: &WatchPlan, age: f64) -> f64 {
    plan.forecast.window_seconds().min(age / 2.0)
}

/// Alerts on levels, with `error` as the probability that there is one where nothing is wrong: half of it for all
/// services together, half for single ones (Holm).
///
/// All together: the mean of the excesses of *m* services against that of the *n* of the trial, Student's t for two
/// samples with a common variance (Student, "The Probable Error of a Mean", Biometrika 6, 1908), with the variance of
/// what all services share added. A single one: against the trial's mean with the prediction error of one further
/// service, with the variance of the trial's services and the others of the watch. What is tested is whether the excess
/// is more than the share that is never alerted; of a single one, where all together are above, whether it is above
/// them. What is in `before` stands while the excess is more than that share, shown or not.
pub(super) fn alerts(plan: &WatchPlan, levels: &[Level], error: f64, before: &[Alert]) -> Vec<Alert> {
    let never_alerted = plan.limits.level_share.ln_1p();
    let mut tolerated = never_alerted;
    let mut alerts = Vec::new();
    let Some((excess, p)) = together(levels, tolerated) else { return alerts };
    let stands = |key: &str, excess: f64| excess > never_alerted && before.iter().any(|own| own.key == key);
    if p <= error / 2.0 || stands(ALL, excess) {
        alerts.push(of_all(plan, levels.len(), excess, p));
        tolerated += excess;
    }
    let values: Vec<Option<f64>> =
        (0..levels.len()).map(|index| Some(single(levels, index, tolerated))).collect();
    let found = levels.iter().zip(holm(&values)).filter_map(|(level, p)| Some((level, p?)));
    let found = found
        .filter(|(level, p)| *p <= error / 2.0 || stands(&key(&level.service), level.excess - level.usual));
    alerts.extend(found.map(|(level, p)| of_service(level, p)));
    alerts
}

/// The key of an alert on all services.
const ALL: &str = "level:all";

/// The key of an alert on one service.
fn key(service: &str) -> String {
    format!("level:{service}")
}

fn of_all(plan: &WatchPlan, services: usize, excess: f64, p: f64) -> Alert {
    Alert {
        key: ALL.to_owned(),
        kind: AlertKind::Level,
        state: "above".to_owned(),
        service: None,
        services: Vec::new(),
        text: format!(
            "{} {} {:.2} times what the trial led to expect (p {}{})",
            units::counted(services, "service"),
            if services == 1 { "uses" } else { "use" },
            excess.exp(),
            units::p_value(p),
            told(plan)
        ),
        advice: format!(
            "`heaptrial report '{}'` shows their memory; compare versions, settings and load with those of the trial",
            crate::stored_name(&plan.name)
        ),
    }
}

fn of_service(level: &Level, p: f64) -> Alert {
    Alert {
        key: key(&level.service),
        kind: AlertKind::Level,
        state: "above".to_owned(),
        service: Some(level.service.clone()),
        services: Vec::new(),
        text: format!(
            "{} uses {}, and {} was expected at its age: {:.2} times as much (p {})",
            level.service,
            units::memory(level.bytes),
            units::memory(level.expected.mean.exp()),
            level.excess.exp(),
            units::p_value(p)
        ),
        advice: format!("look at what is special about {}: load, settings, version", level.service),
    }
}

struct Group {
    count: f64,
    mean: f64,
    /// Squares of the distances from the mean, added up.
    squares: f64,
}

impl Group {
    fn of<'l>(levels: impl Iterator<Item = &'l Level> + Clone) -> Self {
        let count = levels.clone().count() as f64;
        let mean = levels.clone().map(|level| level.excess).sum::<f64>() / count;
        Self { count, mean, squares: levels.map(|level| (level.excess - mean).powi(2)).sum() }
    }
}

/// The p-value of all services together.
fn together(levels: &[Level], tolerated: f64) -> Option<(f64, f64)> {
    let group = Group::of(levels.iter());
    let over = |of: &dyn Fn(&Level) -> f64| levels.iter().map(of).sum::<f64>() / group.count;
    let before = levels.iter().map(|level| f64::from(level.expected.services)).min_by(f64::total_cmp)?;
    let spread = over(&|level| level.expected.spread.powi(2));
    let shared = over(&|level| level.expected.shared.powi(2));
    let free = before + group.count - 2.0;
    let variance = ((before - 1.0) * spread + group.squares) / free;
    let own = variance * (1.0 / group.count + 1.0 / before);
    Some((group.mean, upper_tail(group.mean - tolerated, own, free, shared)))
}

/// The p-value of one service, whose own distance is not in the spread that it is measured by. One that was above the others in the trial
/// is tested for what it is beyond that.
fn single(levels: &[Level], index: usize, tolerated: f64) -> f64 {
    let level = &levels[index];
    let before = f64::from(level.expected.services);
    let others = levels.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, level)| level);
    let (mut squares, mut free) = ((before - 1.0) * level.expected.spread.powi(2), before - 1.0);
    if levels.len() > 2 {
        let others = Group::of(others);
        squares += others.squares;
        free += others.count - 1.0;
    }
    let own = squares / free * (1.0 + 1.0 / before);
    upper_tail(level.excess - level.usual - tolerated, own, free, level.expected.shared.powi(2))
}

/// The probability of an excess so large or larger, by Student's t, where its variance is `own` with `free` degrees of
/// freedom and what all services `shared`.
fn upper_tail(excess: f64, own: f64, free: f64, shared: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, free) {
        Ok(student) if own + shared > 0.0 => student.sf(excess / (own + shared).sqrt()),
        // Services that are all the same leave no doubt.
        Ok(_) if excess > 0.0 => 0.0,
        _ => 1.0,
    }
}

/// Geometric mean of levels over expected ones.
pub(super) fn mean_ratio(levels: &[Level]) -> Option<f64> {
    (!levels.is_empty()).then(|| Group::of(levels.iter()).mean.exp())
}
