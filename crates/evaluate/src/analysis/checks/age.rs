//! Ages that are not known or not equal, and arms that never ran at the same time.

use heaptrial_model::units;
use heaptrial_stats::median;

use super::coverage::observed;
use crate::analysis::data::Data;
use crate::analysis::fleet::FleetLife;
use crate::analysis::outcome::{Finding, FindingKind, Severity};
use crate::analysis::thresholds::ENOUGH;

/// Arms whose median ages differ by more than this share are of unequal age.
const UNEQUAL_SHARE: f64 = 0.1;

pub(super) fn unknown(Data { fleet, ages, .. }: Data<'_>) -> Option<Finding> {
    let is_unknown = |index: &usize| fleet.services[*index].current().is_some_and(|life| !life.age_known());
    let found: Vec<usize> = (0..fleet.services.len()).filter(is_unknown).collect();
    if found.is_empty() {
        return None;
    }
    let severity = match (ages.lower_bounds.contains(&true), ages.lower_bounds.contains(&false)) {
        // Ages of two kinds are no ages.
        (true, true) => Severity::Grave,
        (true, false) => Severity::Caution,
        (false, _) => Severity::Note,
    };
    let evidence = format!(
        "{} of {} began before the first reading: the age is not known (left-censored)",
        units::counted(found.len(), "service"),
        fleet.services.len()
    );
    let finding = Finding::new(FindingKind::AgeUnknown, severity, evidence);
    Some(finding.of_arms(fleet.arms_of(&found)).naming(fleet.names(&found)))
}

pub(super) fn unequal(data: Data<'_>, members: &[Vec<usize>]) -> Option<Finding> {
    let Data { fleet, services, ages, .. } = data;
    let of_arm = |arm: &usize| {
        let known = members[*arm].iter().filter_map(|index| {
            let life = fleet.services[*index].current()?;
            services[*index].age_seconds.filter(|_| ages.usable(&fleet.services[*index], life))
        });
        Some((*arm, median(&known.collect::<Vec<_>>())?))
    };
    let by_arm: Vec<(usize, f64)> = compared(data).iter().filter_map(of_arm).collect();
    let oldest = by_arm.iter().map(|arm| arm.1).fold(0.0, f64::max);
    let youngest = by_arm.iter().map(|arm| arm.1).fold(f64::INFINITY, f64::min);
    if youngest >= (1.0 - UNEQUAL_SHARE) * oldest {
        return None;
    }
    let listed: Vec<String> =
        by_arm.iter().map(|(arm, age)| format!("{} {}", data.name(*arm), units::duration(*age))).collect();
    let evidence = format!("median ages at the last reading: {}", listed.join(", "));
    let finding = Finding::new(FindingKind::UnequalAge, Severity::Caution, evidence);
    Some(finding.of_arms(by_arm.iter().map(|arm| arm.0).collect()))
}

/// Arms whose services are compared at one age.
fn compared(data: Data<'_>) -> Vec<usize> {
    (0..data.fleet.arms.len()).filter(|arm| !data.fleet.arms[*arm].restarted).collect()
}

pub(super) fn never_concurrent(data: Data<'_>, members: &[Vec<usize>]) -> Vec<Finding> {
    let spans: Vec<Option<(f64, f64)>> = members.iter().map(|members| span(data, members)).collect();
    let pairs =
        (0..spans.len()).flat_map(|first| (first + 1..spans.len()).map(move |second| (first, second)));
    let of_pair = |(first, second): (usize, usize)| {
        let (a, b) = (spans[first]?, spans[second]?);
        if a.0 <= b.1 && b.0 <= a.1 {
            return None;
        }
        let (earlier, later) = if a.1 <= b.0 { (first, second) } else { (second, first) };
        let evidence = format!(
            "every service of {} was first read after the last reading of {}",
            data.name(later),
            data.name(earlier)
        );
        let finding = Finding::new(FindingKind::UnequalAge, Severity::Grave, evidence);
        Some(finding.of_arms(vec![earlier, later]).naming(data.fleet.names(&members[later])))
    };
    pairs.filter_map(of_pair).collect()
}

/// From the first reading to the last one of an arm's services.
fn span(data: Data<'_>, members: &[usize]) -> Option<(f64, f64)> {
    let spans = || members.iter().filter_map(|index| observed(&data.fleet.services[*index]));
    Some((
        spans().map(|span| span.0).min_by(f64::total_cmp)?,
        spans().map(|span| span.1).max_by(f64::total_cmp)?,
    ))
}

/// Compared at an age far below what lives reached: much of what was observed is not used.
pub(super) fn compared_young(data: Data<'_>, members: &[Vec<usize>]) -> Option<Finding> {
    let Data { fleet, services, ages, .. } = data;
    let matched = ages.matched?;
    let arms = compared(data);
    let medians = |age: &dyn Fn(usize) -> Option<f64>| -> Vec<(usize, f64)> {
        let of_arm = |arm: &usize| {
            Some((*arm, median(&members[*arm].iter().filter_map(|index| age(*index)).collect::<Vec<_>>())?))
        };
        arms.iter().filter_map(of_arm).collect()
    };
    let oldest_of = |medians: &[(usize, f64)]| medians.iter().map(|arm| arm.1).fold(0.0, f64::max);
    let now = medians(&|index| services[index].age_seconds);
    let ever = medians(&|index| {
        let lives = fleet.services[index].lives.iter().filter(|life| life.contamination.is_none());
        lives.filter_map(FleetLife::last_age).max_by(f64::total_cmp)
    });
    let (oldest, oldest_ever) = (oldest_of(&now), oldest_of(&ever));
    let matched_at = units::duration(matched);
    let (arms, evidence) = if matched < ENOUGH * oldest {
        let youngest = now.iter().min_by(|a, b| a.1.total_cmp(&b.1))?.0;
        let evidence = format!(
            "services are compared at an age of {matched_at}, because services of {} are no older, while others reached {}",
            data.name(youngest),
            units::duration(oldest)
        );
        (vec![youngest], evidence)
    } else if matched < ENOUGH * oldest_ever {
        let evidence = format!(
            "services are compared at an age of {matched_at}, since they were restarted; process lifetimes before that reached {}",
            units::duration(oldest_ever)
        );
        (arms, evidence)
    } else {
        return None;
    };
    Some(Finding::new(FindingKind::UnequalAge, Severity::Grave, evidence).of_arms(arms))
}
