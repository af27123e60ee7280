//! Sudden changes of level common to the services of an arm.

use heaptrial_stats::{LevelChangeSettings, level_changes, median, thin};
use rayon::prelude::*;

use crate::analysis::age::Ages;
use crate::analysis::fleet::{Fleet, FleetLife, bytes};
use crate::analysis::outcome::{ArmLevelChange, DAY, Settings};
use crate::analysis::service::{after_warm_up, usual_distance};

/// Time before and after a change that is compared, where readings are frequent enough.
const WINDOW_DAYS: f64 = 1.0;
/// Readings that a side of a change needs.
const READINGS_A_SIDE: f64 = 4.0;
/// Points of a service: more do not date a change better.
const POINTS: usize = 600;
/// Services of an arm that are looked at; the sign test of these decides as well as that of more.
const SERVICES: usize = 200;

/// Changes of level of the services at `members` after warm-up, in order of time.
pub(crate) fn of_arm(
    fleet: &Fleet,
    settings: &Settings,
    ages: &Ages,
    members: &[usize],
) -> Vec<ArmLevelChange> {
    let every = members.len().div_ceil(SERVICES).max(1);
    let lives: Vec<&FleetLife> =
        members.iter().step_by(every).filter_map(|index| fleet.services[*index].current()).collect();
    let distances: Vec<f64> = lives.iter().filter_map(|life| usual_distance(life)).collect();
    let Some(distance) = median(&distances) else { return Vec::new() };
    let window = WINDOW_DAYS.max(READINGS_A_SIDE * distance / DAY);
    let series: Vec<Vec<(f64, f64)>> = lives
        .par_iter()
        .map(|life| {
            let at = |age: f32| (life.started_at + f64::from(age)) / DAY;
            let points: Vec<(f64, f64)> = after_warm_up(life, ages, settings, 1.0)
                .iter()
                .map(|reading| (at(reading.age_seconds), bytes(reading).max(1.0).ln()))
                .collect();
            thin(&points, POINTS)
        })
        .collect();
    level_changes(&series, &LevelChangeSettings::new(window))
        .into_iter()
        .map(|change| {
            let at = change.time * DAY;
            let then: Vec<f64> = lives.iter().map(|life| (at - life.started_at) / DAY).collect();
            ArmLevelChange {
                at,
                age_days: median(&then).unwrap_or(0.0),
                factor: change.step.exp(),
                services_agreeing: change.agree as u32,
                services: change.voted as u32,
                p_value: change.p_value,
            }
        })
        .collect()
}
