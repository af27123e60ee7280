//! Services that no comparison uses.

use std::collections::BTreeSet;

use heaptrial_model::units;
use heaptrial_stats::median;

use super::coverage;
use crate::analysis::data::Data;
use crate::analysis::fleet::FleetLife;
use crate::analysis::outcome::{Finding, FindingKind, Severity};

/// Arms with services in blocks, or on servers of an import, of which no service of the control was measured.
pub(super) fn without_control(data: Data<'_>, members: &[Vec<usize>]) -> Vec<Finding> {
    let Data { fleet, services, .. } = data;
    let Some(control) = fleet.control() else { return Vec::new() };
    let is_measured =
        |index: &usize| services[*index].level_bytes.or(services[*index].time_average_bytes).is_some();
    let measured = |arm: usize| members[arm].iter().copied().filter(is_measured);
    let blocks =
        |arm: usize| measured(arm).map(|index| fleet.services[index].block).collect::<BTreeSet<u32>>();
    let of_control = blocks(control);
    let of_arm = |arm: usize| {
        let alone: Vec<usize> =
            measured(arm).filter(|index| !of_control.contains(&fleet.services[*index].block)).collect();
        let (own, name) = (blocks(arm), data.name(arm));
        // Of two servers each the server counts as one service.
        let by_server = !fleet.identities_proved && own.len() >= 2 && of_control.len() >= 2;
        let (severity, evidence) = if own.is_disjoint(&of_control) {
            let evidence = format!(
                "{name} and the control have no block or server in common: {} against {}",
                own.len(),
                of_control.len()
            );
            (if by_server { Severity::Caution } else { Severity::Grave }, evidence)
        } else {
            let alone = units::counted(alone.len(), "service");
            let evidence =
                format!("{alone} of {name} are in blocks or on servers without a service of the control");
            (Severity::Caution, evidence)
        };
        let finding = Finding::new(FindingKind::NotCompared, severity, evidence);
        (!alone.is_empty() && !of_control.is_empty()).then(|| finding.of_arm(arm).naming(fleet.names(&alone)))
    };
    (0..fleet.arms.len()).filter(|arm| *arm != control).filter_map(of_arm).collect()
}

/// Services that are in no level, though others of their arm are and they are still read.
pub(super) fn without_level(data: Data<'_>, members: &[Vec<usize>]) -> Option<Finding> {
    let Data { fleet, services, .. } = data;
    data.ages.matched?;
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
        let middle = median(&data.values(of, |service| service.final_bytes));
        middle.map_or_else(|| "no".to_owned(), units::memory)
    };
    let counts = |arm: &usize| {
        let found = found(*arm);
        let others: Vec<usize> = members[*arm].iter().copied().filter(has_level).collect();
        format!(
            "{} of {} of {} (last readings: {} in the median, {} of those in the level)",
            found.len(),
            units::counted(members[*arm].len(), "service"),
            data.name(*arm),
            last(&found),
            last(&others)
        )
    };
    let evidence = format!(
        "in no level, as they are younger than the matched age or were not read before it: {}",
        arms.iter().map(counts).collect::<Vec<_>>().join(", ")
    );
    let names = arms.iter().flat_map(|arm| fleet.names(&found(*arm))).collect();
    let finding = Finding::new(FindingKind::NotCompared, Severity::Caution, evidence);
    (!arms.is_empty()).then(|| finding.of_arms(arms).naming(names))
}
