//! What is odd about the data beside off-treatment services.

mod age;
pub(crate) mod coverage;
mod ledger;
mod limit;
mod not_compared;
mod treatment;

use crate::analysis::data::Data;
use crate::analysis::fleet::Clock;
use crate::analysis::outcome::{Finding, FindingKind, Severity};

/// Fewer services of an arm give no interval by permutation against as many of the control.
const FEW_SERVICES: usize = 4;

/// All checks but that for off-treatment services, and those of work and failures.
pub(crate) fn run(data: Data<'_>, members: &[Vec<usize>]) -> Vec<Finding> {
    let fleet = data.fleet;
    let mut findings = not_compared::without_control(data, members);
    if fleet.clock.has_days() {
        findings.extend(limit::reached(data));
    }
    if fleet.clock.has_calendar() || fleet.clock == Clock::ByLoad {
        findings.extend(not_compared::without_level(data, members));
    }
    if !fleet.clock.has_calendar() {
        return findings;
    }
    findings.extend(age::unknown(data));
    findings.extend(age::unequal(data, members));
    findings.extend(age::never_concurrent(data, members));
    findings.extend(age::compared_young(data, members));
    findings.extend(treatment::spanned(data, members));
    findings.extend(coverage::vanished(fleet));
    findings.extend(coverage::dropped(fleet));
    findings.extend(coverage::lacking(fleet, members));
    findings.extend(few(data, members));
    findings.extend(ledger::not_proved(data, members));
    findings.extend(ledger::earlier_lives(data, members));
    findings
}

fn few(data: Data<'_>, members: &[Vec<usize>]) -> Option<Finding> {
    let compared = |arm: usize| data.values(&members[arm], |service| service.level_bytes).len();
    let arms: Vec<usize> = (0..members.len()).filter(|arm| compared(*arm) < FEW_SERVICES).collect();
    let counts: Vec<String> =
        arms.iter().map(|arm| format!("{} has {}", data.name(*arm), compared(*arm))).collect();
    let evidence = format!("of services with a level at the matched age, {}", counts.join(", "));
    let finding = Finding::new(FindingKind::FewServices, Severity::Caution, evidence);
    (!arms.is_empty()).then(|| finding.of_arms(arms))
}
