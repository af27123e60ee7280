//! Arms that were read at other hours of the day.

use std::f64::consts::TAU;

use crate::analysis::age::Ages;
use crate::analysis::fleet::{Fleet, FleetLife};
use crate::analysis::outcome::{DAY, Finding, FindingKind, Settings, Severity};

/// Means of readings on the circle of the day, of which the radius is 1, lie this far apart where a load that goes up and down by 20% over the
/// day could move the ratio by 10%: as of readings at hours two apart, or of readings at one hour and at all.
const LEAST_APART: f64 = 0.5;
/// Readings are of some hours where their mean lies this far from the middle.
const LEAST_LENGTH: f64 = 0.3;

/// Arms whose levels are of other hours than the control's: load has a rhythm.
pub(super) fn of_arms(
    fleet: &Fleet,
    members: &[Vec<usize>],
    ages: &Ages,
    settings: &Settings,
) -> Option<Finding> {
    let matched = ages.matched?;
    let window = settings.level_from(matched)..=matched;
    let control = fleet.arms.iter().position(|arm| arm.control)?;
    let of = |arm: usize| {
        let lives = members[arm].iter().filter_map(|index| fleet.services[*index].current());
        let means: Vec<(f64, f64)> = lives.filter_map(|life| mean(life, &window)).collect();
        let count = means.len() as f64;
        let sum = means.iter().fold((0.0, 0.0), |sum, mean| (sum.0 + mean.0, sum.1 + mean.1));
        (count > 0.0).then(|| (sum.0 / count, sum.1 / count))
    };
    let of_control = of(control)?;
    let apart = |arm: usize| {
        let (x, y) = of(arm)?;
        ((x - of_control.0).hypot(y - of_control.1) >= LEAST_APART).then_some((arm, (x, y)))
    };
    let found: Vec<_> = (0..fleet.arms.len()).filter(|arm| *arm != control).filter_map(apart).collect();
    let told = |arm: usize, mean| format!("{} {}", fleet.arms[arm].name, hours(mean));
    (!found.is_empty()).then(|| Finding {
        kind: FindingKind::OtherHours,
        severity: Severity::Caution,
        arms: found.iter().map(|(arm, _)| *arm).collect(),
        services: Vec::new(),
        evidence: format!(
            "levels of {} are of readings {} (UTC), those of {}",
            fleet.arms[control].name,
            hours(of_control),
            found.iter().map(|(arm, mean)| told(*arm, *mean)).collect::<Vec<_>>().join(", those of ")
        ),
    })
}

/// The mean of a service's readings at these ages, on the circle of the day.
fn mean(life: &FleetLife, ages: &std::ops::RangeInclusive<f64>) -> Option<(f64, f64)> {
    let ages =
        life.readings.iter().map(|reading| f64::from(reading.age_seconds)).filter(|age| ages.contains(age));
    let mut count = 0.0;
    let (x, y) = ages.fold((0.0, 0.0), |(x, y), age| {
        count += 1.0;
        let angle = (life.started_at + age).rem_euclid(DAY) / DAY * TAU;
        (x + angle.cos(), y + angle.sin())
    });
    (count > 0.0).then(|| (x / count, y / count))
}

fn hours((x, y): (f64, f64)) -> String {
    if x.hypot(y) < LEAST_LENGTH {
        return "of all hours".to_owned();
    }
    let minutes = (y.atan2(x).rem_euclid(TAU) / TAU * DAY / 60.0).round() as u64 % 1440;
    format!("around {:02}:{:02}", minutes / 60, minutes % 60)
}
