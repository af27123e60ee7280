//! What is odd about the data beside off-treatment services.

mod age;
pub(crate) mod coverage;
mod ledger;
mod limit;
mod restarts;
mod treatment;
mod without_control;

use std::collections::BTreeSet;

use heaptrial_model::units;
use heaptrial_stats::median;

use crate::analysis::age::Ages;
use crate::analysis::fleet::{Clock, Fleet, FleetLife};
use crate::analysis::outcome::{Finding, FindingKind, ServiceResult, Severity};

/// Fewer services of an arm give no interval by permutation against as many of the control.
const FEW_SERVICES: usize = 4;

/// All checks but that for off-treatment services.
pub(crate) fn run(
    fleet: &Fleet,
    services: &[ServiceResult],
    members: &[Vec<usize>],
    ages: &Ages,
) -> Vec<Finding> {
    let mut findings = without_control::of_arms(fleet, services, members);
    if fleet.clock.has_days() {
        findings.extend(limit::reached(fleet, services));
    }
    if fleet.clock == Clock::ByLoad {
        findings.extend(without_level(fleet, services, members, ages));
    }
    if !fleet.clock.has_calendar() {
        return findings;
    }
    findings.extend(age::unknown(fleet, services, ages));
    findings.extend(age::unequal(fleet, services, members, ages));
    findings.extend(age::never_concurrent(fleet, services, members));
    findings.extend(age::compared_young(fleet, services, members, ages));
    findings.extend(treatment::spanned(fleet, members));
    findings.extend(coverage::vanished(fleet));
    findings.extend(coverage::dropped(fleet));
    findings.extend(coverage::lacking(fleet, members));
    findings.extend(restarts::more_often(fleet, services, members));
    findings.extend(without_level(fleet, services, members, ages));
    findings.extend(few(fleet, services, members));
    findings.extend(ledger::not_proved(fleet, members));
    findings.extend(ledger::earlier_lives(fleet, members));
    findings
}

/// Services that are in no level, though others of their arm are and they are still read.
fn without_level(
    fleet: &Fleet,
    services: &[ServiceResult],
    members: &[Vec<usize>],
    ages: &Ages,
) -> Option<Finding> {
    ages.matched?;
    // Repeats of a lab run end one after the other.
    let gone = if fleet.clock.has_calendar() { coverage::gone(fleet) } else { BTreeSet::new() };
    let has_level = |index: &usize| services[*index].level_bytes.is_some();
    let is_known = |index: &usize| fleet.services[*index].current().is_some_and(FleetLife::age_known);
    let found = |arm: usize| -> Vec<usize> {
        let own = members[arm].iter().copied();
        own.filter(|index| !has_level(index) && !gone.contains(index) && is_known(index)).collect()
    };
    let arms: Vec<usize> = (0..fleet.arms.len())
        .filter(|arm| members[*arm].iter().any(has_level) && !found(*arm).is_empty())
        .collect();
    let last = |of: &[usize]| {
        let bytes: Vec<f64> = of.iter().filter_map(|index| services[*index].final_bytes).collect();
        median(&bytes).map_or_else(|| "no".to_owned(), units::memory)
    };
    let counts = |arm: &usize| {
        let (found, name) = (found(*arm), &fleet.arms[*arm].name);
        let others: Vec<usize> = members[*arm].iter().copied().filter(has_level).collect();
        format!(
            "{} of {} of {name} (last readings: {} in the median, {} of those in the level)",
            found.len(),
            several(members[*arm].len()),
            last(&found),
            last(&others)
        )
    };
    (!arms.is_empty()).then(|| Finding {
        kind: FindingKind::WithoutLevel,
        severity: Severity::Caution,
        services: arms.iter().flat_map(|arm| found(*arm)).map(|index| services[index].name.clone()).collect(),
        evidence: format!(
            "in no level, as they are younger than the matched age or were not read before it: {}",
            arms.iter().map(counts).collect::<Vec<_>>().join(", ")
        ),
        arms,
    })
}

fn few(fleet: &Fleet, services: &[ServiceResult], members: &[Vec<usize>]) -> Option<Finding> {
    let compared =
        |arm: &usize| members[*arm].iter().filter(|index| services[**index].level_bytes.is_some()).count();
    let arms: Vec<usize> = (0..fleet.arms.len()).filter(|arm| compared(arm) < FEW_SERVICES).collect();
    let counts: Vec<String> =
        arms.iter().map(|arm| format!("{} has {}", fleet.arms[*arm].name, compared(arm))).collect();
    (!arms.is_empty()).then(|| Finding {
        kind: FindingKind::FewServices,
        severity: Severity::Caution,
        arms,
        services: Vec::new(),
        evidence: format!("of services with a level at the matched age, {}", counts.join(", ")),
    })
}

/// `3 services`, for a sentence.
fn several(count: usize) -> String {
    if count == 1 { "1 service".to_owned() } else { format!("{} services", units::count(count as u64)) }
}
