//! What limits the conclusion of a field trial.

use heaptrial_analysis::{FindingKind, Severity};

use super::odd::about_off_treatment;
use super::words::{Words, words};
use super::{advice, names};
use crate::document::{Arm, Assignment, Finding, Ratio, Report};
use crate::table::level;
use crate::units;

/// A share of halvings further above 5% than this many standard errors is no accident.
const ERRORS_APART: f64 = 2.0;

pub(super) fn confidence(report: &Report) -> Vec<String> {
    let mut sentences = Vec::new();
    let not_drawn = report.assignment().is_some_and(|how| how != Assignment::Random);
    let unproved =
        is(report, FindingKind::IdentityNotProved) || report.arms.iter().all(|arm| arm.identity.is_none());
    if not_drawn {
        sentences.push(
            "Services were not assigned at random: intervals hold only as far as services could have been \
             exchanged between arms."
                .to_owned(),
        );
    }
    if unproved && report.kind().is_import() {
        sentences.push("What ran in each service is as the lists claim, not proved.".to_owned());
    } else if unproved && !report.services.iter().all(|service| service.ran.is_some()) {
        sentences.push("What ran is not proved of every service.".to_owned());
    }
    if report.analysis.ages_are_lower_bounds == Some(true) {
        sentences.push("Most starts are unknown, so ages count from the first reading.".to_owned());
    }
    if report.outcome_word() == "running" && !report.looks().is_empty() {
        sentences.push(
            "The trial runs, and this is none of its planned looks: whoever reads intervals again and again until one \
             pleases finds differences that are not there. Decide by heaptrial trial look."
                .to_owned(),
        );
    }
    sentences.extend(same_conclusion(report));
    let other: Vec<&Finding> = report
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Grave)
        .filter(|finding| !about_off_treatment(finding.kind) || nobody_is_left_out(report, finding))
        .collect();
    if !other.is_empty() {
        let mut kinds: Vec<String> =
            other.iter().map(|finding| finding.kind.describe().to_lowercase()).collect();
        kinds.sort();
        kinds.dedup();
        sentences.push(format!("Grave findings about the data: {}.", names(&kinds, kinds.len())));
    }
    sentences.extend(self_check(report));
    sentences
}

/// Whether no paragraph tells of a finding about off-treatment services, since no arm of it has any.
fn nobody_is_left_out(report: &Report, finding: &Finding) -> bool {
    let mut about = report.arms.iter().filter(|arm| finding.arms.contains(&arm.name));
    about.all(|arm| arm.services_excluded.is_empty())
}

fn is(report: &Report, kind: FindingKind) -> bool {
    report.findings.iter().any(|finding| finding.kind == kind)
}

/// What is concluded from a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conclusion {
    Less,
    More,
    Open,
}

fn conclusion(ratio: Option<&Ratio>) -> Conclusion {
    let adjusted = ratio.is_some_and(advice::holds_for_several_arms);
    match ratio.map(|ratio| (ratio.low, ratio.high)) {
        Some((_, Some(high))) if high < 1.0 && adjusted => Conclusion::Less,
        Some((Some(low), _)) if low > 1.0 && adjusted => Conclusion::More,
        _ => Conclusion::Open,
    }
}

/// Whether off-treatment services change what is concluded; nothing where there are none among the arms compared.
fn same_conclusion(report: &Report) -> Option<String> {
    let compared = || report.arms.iter().filter(|arm| !arm.does_less());
    if !compared().any(|arm| arm.as_treated.is_some()) {
        return None;
    }
    let least = |bytes: fn(&Arm) -> Option<u64>| {
        compared().filter_map(|arm| Some((bytes(arm)?, &arm.name))).min().map(|(_, name)| name)
    };
    let changed: Vec<&str> = compared()
        .filter(|arm| conclusion(arm.ratio_to_control.as_ref()) != conclusion(arm.ratio_as_treated()))
        .map(|arm| arm.name.as_str())
        .collect();
    let Words { off_treatment, assigned, .. } = words(report.kind());
    let listed = least(|arm| arm.memory.as_ref()?.median_bytes);
    let treated = least(level);
    Some(match (listed == treated, changed.is_empty()) {
        (true, true) => format!("The conclusion is the same with and without the {off_treatment}."),
        (false, _) => format!(
            "The {off_treatment} change the conclusion: {assigned} {} needs the least, without them {}.",
            listed.map_or("none", String::as_str),
            treated.map_or("none", String::as_str)
        ),
        (true, false) => format!(
            "The {off_treatment} change what is concluded of {}; the figures here are without them.",
            names(&changed, changed.len())
        ),
    })
}

/// The A/A check in a sentence.
fn self_check(report: &Report) -> Option<String> {
    let check = report.self_check()?;
    let judged = if check.found_share > 0.05 + ERRORS_APART * check.standard_error {
        "more than the 5% it should be, so intervals here are too narrow"
    } else {
        "as it should be (at most about 5%)"
    };
    let noise = check.noise_ratio.max(1.0);
    // Two decimals would call a narrow interval none.
    let ratio = |ratio: f64| if noise < 1.015 { format!("{ratio:.3}") } else { units::ratio(ratio) };
    Some(format!(
        "Self-check: between random halves of the control a difference was found in {} of {} halvings, {judged}; \
         ratios of such halves between {} and {} are noise.",
        units::share(check.found_share),
        units::count(u64::from(check.halvings)),
        ratio(1.0 / noise),
        ratio(noise)
    ))
}
