//! Lives that span a change of treatment.

use heaptrial_model::{LifeStart, units};

use crate::analysis::data::Data;
use crate::analysis::fleet::{FleetEvent, FleetLife};
use crate::analysis::outcome::{Finding, FindingKind, Severity};

/// A start this near to the event may be its consequence: operators write down what they did afterwards.
const SLACK_SECONDS: f64 = 1800.0;

pub(super) fn spanned(data: Data<'_>, members: &[Vec<usize>]) -> Vec<Finding> {
    let fleet = data.fleet;
    let of_arm = |event: &FleetEvent, arm: usize| {
        let about = |index: &usize| event.service.is_none_or(|service| service == *index);
        let life = |index: usize| fleet.services[index].current();
        let spans = |index: &usize| about(index) && life(*index).is_some_and(|life| spans(life, event.at));
        let found: Vec<usize> = members[arm].iter().copied().filter(spans).collect();
        let ages = found.iter().filter_map(|index| Some(event.at - life(*index)?.started_at));
        let oldest = ages.fold(0.0, f64::max);
        let began = |index: &&usize| {
            life(**index).is_some_and(|life| (life.started_at - event.at).abs() <= SLACK_SECONDS)
        };
        let restarted = members[arm].iter().filter(began).count();
        let evidence = format!(
            "{}{} of {} {} not restarted at the event \"{}: {}\", up to {} after their start",
            match restarted {
                0 => String::new(),
                restarted => format!("{} restarted; ", units::counted(restarted, "service")),
            },
            units::counted(found.len(), "service"),
            data.name(arm),
            if found.len() == 1 { "was" } else { "were" },
            event.kind,
            event.text,
            units::duration(oldest)
        );
        // Where others of the arm were restarted, the event was about those.
        let severity = if restarted > 0 { Severity::Note } else { Severity::Caution };
        let finding = Finding::new(FindingKind::TreatmentUncertain, severity, evidence);
        (!found.is_empty()).then(|| finding.of_arm(arm).naming(fleet.names(&found)))
    };
    let changes = fleet.events.iter().filter(|event| event.changes_treatment);
    let pairs = changes.flat_map(|event| (0..members.len()).map(move |arm| (event, arm)));
    let about_it = pairs.filter(|(event, arm)| event.arm.is_none_or(|about| about == *arm));
    about_it.filter_map(|(event, arm)| of_arm(event, arm)).collect()
}

fn spans(life: &FleetLife, at: f64) -> bool {
    let unsure = match life.start {
        LifeStart::Inferred { uncertainty_us } => uncertainty_us as f64 / 1e6,
        LifeStart::Observed | LifeStart::Unknown => 0.0,
    };
    life.started_at + unsure.max(SLACK_SECONDS) < at && life.last_at().is_some_and(|ended| at < ended)
}
