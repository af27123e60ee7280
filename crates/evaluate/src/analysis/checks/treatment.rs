//! Lives that span a change of treatment.

use heaptrial_model::{LifeStart, units};

use super::several;
use crate::analysis::fleet::{Fleet, FleetLife};
use crate::analysis::outcome::{Finding, FindingKind, Severity};

/// A start this near to the event may be its consequence: operators write down what they did afterwards.
const SLACK_SECONDS: f64 = 1800.0;

pub(super) fn spanned(fleet: &Fleet, members: &[Vec<usize>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for event in fleet.events.iter().filter(|event| event.changes_treatment) {
        for (arm, members) in members.iter().enumerate() {
            let about_it = event.arm.is_none_or(|about| about == arm);
            let about = |index: &usize| event.service.is_none_or(|service| service == *index);
            if !about_it {
                continue;
            }
            let found: Vec<usize> = members
                .iter()
                .copied()
                .filter(about)
                .filter(|index| fleet.services[*index].current().is_some_and(|life| spans(life, event.at)))
                .collect();
            let ages = found
                .iter()
                .filter_map(|index| Some(event.at - fleet.services[*index].current()?.started_at));
            let oldest = ages.fold(0.0, f64::max);
            if found.is_empty() {
                continue;
            }
            let began = |index: &&usize| {
                fleet.services[**index]
                    .current()
                    .is_some_and(|life| (life.started_at - event.at).abs() <= SLACK_SECONDS)
            };
            let restarted = members.iter().filter(began).count();
            findings.push(Finding {
                kind: FindingKind::SpansTreatmentChange,
                // Where others of the arm were restarted, the event was about those.
                severity: if restarted > 0 { Severity::Note } else { Severity::Caution },
                arms: vec![arm],
                services: found.iter().map(|index| fleet.services[*index].name.clone()).collect(),
                evidence: format!(
                    "{}{} of {} {} not restarted at the event \"{}\", up to {} after their start",
                    if restarted > 0 { format!("{} restarted; ", several(restarted)) } else { String::new() },
                    several(found.len()),
                    fleet.arms[arm].name,
                    if found.len() == 1 { "was" } else { "were" },
                    format_args!("{}: {}", event.kind, event.text),
                    units::duration(oldest)
                ),
            });
        }
    }
    findings
}

fn spans(life: &FleetLife, at: f64) -> bool {
    let unsure = match life.start {
        LifeStart::Inferred { uncertainty_us } => uncertainty_us as f64 / 1e6,
        LifeStart::Observed | LifeStart::Unknown => 0.0,
    };
    let ended = life.started_at + life.last_age().unwrap_or(0.0);
    life.started_at + unsure.max(SLACK_SECONDS) < at && at < ended
}
