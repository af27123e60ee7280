//! What the evidence of a bug does not show.

use heaptrial_analysis::Severity;

use super::document::{Bug, Common, Evidence, SettingDefault};
use crate::document::{Assignment, Kind};
use crate::units;

/// Below this, a lab run says nothing of what happens in days.
const SHORT_SECONDS: f64 = 86_400.0;

/// In the order of a reader's likely questions.
pub(super) fn of(bug: &Bug) -> Vec<String> {
    let mut limits = vec![machines(bug)];
    limits.extend(
        bug.evidence.iter().enumerate().flat_map(|(index, evidence)| of_evidence(bug, index, evidence)),
    );
    if bug.common() == Common::Family && bug.defaults.iter().any(SettingDefault::is_shared) {
        limits.push(
            "Whether the version or its default settings make the difference is not known from these two alone."
                .to_owned(),
        );
    }
    limits
}

fn machines(bug: &Bug) -> String {
    let mut hosts: Vec<_> = bug.evidence.iter().map(|evidence| &evidence.host).collect();
    hosts.dedup();
    let known = hosts.iter().any(|host| host.kernel.is_some() || host.cpu_count.is_some());
    match hosts.len() {
        _ if !known => "On how many machines it was measured is not recorded.".to_owned(),
        1 => "All of it was measured on one kind of machine, as described above; other hardware, kernels and C \
              libraries were not tried."
            .to_owned(),
        several => format!("It was measured on {several} kinds of machines."),
    }
}

fn of_evidence(bug: &Bug, index: usize, evidence: &Evidence) -> Vec<String> {
    let which = if bug.evidence.len() == 1 { String::new() } else { format!("Evidence {}: ", index + 1) };
    let mut limits = Vec::new();
    if evidence.ratio.as_ref().is_none_or(|ratio| ratio.low.is_none()) {
        limits.push("too few services for an interval: the spread between repeats is not known.".to_owned());
    } else if evidence.kind.is_lab() {
        limits.push(format!("the intervals come from {} repeats.", evidence.repeats));
    }
    if evidence.kind == Kind::LabTor {
        limits.push(
            "the relays are real and their network is not: a synthetic directory whose consensus changes far more \
             often than the public one, and a drawn load of directory clients."
                .to_owned(),
        );
    }
    let longest = evidence.arms.iter().filter_map(|arm| arm.age_seconds).fold(0.0, f64::max);
    if evidence.kind.is_lab() && longest < SHORT_SECONDS {
        limits.push(format!(
            "services lived for {}: growth over days was not seen, and a slope of so short a time is mostly settling.",
            units::duration(longest)
        ));
    }
    if let Some(assignment) = evidence.assignment.filter(|how| *how != Assignment::Random) {
        limits.push(format!("services came into arms {}.", assignment.describe()));
    }
    if !matches!(evidence.outcome.as_str(), "completed") {
        limits.push(format!("the trial is {}; the figures are of what there is.", evidence.outcome));
    }
    let excluded: u32 = evidence.arms.iter().map(|arm| arm.services_excluded).sum();
    if excluded > 0 {
        limits.push(format!("{} left out, as not counted.", units::counted(excluded as usize, "service")));
    }
    let grave = evidence.findings.iter().filter(|finding| finding.severity == Severity::Grave).count();
    if grave > 0 {
        limits.push(format!("{} about the data, told above.", units::counted(grave, "grave finding")));
    }
    if evidence.kind.is_import() {
        limits.push(
            "others measured: which allocator really ran was told by lists, and not proved.".to_owned(),
        );
    }
    limits
        .into_iter()
        .map(
            |text| {
                if which.is_empty() { crate::summary::capitalised(&text) } else { format!("{which}{text}") }
            },
        )
        .collect()
}
