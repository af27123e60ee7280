//! What is odd about the data, in sentences.

use heaptrial_analysis::{FindingKind, Severity};

use super::{names, number, sentence};
use crate::document::{Finding, Report};

/// Names of arms in a heading.
const ARMS_NAMED: usize = 4;

/// Findings of one kind about the same arms, which follow each other and say much the same.
pub(crate) fn alike(report: &Report) -> Vec<&[Finding]> {
    report.findings.chunk_by(|a, b| a.kind == b.kind && a.arms == b.arms).collect()
}

/// What a run of [`alike`] findings says, nothing twice: evidence, effect and services by turns.
pub(crate) fn told(run: &[Finding], limit: usize) -> Vec<Told> {
    let services = |finding: &Finding| {
        let number = number(finding.services.len() as u64, "service");
        (!finding.services.is_empty()).then(|| format!("{number}: {}.", names(&finding.services, limit)))
    };
    let mut told: Vec<Told> = Vec::new();
    for (index, finding) in run.iter().enumerate() {
        told.push(Told::Text(sentence(&finding.evidence)));
        let next = run.get(index + 1);
        if next.is_none_or(|next| next.effect != finding.effect || next.services != finding.services) {
            told.push(Told::Text(sentence(&finding.effect)));
            told.extend(services(finding).map(Told::Services));
        }
    }
    told
}

/// The same in one sentence, and how many more say the like.
pub(crate) fn brief(run: &[Finding], limit: usize) -> String {
    let Some(finding) = run.first() else { return String::new() };
    let services = match finding.services.len() {
        0 => String::new(),
        _ => format!("{}. ", names(&finding.services, limit)),
    };
    let more = match run.len() - 1 {
        0 => String::new(),
        1 => " One more finding says the like.".to_owned(),
        more => format!(" {more} more findings say the like."),
    };
    format!("{services}{}{more}", sentence(&finding.evidence))
}

/// A part of what a finding says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Text(String),
    /// The services that it is about.
    Services(String),
}

/// Findings that the paragraph on wrong lists tells.
pub(crate) fn about_off_treatment(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::Contaminated
            | FindingKind::InTwoArms
            | FindingKind::SeparateClusters
            | FindingKind::MostlyAsAnotherArm
            | FindingKind::NearerToAnotherArm
    )
}

/// The word for a severity.
pub(crate) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Grave => "grave",
        Severity::Caution => "caution",
        Severity::Note => "note",
    }
}

/// The arms of a finding; none where it is about all.
pub(crate) fn arms_of(report: &Report, finding: &Finding) -> String {
    let all = finding.arms.len() >= report.arms.len() && report.arms.len() > 2;
    if all { String::new() } else { names(&finding.arms, ARMS_NAMED) }
}
