//! Arms that were read at other hours of the day.

use std::f64::consts::TAU;

use crate::fleet::Fleet;
use crate::outcome::{DAY, Finding, FindingKind, Severity};

/// Arms whose readings lie this far apart in the day are compared at another load.
const LEAST_APART: f64 = 2.0 * 3600.0;
/// Readings are of some hours where their mean on the circle of the day is at least so long: of those of all hours it is 0, of those of
/// twelve hours on end 0.64.
const LEAST_LENGTH: f64 = 0.6;
/// Minutes of a day.
const STEPS: usize = 1440;

/// Arms whose services are read at other hours than those of the control: load has a rhythm.
pub(super) fn of_arms(fleet: &Fleet, members: &[Vec<usize>]) -> Option<Finding> {
    let compared = || (0..fleet.arms.len()).filter(|arm| fleet.arms[*arm].earlier_list_of.is_none());
    let control = compared().find(|arm| fleet.arms[*arm].control)?;
    let of_control = usual_hour(fleet, &members[control])?;
    let apart = |arm: usize| {
        let hour = usual_hour(fleet, &members[arm])?;
        let distance = (hour - of_control).rem_euclid(DAY);
        (distance.min(DAY - distance) >= LEAST_APART).then_some((arm, hour))
    };
    let found: Vec<(usize, f64)> = compared().filter(|arm| *arm != control).filter_map(apart).collect();
    let told = |(arm, hour): &(usize, f64)| format!("{} around {}", fleet.arms[*arm].name, clock(*hour));
    (!found.is_empty()).then(|| Finding {
        kind: FindingKind::OtherHours,
        severity: Severity::Caution,
        arms: found.iter().map(|(arm, _)| *arm).collect(),
        services: Vec::new(),
        evidence: format!(
            "services of {} are read around {} (UTC), those of {}",
            fleet.arms[control].name,
            clock(of_control),
            found.iter().map(told).collect::<Vec<_>>().join(", those of ")
        ),
        effect: "Where load has a rhythm of a day, a difference may be that of the hours.".to_owned(),
    })
}

/// Seconds into the day (UTC) around which services are read; `None` where they are read all day, or for less than a day.
fn usual_hour(fleet: &Fleet, members: &[usize]) -> Option<f64> {
    let mut readings = [0_u64; STEPS];
    let mut longest: f64 = 0.0;
    for life in members.iter().flat_map(|index| &fleet.services[*index].lives) {
        let first = life.readings.first().map_or(0.0, |reading| f64::from(reading.age_seconds));
        longest = longest.max(life.last_age().unwrap_or(0.0) - first);
        for reading in &life.readings {
            let of_day = (life.started_at + f64::from(reading.age_seconds)).rem_euclid(DAY);
            readings[((of_day / DAY * STEPS as f64) as usize).min(STEPS - 1)] += 1;
        }
    }
    let all = readings.iter().sum::<u64>() as f64;
    let (mut x, mut y) = (0.0, 0.0);
    for (step, count) in readings.iter().enumerate() {
        let angle = (step as f64 + 0.5) / STEPS as f64 * TAU;
        x += *count as f64 * angle.cos();
        y += *count as f64 * angle.sin();
    }
    let of_some_hours = longest >= DAY && x.hypot(y) >= LEAST_LENGTH * all;
    of_some_hours.then(|| y.atan2(x).rem_euclid(TAU) / TAU * DAY)
}

/// `06:30`
fn clock(seconds: f64) -> String {
    let minutes = (seconds / 60.0) as u64;
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}
