//! Arms whose services are restarted again and again.

use heaptrial_stats::{fisher_fewer, median};

use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Finding, FindingKind, ServiceResult, Severity};

/// A service is restarted often if it was this many times more than those it is compared with usually are.
const MORE: f64 = 2.0;
/// An arm with so many services that are restarted often,
const FEWEST: usize = 3;
/// which chance alone would bring this rarely (one-sided, R. A. Fisher's exact test), is restarted more often.
const RARELY: f64 = 0.05;

/// Arms whose services are restarted more often than those of the control, or a control than the other arms, without that being their treatment.
pub(super) fn more_often(fleet: &Fleet, services: &[ServiceResult], members: &[Vec<usize>]) -> Vec<Finding> {
    let Some(control) = fleet.arms.iter().position(|arm| arm.control) else { return Vec::new() };
    let compared: Vec<usize> = (0..fleet.arms.len()).filter(|arm| !fleet.arms[*arm].restarted).collect();
    let restarts = |index: &usize| f64::from(services[*index].restarts);
    let of_arm = |arm: usize| {
        let others: Vec<usize> = match arm == control {
            true => compared
                .iter()
                .filter(|other| **other != control)
                .flat_map(|other| &members[*other])
                .copied()
                .collect(),
            false => members[control].clone(),
        };
        let mean = |of: &[usize]| of.iter().map(restarts).sum::<f64>() / of.len().max(1) as f64;
        let (own, usual) = (mean(&members[arm]), mean(&others));
        let often = median(&others.iter().map(restarts).collect::<Vec<_>>())? + MORE;
        let frequent = |of: &[usize]| -> Vec<usize> {
            of.iter().copied().filter(|index| restarts(index) >= often).collect()
        };
        let rest = |of: &[usize]| (of.len() - frequent(of).len(), of.len());
        let frequent = frequent(&members[arm]);
        if frequent.len() < FEWEST || fisher_fewer(rest(&members[arm]), rest(&others)) > RARELY {
            return None;
        }
        let without = frequent.iter().filter(|index| services[**index].level_bytes.is_none()).count();
        let in_no_level = match without {
            0 => String::new(),
            without => format!(", and {without} of these are in no level"),
        };
        let name = &fleet.arms[arm].name;
        let whom = if arm == control { "of the other arms" } else { "of the control" };
        Some(Finding {
            kind: FindingKind::RestartedMoreOften,
            severity: Severity::Grave,
            arms: vec![arm],
            services: frequent.iter().map(|index| services[*index].name.clone()).collect(),
            evidence: format!(
                "each service of {name} was restarted {own:.1} times, {whom} {usual:.1} times (means), {} of {} of its \
                 services {often:.0} times or more{in_no_level}; restarts are no part of its treatment",
                frequent.len(),
                members[arm].len()
            ),
        })
    };
    compared.iter().filter_map(|arm| of_arm(*arm)).collect()
}
