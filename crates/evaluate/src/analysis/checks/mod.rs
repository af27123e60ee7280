//! What is odd about the data beside off-treatment services.

mod age;
mod gaps;
mod hours;
mod ledger;
mod limit;
pub(crate) mod presence;
mod restarts;
mod servers;
mod treatment;

use std::collections::BTreeSet;

use heaptrial_model::units;
use heaptrial_stats::median;

use crate::analysis::age::Ages;
use crate::analysis::fleet::{Clock, Fleet, FleetLife, FleetService};
use crate::analysis::outcome::{Finding, FindingKind, ServiceResult, Settings, Severity};
use crate::analysis::service::is_up_and_down;

/// Fewer services of an arm give no interval by permutation against as many of the control.
const FEW_SERVICES: usize = 4;

/// All checks but that for off-treatment services.
pub(crate) fn run(
    fleet: &Fleet,
    services: &[ServiceResult],
    members: &[Vec<usize>],
    ages: &Ages,
    settings: &Settings,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if fleet.clock.has_days() {
        findings.extend(limit::reached(fleet, services));
    }
    if !fleet.clock.has_calendar() {
        findings.extend(up_and_down(fleet, members, ages, settings));
        if fleet.clock == Clock::ByLoad {
            findings.extend(without_level(fleet, services, members, ages));
        }
        findings.extend(ledger::unpaired(fleet, services, members));
        return findings;
    }
    findings.extend(age::unknown(fleet, services, ages));
    findings.extend(age::moved(fleet));
    findings.extend(age::unequal(fleet, services, members, ages));
    findings.extend(age::never_concurrent(fleet, services, members));
    findings.extend(treatment::spanned(fleet, members));
    findings.extend(presence::hosts_apart(fleet));
    findings.extend(presence::appeared(fleet));
    findings.extend(presence::vanished(fleet));
    findings.extend(presence::dropped(fleet));
    findings.extend(presence::lacking(fleet, members));
    findings.extend(presence::silent(fleet, members));
    findings.extend(age::compared_young(fleet, services, members, ages));
    findings.extend(restarts::more_often(fleet, services, members));
    findings.extend(without_level(fleet, services, members, ages));
    findings.extend(gaps::of_arms(fleet, members));
    findings.extend(hours::of_arms(fleet, members, ages, settings));
    findings.extend(few(fleet, services, members));
    findings.extend(ledger::not_proved(fleet, members));
    findings.extend(ledger::earlier_lives(fleet, members));
    findings.extend(ledger::unpaired(fleet, services, members));
    findings.extend(servers::without_control(fleet, services, members));
    findings
}

/// Services of a lab run whose level is a mean.
fn up_and_down(fleet: &Fleet, members: &[Vec<usize>], ages: &Ages, settings: &Settings) -> Option<Finding> {
    let matched = ages.matched?;
    let found = |arm: &usize| -> Vec<&FleetService> {
        let own = members[*arm].iter().map(|index| &fleet.services[*index]);
        own.filter(|service| service.current().is_some_and(|life| is_up_and_down(life, matched, settings)))
            .collect()
    };
    let arms: Vec<usize> = (0..fleet.arms.len()).filter(|arm| !found(arm).is_empty()).collect();
    let told: Vec<String> = arms
        .iter()
        .map(|arm| format!("{} of {}", several(found(arm).len()), fleet.arms[*arm].name))
        .collect();
    (!arms.is_empty()).then(|| Finding {
        kind: FindingKind::UpAndDown,
        severity: Severity::Caution,
        services: arms.iter().flat_map(found).map(|service| service.name.clone()).collect(),
        arms,
        evidence: format!(
            "memory goes up and down by a half or more, within a tenth of the readings or more: {}",
            told.join(", ")
        ),
    })
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
    let gone = if fleet.clock.has_calendar() { presence::gone(fleet) } else { BTreeSet::new() };
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
    let told = |arm: &usize| {
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
            arms.iter().map(told).collect::<Vec<_>>().join(", ")
        ),
        arms,
    })
}

fn few(fleet: &Fleet, services: &[ServiceResult], members: &[Vec<usize>]) -> Option<Finding> {
    let compared =
        |arm: &usize| members[*arm].iter().filter(|index| services[**index].level_bytes.is_some()).count();
    let arms: Vec<usize> = (0..fleet.arms.len()).filter(|arm| compared(arm) < FEW_SERVICES).collect();
    let told: Vec<String> =
        arms.iter().map(|arm| format!("{} has {}", fleet.arms[*arm].name, compared(arm))).collect();
    (!arms.is_empty()).then(|| Finding {
        kind: FindingKind::FewServices,
        severity: Severity::Caution,
        arms,
        services: Vec::new(),
        evidence: format!("of services with a level at the matched age, {}", told.join(", ")),
    })
}

/// Names of some services, for a sentence.
fn several(count: usize) -> String {
    if count == 1 { "1 service".to_owned() } else { format!("{} services", units::count(count as u64)) }
}

/// First and last time at which anything was read.
fn span(fleet: &Fleet) -> Option<(f64, f64)> {
    let spans = || fleet.services.iter().filter_map(presence::observed);
    let first = spans().map(|span| span.0).min_by(f64::total_cmp)?;
    let last = spans().map(|span| span.1).max_by(f64::total_cmp)?;
    Some((first, last))
}
