//! What processes run, and what lies on disk for their next start.

use heaptrial_model::Identity;

use crate::watch::alert::{AlertKind, Finding};
use crate::watch::observe::c_library;
use crate::watch::plan::{WatchPlan, WatchedService};
use crate::watch::seen::{Seen, ServiceSeen};

/// Processes that run something else than was proved.
pub(super) fn processes(plan: &WatchPlan, seen: &Seen) -> Vec<Finding> {
    let finding = |(planned, seen): (&WatchedService, &ServiceSeen)| {
        let (state, what) = match (&planned.runs, &seen.runs) {
            (Some(before), Some(now)) => {
                let differs = differences(before, now);
                if differs.is_empty() {
                    return None;
                }
                (state_of(now), differs.join("; "))
            }
            // Where the process cannot be looked at, what the agent saw of it.
            _ => {
                let why = seen.contamination.clone()?;
                (why.clone(), why)
            }
        };
        let text = format!("does not run what was proved: {what}");
        Some(Finding::new(AlertKind::Identity, &seen.service, state, text))
    };
    plan.services.iter().zip(&seen.services).filter_map(finding).collect()
}

/// Where what runs now is not what ran.
fn differences(before: &Identity, now: &Identity) -> Vec<String> {
    let mut found = now.differences(before);
    if let (Some(old), Some(new)) = (c_library(before), c_library(now)) {
        if old != new {
            found.push(format!("another C library ({} instead of {})", new.build(), old.build()));
        }
    }
    found
}

/// What an alert has changed by.
fn state_of(runs: &Identity) -> String {
    format!("{:?}", (runs.label(), &runs.sha256, &runs.build_id, &runs.settings, c_library(runs)))
}

/// The beginning of a digest.
fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// Files of code that are other ones on disk than when the watch started, by the services that run them.
pub(super) fn files(plan: &WatchPlan, seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, before) in &plan.files {
        let Some(now) = seen.files.get(path).filter(|now| now.as_ref() != Some(before)) else { continue };
        let what = match now {
            Some(now) => format!("is another file ({} instead of {})", short(now), short(before)),
            None => "is gone".to_owned(),
        };
        let text = format!("{} {what}, which its next start will run", path.display());
        let state = format!("{} {}", path.display(), now.as_deref().unwrap_or("gone"));
        let users = plan.services.iter().filter(|own| own.code().any(|used| used == path));
        findings.extend(users.map(|own| Finding::new(AlertKind::File, own.service.as_str(), &state, &text)));
    }
    findings
}

/// Services whose next start will be without their treatment.
pub(super) fn drop_ins(seen: &Seen) -> Vec<Finding> {
    let finding = |seen: &ServiceSeen| {
        let lacking = seen.next_lacks.as_ref().filter(|lacking| !lacking.is_empty())?.join(", ");
        let text = format!("its next start will be without its treatment: {lacking}");
        Some(Finding::new(AlertKind::DropIn, &seen.service, lacking, text))
    };
    seen.services.iter().filter_map(finding).collect()
}
