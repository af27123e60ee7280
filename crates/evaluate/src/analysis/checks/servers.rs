//! Blocks, which are servers of an import, without a service of the control.

use std::collections::BTreeSet;

use super::several;
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Finding, FindingKind, ServiceResult, Severity};

/// The measured services of an arm, by whether their block has a measured one of the control.
pub(super) struct Paired {
    pub(super) arm: usize,
    pub(super) with_control: Vec<usize>,
    pub(super) alone: Vec<usize>,
}

fn is_measured(service: &ServiceResult) -> bool {
    service.level_bytes.or(service.time_average_bytes).is_some()
}

/// Of each arm but the control; none without a control.
pub(super) fn paired(fleet: &Fleet, services: &[ServiceResult], members: &[Vec<usize>]) -> Vec<Paired> {
    let Some(control) = fleet.arms.iter().position(|arm| arm.control) else { return Vec::new() };
    let of_control = blocks(fleet, services, &members[control]);
    let arms = (0..fleet.arms.len()).filter(|arm| *arm != control);
    arms.map(|arm| {
        let own = members[arm].iter().copied().filter(|index| is_measured(&services[*index]));
        let (with_control, alone) = own.partition(|index| of_control.contains(&fleet.services[*index].block));
        Paired { arm, with_control, alone }
    })
    .collect()
}

/// The blocks of those that are measured.
fn blocks(fleet: &Fleet, services: &[ServiceResult], of: &[usize]) -> BTreeSet<u32> {
    let measured = of.iter().filter(|index| is_measured(&services[**index]));
    measured.map(|index| fleet.services[*index].block).collect()
}

/// Services of an import on servers that have none of the control.
pub(super) fn without_control(
    fleet: &Fleet,
    services: &[ServiceResult],
    members: &[Vec<usize>],
) -> Vec<Finding> {
    let apart = fleet.services.windows(2).any(|pair| pair[0].block != pair[1].block);
    let control = fleet.arms.iter().position(|arm| arm.control);
    let Some(control) = control.filter(|_| apart && !fleet.identities_proved) else { return Vec::new() };
    let servers_of_control = blocks(fleet, services, &members[control]).len();
    let of_arm = |found: Paired| {
        let name = &fleet.arms[found.arm].name;
        let servers = blocks(fleet, services, &members[found.arm]).len();
        let in_common = !found.with_control.is_empty();
        let (severity, evidence) = if in_common {
            (
                Severity::Caution,
                format!("{} of {name} run on servers without one of the control", several(found.alone.len())),
            )
        } else {
            let evidence = format!(
                "{name} and the control have no server in common: {servers} against {servers_of_control}"
            );
            match servers >= 2 && servers_of_control >= 2 {
                true => (Severity::Caution, evidence),
                false => (Severity::Grave, evidence),
            }
        };
        (!found.alone.is_empty()).then(|| Finding {
            kind: FindingKind::ServersWithoutControl,
            severity,
            arms: vec![found.arm],
            services: found.alone.iter().map(|index| services[*index].name.clone()).collect(),
            evidence,
        })
    };
    paired(fleet, services, members).into_iter().filter_map(of_arm).collect()
}
