//! Services that are not proved to have run their treatment.

use heaptrial_model::units;

use crate::analysis::data::Data;
use crate::analysis::outcome::{Finding, FindingKind, Severity};

/// Services of which nobody knows what they ran, in a trial that proves it.
pub(super) fn not_proved(data: Data<'_>, members: &[Vec<usize>]) -> Vec<Finding> {
    if !data.fleet.identities_proved {
        return Vec::new();
    }
    let open = |index: &usize| {
        let life = data.fleet.services[*index].current();
        life.is_some_and(|life| !life.proved && life.contamination.is_none())
    };
    let of_arm = |arm: usize| {
        let found: Vec<usize> = members[arm].iter().copied().filter(open).collect();
        let severity = if found.len() == members[arm].len() { Severity::Grave } else { Severity::Caution };
        let services = units::counted(found.len(), "service");
        let evidence = format!("the allocator of {services} of {} was not proved", data.name(arm));
        let finding = Finding::new(FindingKind::IdentityNotProved, severity, evidence);
        (!found.is_empty()).then(|| finding.of_arm(arm).naming(data.fleet.names(&found)))
    };
    (0..members.len()).filter_map(of_arm).collect()
}

/// Earlier lives that did not run their arm's treatment, of services that do now.
pub(super) fn earlier_lives(data: Data<'_>, members: &[Vec<usize>]) -> Vec<Finding> {
    let fleet = data.fleet;
    // There they are averaged over, and their service is left out as treated.
    if fleet.arms.iter().any(|arm| arm.restarted) {
        return Vec::new();
    }
    let bad = |index: &usize| {
        let service = &fleet.services[*index];
        let good = service.current().is_some_and(|life| life.contamination.is_none());
        let lives = service.lives.iter().filter(|life| life.contamination.is_some()).count();
        (good && lives > 0).then_some((*index, lives))
    };
    let of_arm = |arm: usize| {
        let (found, lives): (Vec<usize>, Vec<usize>) = members[arm].iter().filter_map(bad).unzip();
        let lives: usize = lives.iter().sum();
        let evidence = format!(
            "{lives} earlier {} of {} of {} did not run its treatment{}",
            if lives == 1 { "process" } else { "processes" },
            units::counted(found.len(), "service"),
            data.name(arm),
            if fleet.identities_proved { ", as proved in the processes" } else { "" }
        );
        let finding = Finding::new(FindingKind::Contaminated, Severity::Note, evidence);
        (!found.is_empty()).then(|| finding.of_arm(arm).naming(fleet.names(&found)))
    };
    (0..members.len()).filter_map(of_arm).collect()
}
