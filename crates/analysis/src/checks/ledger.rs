//! What the ledger of a trial tells of its services.

use std::collections::BTreeSet;

use super::several;
use crate::fleet::{Fleet, FleetService};
use crate::outcome::{Finding, FindingKind, ServiceResult, Severity};

/// Services of which nobody knows what they ran, in a trial that proves it.
pub(super) fn not_proved(fleet: &Fleet, members: &[Vec<usize>]) -> Vec<Finding> {
    if !fleet.identities_proved {
        return Vec::new();
    }
    let open = |service: &FleetService| {
        service.current().is_some_and(|life| !life.proved && life.contamination.is_none())
    };
    let of_arm = |(arm, members): (usize, &Vec<usize>)| {
        let found: Vec<String> = members
            .iter()
            .map(|index| &fleet.services[*index])
            .filter(|service| open(service))
            .map(|service| service.name.clone())
            .collect();
        (!found.is_empty()).then(|| Finding {
            kind: FindingKind::IdentityNotProved,
            severity: if found.len() == members.len() { Severity::Grave } else { Severity::Caution },
            arms: vec![arm],
            evidence: format!(
                "of {} of {} it is not proved what runs in them",
                several(found.len()),
                fleet.arms[arm].name
            ),
            services: found,
            effect: "They count for their arm; whether they ran its treatment is not known.".to_owned(),
        })
    };
    members.iter().enumerate().filter_map(of_arm).collect()
}

/// Earlier lives that did not run their arm's treatment, of services that do now.
pub(super) fn earlier_lives(fleet: &Fleet, members: &[Vec<usize>]) -> Vec<Finding> {
    // There they are averaged over, and their service is left out as treated.
    if fleet.arms.iter().any(|arm| arm.restarted) {
        return Vec::new();
    }
    let of_arm = |(arm, members): (usize, &Vec<usize>)| {
        let bad = |index: &usize| {
            let service = &fleet.services[*index];
            let good = service.current().is_some_and(|life| life.contamination.is_none());
            let lives = service.lives.iter().filter(|life| life.contamination.is_some()).count();
            (good && lives > 0).then(|| (service.name.clone(), lives))
        };
        let found: Vec<(String, usize)> = members.iter().filter_map(bad).collect();
        let lives: usize = found.iter().map(|service| service.1).sum();
        (!found.is_empty()).then(|| Finding {
            kind: FindingKind::Contaminated,
            severity: Severity::Note,
            arms: vec![arm],
            evidence: format!(
                "{} of {} of {} did not run its treatment, as proved in the processes",
                if lives == 1 { "1 earlier life".to_owned() } else { format!("{lives} earlier lives") },
                several(found.len()),
                fleet.arms[arm].name
            ),
            services: found.into_iter().map(|service| service.0).collect(),
            effect: "They are compared by their last life, which ran it.".to_owned(),
        })
    };
    members.iter().enumerate().filter_map(of_arm).collect()
}

/// Services whose block has no service of the control: of a drawn assignment, or of an import, whose blocks are servers.
pub(super) fn unpaired(fleet: &Fleet, services: &[ServiceResult], members: &[Vec<usize>]) -> Vec<Finding> {
    let drawn = fleet.identities_proved;
    let several_blocks = fleet.services.windows(2).any(|pair| pair[0].block != pair[1].block);
    let Some(control) = fleet.arms.iter().position(|arm| arm.control).filter(|_| drawn || several_blocks)
    else {
        return Vec::new();
    };
    let measured = |index: &&usize| {
        let service = &services[**index];
        service.level_bytes.or(service.time_average_bytes).is_some()
    };
    let of_arm = |(arm, own): (usize, &Vec<usize>)| {
        let with_control = |index: &&usize| {
            let block = fleet.services[**index].block;
            members[control].iter().filter(measured).any(|other| fleet.services[*other].block == block)
        };
        if arm == control || fleet.arms[arm].earlier_list_of.is_some() {
            return None;
        }
        let compared = own.iter().filter(measured);
        let (paired, alone): (Vec<usize>, Vec<usize>) = compared.partition(with_control);
        let alone: Vec<String> = alone.into_iter().map(|index| services[index].name.clone()).collect();
        if !drawn {
            let name = &fleet.arms[arm].name;
            let no_pair = paired.is_empty();
            let servers = |of: &[usize]| {
                let blocks = of.iter().filter(measured).map(|index| fleet.services[*index].block);
                blocks.collect::<BTreeSet<u32>>().len()
            };
            let (own, of_control) = (servers(own), servers(&members[control]));
            let as_wholes = no_pair && own >= 2 && of_control >= 2;
            return (!alone.is_empty()).then(|| Finding {
                kind: FindingKind::ServersWithoutControl,
                severity: if no_pair && !as_wholes { Severity::Grave } else { Severity::Caution },
                arms: vec![arm],
                evidence: match no_pair {
                    true => format!(
                        "{name} and the control have no server in common: {own} against {of_control}"
                    ),
                    false => {
                        format!("{} of {name} run on servers without one of the control", several(alone.len()))
                    }
                },
                services: alone,
                effect: match no_pair {
                    true if as_wholes => {
                        "Each server counts as one, since what its services share with it cannot be told from what the arm does."
                    }
                    true => "Whether the arm or the server makes the difference cannot be told: they are not compared.",
                    false => "Its ratio to the control is without them: services are compared with those of their server.",
                }
                .to_owned(),
            });
        }
        (!alone.is_empty()).then(|| Finding {
            kind: FindingKind::UnpairedBlocks,
            severity: Severity::Caution,
            arms: vec![arm],
            evidence: format!(
                "{} of {} stand in blocks in which no service of the control can be compared",
                several(alone.len()),
                fleet.arms[arm].name
            ),
            services: alone,
            effect: "Its ratio to the control is without them: services are compared within blocks."
                .to_owned(),
        })
    };
    members.iter().enumerate().filter_map(of_arm).collect()
}
