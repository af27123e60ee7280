//! Blocks, which are servers of an import, without a service of the control.

use std::collections::BTreeSet;

use super::several;
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Finding, FindingKind, ServiceResult, Severity};

/// Arms with services that no comparison uses, because no service of the control was measured in their block.
pub(super) fn of_arms(fleet: &Fleet, services: &[ServiceResult], members: &[Vec<usize>]) -> Vec<Finding> {
    let Some(control) = fleet.arms.iter().position(|arm| arm.control) else { return Vec::new() };
    let is_measured =
        |index: &usize| services[*index].level_bytes.or(services[*index].time_average_bytes).is_some();
    let measured = |arm: usize| members[arm].iter().copied().filter(is_measured);
    let blocks =
        |arm: usize| measured(arm).map(|index| fleet.services[index].block).collect::<BTreeSet<u32>>();
    let of_control = blocks(control);
    let of_arm = |arm: usize| {
        let name = &fleet.arms[arm].name;
        let alone: Vec<usize> =
            measured(arm).filter(|index| !of_control.contains(&fleet.services[*index].block)).collect();
        let own = blocks(arm);
        let (severity, evidence) = if own.is_disjoint(&of_control) {
            let evidence = format!(
                "{name} and the control have no block or server in common: {} against {}",
                own.len(),
                of_control.len()
            );
            // Of two servers each the server counts as one service.
            let comparable = !fleet.identities_proved && own.len() >= 2 && of_control.len() >= 2;
            (if comparable { Severity::Caution } else { Severity::Grave }, evidence)
        } else {
            let evidence = format!(
                "{} of {name} are in blocks or on servers without a service of the control",
                several(alone.len())
            );
            (Severity::Caution, evidence)
        };
        (!alone.is_empty() && !of_control.is_empty()).then(|| Finding {
            kind: FindingKind::WithoutControl,
            severity,
            arms: vec![arm],
            services: alone.iter().map(|index| services[*index].name.clone()).collect(),
            evidence,
        })
    };
    (0..fleet.arms.len()).filter(|arm| *arm != control).filter_map(of_arm).collect()
}
