//! Ages that are not known or not equal, and arms that never ran at the same time.

use heaptrial_model::units;
use heaptrial_stats::median;

use super::several;
use crate::age::Ages;
use crate::fleet::{Fleet, FleetLife, FleetService};
use crate::outcome::{Finding, FindingKind, ServiceResult, Severity};

/// Arms whose median ages differ by more than this share are of unequal age.
const UNEQUAL_SHARE: f64 = 0.1;

pub(super) fn unknown(fleet: &Fleet, services: &[ServiceResult], ages: &Ages) -> Option<Finding> {
    let found: Vec<&FleetService> = fleet
        .services
        .iter()
        .filter(|service| service.current().is_some_and(|life| !life.age_known()))
        .collect();
    let mut arms: Vec<usize> = found.iter().flat_map(|service| service.arms.iter().copied()).collect();
    arms.sort_unstable();
    arms.dedup();
    (!found.is_empty()).then(|| Finding {
        kind: FindingKind::AgeUnknown,
        severity: if ages.lower_bounds { Severity::Caution } else { Severity::Note },
        arms,
        services: found.iter().map(|service| service.name.clone()).collect(),
        evidence: format!(
            "{} of {} began before the first reading: the age is not known (left-censored)",
            several(found.len()),
            services.len()
        ),
        effect: if ages.lower_bounds {
            "Ages count from the first reading for all, so that services are compared at equal time since then, not at \
             equal age."
        } else {
            "They have no level at the matched age; last readings and growth hold them."
        }
        .to_owned(),
    })
}

pub(super) fn unequal(
    fleet: &Fleet,
    services: &[ServiceResult],
    members: &[Vec<usize>],
    ages: &Ages,
) -> Option<Finding> {
    let compared = |arm: &usize| fleet.arms[*arm].earlier_list_of.is_none() && !ages.sawtooth[*arm];
    let by_arm: Vec<(usize, f64)> = (0..fleet.arms.len())
        .filter(compared)
        .filter_map(|arm| {
            let known = members[arm].iter().filter_map(|index| {
                let life = fleet.services[*index].current()?;
                ages.usable(life).then_some(services[*index].age_seconds?)
            });
            Some((arm, median(&known.collect::<Vec<_>>())?))
        })
        .collect();
    let oldest = by_arm.iter().map(|arm| arm.1).fold(0.0, f64::max);
    let youngest = by_arm.iter().map(|arm| arm.1).fold(f64::INFINITY, f64::min);
    let told: Vec<String> = by_arm
        .iter()
        .map(|(arm, age)| format!("{} {}", fleet.arms[*arm].name, units::duration(*age)))
        .collect();
    (youngest < (1.0 - UNEQUAL_SHARE) * oldest).then(|| Finding {
        kind: FindingKind::UnequalAge,
        severity: Severity::Caution,
        arms: by_arm.iter().map(|arm| arm.0).collect(),
        services: Vec::new(),
        evidence: format!("median ages at the last reading: {}", told.join(", ")),
        effect: "Last readings compare memory of unequal age and should not be set against each other; levels and ratios \
                 are at the matched age. Arms that started on other days met that age under other load."
            .to_owned(),
    })
}

pub(super) fn never_concurrent(
    fleet: &Fleet,
    services: &[ServiceResult],
    members: &[Vec<usize>],
) -> Vec<Finding> {
    let spans: Vec<Option<(f64, f64)>> = members.iter().map(|members| span(fleet, members)).collect();
    let mut findings = Vec::new();
    for (first, a) in spans.iter().enumerate() {
        for (second, b) in spans.iter().enumerate().skip(first + 1) {
            let (Some(a), Some(b)) = (a, b) else { continue };
            let same = |arm: usize| fleet.arms[arm].earlier_list_of.is_some();
            if same(first) || same(second) || (a.0 < b.1 && b.0 < a.1) {
                continue;
            }
            let (earlier, later) = if a.1 <= b.0 { (first, second) } else { (second, first) };
            findings.push(Finding {
                kind: FindingKind::NeverConcurrent,
                severity: Severity::Grave,
                arms: vec![earlier, later],
                services: members[later].iter().map(|index| services[*index].name.clone()).collect(),
                evidence: format!(
                    "the last life of every service of {} began after the last reading of {}",
                    fleet.arms[later].name, fleet.arms[earlier].name
                ),
                effect: "Anything that changed in between, such as load, is told as an effect of the arm."
                    .to_owned(),
            });
        }
    }
    findings
}

/// From the first reading to the last one of the lives that stand for an arm's services.
fn span(fleet: &Fleet, members: &[usize]) -> Option<(f64, f64)> {
    let lives = || members.iter().filter_map(|index| fleet.services[*index].current());
    let first = |life: &FleetLife| Some(life.started_at + f64::from(life.readings.first()?.age_seconds));
    let last = |life: &FleetLife| Some(life.started_at + life.last_age()?);
    Some((
        lives().filter_map(first).min_by(f64::total_cmp)?,
        lives().filter_map(last).max_by(f64::total_cmp)?,
    ))
}
