//! Whether services do the work that they did before: one that saves memory by doing less has saved nothing.

use heaptrial_evaluate::analysis::WorkRatio;
use heaptrial_model::{TorFlag, units};
use heaptrial_stats::median;

use super::{Findings, Grounds, Reason, Subject};
use crate::rollout::plan::Before;

/// Work of one service below this share of its own work before stops.
pub const LEAST_WORK: f64 = 0.5;
/// The median of many services is held to no narrower limit than the square root of that of one.
const NARROWEST_ROOT: f64 = 0.5;
/// Flags that a relay keeps over a restart, and whose loss costs the network what the memory is spent for.
const KEPT_FLAGS: [TorFlag; 2] = [TorFlag::Guard, TorFlag::V2Dir];

/// Gives what those of the wave do, over what they did before.
pub(super) fn judge(
    subjects: &[Subject<'_>],
    grounds: &Grounds,
    findings: &mut Findings,
) -> Vec<(String, f64)> {
    if !grounds.judges_work {
        findings.evidence.push("work and flags are not looked at (--no-work)".to_owned());
        return Vec::new();
    }
    let mut ratios = Vec::new();
    for subject in subjects {
        let Some(before) = subject.before else {
            findings.missing(subject.service, "nothing is known of it from before");
            continue;
        };
        flags(subject, before, findings);
        if let Some(ratio) = work(subject, before, grounds, findings) {
            ratios.push((subject, ratio));
        }
    }
    let own = ratios.iter().filter(|(subject, _)| subject.is_new);
    let own: Vec<(String, f64)> =
        own.map(|(subject, ratio)| (subject.service.to_string(), ratio.value())).collect();
    together(&own, findings);
    evidence(subjects, &ratios, findings);
    own
}

fn flags(subject: &Subject<'_>, before: &Before, findings: &mut Findings) {
    let seen = subject.observed.and_then(|seen| seen.flags.as_ref());
    match (&before.flags, seen) {
        (Some(before), Some(seen)) => {
            for flag in KEPT_FLAGS.iter().filter(|flag| before.contains(flag) && !seen.contains(flag)) {
                findings.against(subject.service, format!("lost the {flag} flag that it had before"));
            }
        }
        _ if !before.reports.flags => {}
        (None, _) => findings.missing(subject.service, "its flags before the rollout are not known"),
        (Some(_), None) => {
            findings
                .missing(subject.service, "its flags are not known yet; relays are asked every ten minutes");
        }
    }
}

fn work(
    subject: &Subject<'_>,
    before: &Before,
    grounds: &Grounds,
    findings: &mut Findings,
) -> Option<WorkRatio> {
    let seen = subject.observed.and_then(|seen| seen.work.as_ref());
    let enough = seen.filter(|worked| worked.seconds >= grounds.work_seconds);
    let (usual, enough) = match (&before.work, enough) {
        (Some(usual), Some(worked)) => (usual, worked),
        _ if !before.reports.work => return None,
        (None, _) => {
            findings.missing(subject.service, "its work before the rollout is not known");
            return None;
        }
        (Some(_), None) => {
            let known = units::duration(seen.map_or(0.0, |worked| worked.seconds));
            let wanted = units::duration(grounds.work_seconds);
            findings
                .missing(subject.service, format!("its work is known of {known}, and {wanted} are needed"));
            return None;
        }
    };
    let ratio = enough.over(usual)?;
    if ratio.value() < LEAST_WORK {
        let hours =
            if ratio.same_hours { "at the same hours of the day" } else { "at other hours of the day" };
        findings.against(
            subject.service,
            format!(
                "does {} of its work of before: {}/s, and {}/s before {hours}; the limit for one service is {LEAST_WORK}",
                units::ratio(ratio.value()),
                units::memory(ratio.after),
                units::memory(ratio.before),
            ),
        );
    }
    Some(ratio)
}

/// Services of the wave that each do a little less stop where one of them would not.
pub(super) fn together(own: &[(String, f64)], findings: &mut Findings) {
    let values: Vec<f64> = own.iter().map(|(_, ratio)| *ratio).collect();
    // The median: one that does nothing stops by itself, and says nothing of the others.
    let least = own.iter().min_by(|one, other| one.1.total_cmp(&other.1)).filter(|_| own.len() > 1);
    let (Some(middle), Some((least, ratio))) = (median(&values), least) else { return };
    // That of n spreads over some 1/sqrt(n) of what one does, but for what befalls all of them.
    let limit = LEAST_WORK.powf((own.len() as f64).sqrt().recip().max(NARROWEST_ROOT));
    if middle >= limit {
        return;
    }
    let what = format!(
        "work of the wave's {} is {} of that of before (median), the least {} ({least}); the limit for so many is {}",
        units::counted(own.len(), "service"),
        units::ratio(middle),
        units::ratio(*ratio),
        units::ratio(limit),
    );
    findings.against.push(Reason { service: None, what });
}

fn evidence(subjects: &[Subject<'_>], ratios: &[(&Subject<'_>, WorkRatio)], findings: &mut Findings) {
    let is_silent = |before: &Before| !before.reports.work && !before.reports.flags;
    let silent = subjects.iter().filter(|subject| subject.before.is_some_and(is_silent)).count();
    if silent > 0 {
        let of = units::counted(subjects.len(), "service");
        findings.evidence.push(format!("work and flags: {silent} of {of} report none"));
    }
    let least = ratios.iter().min_by(|one, other| one.1.value().total_cmp(&other.1.value()));
    let values: Vec<f64> = ratios.iter().map(|(_, ratio)| ratio.value()).collect();
    if let (Some(middle), Some((subject, ratio))) = (median(&values), least) {
        let same = ratios.iter().filter(|(_, ratio)| ratio.same_hours).count();
        findings.evidence.push(format!(
            "work is {} of that of before (median), the least {} ({}); {same} of {} compared at the same hours of the day",
            units::ratio(middle),
            units::ratio(ratio.value()),
            subject.service,
            ratios.len()
        ));
    }
}
