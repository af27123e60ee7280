//! Ages that are not known or not equal, and arms that never ran at the same time.

use heaptrial_model::units;
use heaptrial_stats::median;

use super::coverage::observed;
use super::several;
use crate::analysis::age::Ages;
use crate::analysis::fleet::{Fleet, FleetLife, FleetService};
use crate::analysis::outcome::{Finding, FindingKind, ServiceResult, Severity};

/// A matched age below this share of the oldest arm's median is young.
const YOUNG_SHARE: f64 = 0.5;
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
    let lower_bounds = ages.lower_bounds.contains(&true);
    let of_two_kinds = lower_bounds && ages.lower_bounds.contains(&false);
    (!found.is_empty()).then(|| Finding {
        kind: FindingKind::AgeUnknown,
        severity: match (lower_bounds, of_two_kinds) {
            (_, true) => Severity::Grave,
            (true, _) => Severity::Caution,
            (false, _) => Severity::Note,
        },
        arms,
        services: found.iter().map(|service| service.name.clone()).collect(),
        evidence: format!(
            "{} of {} began before the first reading: the age is not known (left-censored)",
            several(found.len()),
            services.len()
        ),
    })
}

pub(super) fn unequal(
    fleet: &Fleet,
    services: &[ServiceResult],
    members: &[Vec<usize>],
    ages: &Ages,
) -> Option<Finding> {
    let compared = |arm: &usize| !ages.sawtooth[*arm];
    let by_arm: Vec<(usize, f64)> = (0..fleet.arms.len())
        .filter(compared)
        .filter_map(|arm| {
            let known = members[arm].iter().filter_map(|index| {
                let life = fleet.services[*index].current()?;
                let usable = ages.usable(&fleet.services[*index], life);
                usable.then_some(services[*index].age_seconds?)
            });
            Some((arm, median(&known.collect::<Vec<_>>())?))
        })
        .collect();
    let oldest = by_arm.iter().map(|arm| arm.1).fold(0.0, f64::max);
    let youngest = by_arm.iter().map(|arm| arm.1).fold(f64::INFINITY, f64::min);
    let ages: Vec<String> = by_arm
        .iter()
        .map(|(arm, age)| format!("{} {}", fleet.arms[*arm].name, units::duration(*age)))
        .collect();
    (youngest < (1.0 - UNEQUAL_SHARE) * oldest).then(|| Finding {
        kind: FindingKind::UnequalAge,
        severity: Severity::Caution,
        arms: by_arm.iter().map(|arm| arm.0).collect(),
        services: Vec::new(),
        evidence: format!("median ages at the last reading: {}", ages.join(", ")),
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
            if a.0 <= b.1 && b.0 <= a.1 {
                continue;
            }
            let (earlier, later) = if a.1 <= b.0 { (first, second) } else { (second, first) };
            findings.push(Finding {
                kind: FindingKind::NeverConcurrent,
                severity: Severity::Grave,
                arms: vec![earlier, later],
                services: members[later].iter().map(|index| services[*index].name.clone()).collect(),
                evidence: format!(
                    "every service of {} was first read after the last reading of {}",
                    fleet.arms[later].name, fleet.arms[earlier].name
                ),
            });
        }
    }
    findings
}

/// From the first reading to the last one of an arm's services.
fn span(fleet: &Fleet, members: &[usize]) -> Option<(f64, f64)> {
    let spans = || members.iter().filter_map(|index| observed(&fleet.services[*index]));
    Some((
        spans().map(|span| span.0).min_by(f64::total_cmp)?,
        spans().map(|span| span.1).max_by(f64::total_cmp)?,
    ))
}

/// Compared at an age far below what lives reached: much of what was observed is not used.
pub(super) fn compared_young(
    fleet: &Fleet,
    services: &[ServiceResult],
    members: &[Vec<usize>],
    ages: &Ages,
) -> Option<Finding> {
    let matched = ages.matched?;
    let arms: Vec<usize> = (0..fleet.arms.len()).filter(|arm| !ages.sawtooth[*arm]).collect();
    let of_arm = |arm: usize, age: &dyn Fn(usize) -> Option<f64>| {
        median(&members[arm].iter().filter_map(|index| age(*index)).collect::<Vec<_>>())
    };
    let oldest_of = |age: &dyn Fn(usize) -> Option<f64>| {
        arms.iter().filter_map(|arm| of_arm(*arm, age)).fold(0.0, f64::max)
    };
    let oldest = oldest_of(&|index| services[index].age_seconds);
    let oldest_ever = oldest_of(&|index| {
        let lives = fleet.services[index].lives.iter().filter(|life| life.contamination.is_none());
        lives.filter_map(FleetLife::last_age).max_by(f64::total_cmp)
    });
    let matched_at = units::duration(matched);
    let (arms, evidence) = if matched < YOUNG_SHARE * oldest {
        let youngest = arms.iter().copied().min_by(|a, b| {
            let age =
                |arm: &usize| of_arm(*arm, &|index| services[index].age_seconds).unwrap_or(f64::INFINITY);
            age(a).total_cmp(&age(b))
        })?;
        let evidence = format!(
            "services are compared at an age of {matched_at}, because services of {} are no older, while others reached {}",
            fleet.arms[youngest].name,
            units::duration(oldest)
        );
        (vec![youngest], evidence)
    } else if matched < YOUNG_SHARE * oldest_ever {
        let evidence = format!(
            "services are compared at an age of {matched_at}, since they were restarted; process lifetimes before that reached {}",
            units::duration(oldest_ever)
        );
        (arms, evidence)
    } else {
        return None;
    };
    Some(Finding {
        kind: FindingKind::ComparedYoung,
        severity: Severity::Grave,
        arms,
        services: Vec::new(),
        evidence,
    })
}
