//! Services that are not proved to have run their treatment.

use super::several;
use crate::analysis::fleet::{Fleet, FleetService};
use crate::analysis::outcome::{Finding, FindingKind, Severity};

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
                "the allocator of {} of {} was not proved",
                several(found.len()),
                fleet.arms[arm].name
            ),
            services: found,
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
                "{} of {} of {} did not run its treatment{}",
                if lives == 1 {
                    "1 earlier process".to_owned()
                } else {
                    format!("{lives} earlier processes")
                },
                several(found.len()),
                fleet.arms[arm].name,
                if fleet.identities_proved { ", as proved in the processes" } else { "" }
            ),
            services: found.into_iter().map(|service| service.0).collect(),
        })
    };
    members.iter().enumerate().filter_map(of_arm).collect()
}
