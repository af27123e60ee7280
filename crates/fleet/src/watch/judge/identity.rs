//! What processes run, and what lies on disk for their next start.

use std::path::Path;

use heaptrial_allocator::Expected;

use crate::watch::alert::{AlertKind, Finding};
use crate::watch::plan::{Fingerprint, WatchPlan, WatchedService};
use crate::watch::seen::{DropInSeen, Seen, ServiceSeen};

/// Processes that run something else than was proved.
pub(super) fn processes(plan: &WatchPlan, seen: &Seen) -> Vec<Finding> {
    let finding = |(planned, seen): (&WatchedService, &ServiceSeen)| {
        let (state, what) = match (&planned.runs, &seen.runs) {
            (Some(before), Some(now)) => {
                let differs = differences(before, now);
                if differs.is_empty() {
                    return None;
                }
                (describe(now), differs.join("; "))
            }
            // Where the process cannot be looked at, what the agent saw of it.
            _ => {
                let why = seen.contamination.clone()?;
                (why.clone(), why)
            }
        };
        let text = format!("does not run what was proved: {what}{}", by_whom(seen));
        Some(Finding::new(AlertKind::Identity, &seen.service, state, text))
    };
    plan.services.iter().zip(&seen.services).filter_map(finding).collect()
}

fn by_whom(seen: &ServiceSeen) -> String {
    seen.changed_by
        .as_ref()
        .map_or(String::new(), |name| format!(" ({name} changed it since the watch began)"))
}

/// Where what runs now is not what ran.
fn differences(before: &Fingerprint, now: &Fingerprint) -> Vec<String> {
    let mut found = Vec::new();
    if before.allocator != now.allocator {
        found.push(format!("{} in place of {}", now.allocator, before.allocator));
    } else if let (Some(old), Some(new)) = (&before.build, &now.build) {
        if old != new {
            found.push(format!(
                "another build of {} ({} in place of {})",
                now.allocator,
                short(new),
                short(old)
            ));
        }
    }
    if before.settings != now.settings {
        let listed = |of: &Fingerprint| {
            let settings: Vec<String> =
                of.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
            if settings.is_empty() { "none".to_owned() } else { settings.join(" ") }
        };
        found.push(format!("settings {} in place of {}", listed(now), listed(before)));
    }
    if let (Some((_, old)), Some((path, new))) = (&before.libc, &now.libc) {
        if old != new {
            found.push(format!(
                "another C library, {} ({} in place of {})",
                path.display(),
                short(new),
                short(old)
            ));
        }
    }
    found
}

fn describe(runs: &Fingerprint) -> String {
    let build = runs.build.as_deref().unwrap_or("");
    let libc = runs.libc.as_ref().map_or("", |libc| libc.1.as_str());
    format!("{} {build} {:?} {libc}", runs.allocator, runs.settings)
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
            Some(now) => format!("is another file ({} in place of {})", short(now), short(before)),
            None => "is gone".to_owned(),
        };
        let text = format!("{} {what}, which its next start will run", path.display());
        let state = format!("{} {}", path.display(), now.as_deref().unwrap_or("gone"));
        let users = plan.services.iter().filter(|own| uses(own, path));
        findings.extend(users.map(|own| Finding::new(AlertKind::File, own.service.as_str(), &state, &text)));
    }
    findings
}

fn uses(service: &WatchedService, path: &Path) -> bool {
    let object = service.expected.as_ref().and_then(|expected: &Expected| expected.object.as_deref());
    let libc = service.runs.as_ref().and_then(|runs| runs.libc.as_ref()).map(|libc| libc.0.as_path());
    object == Some(path) || libc == Some(path)
}

/// Services that lost their drop-in.
pub(super) fn drop_ins(plan: &WatchPlan, seen: &Seen) -> Vec<Finding> {
    let finding = |(planned, seen): (&WatchedService, &ServiceSeen)| {
        let (state, what) = fault(planned, seen.drop_in.as_ref()?)?;
        let text = format!("its drop-in {what}{}", by_whom(seen));
        Some(Finding::new(AlertKind::DropIn, &seen.service, state, text))
    };
    plan.services.iter().zip(&seen.services).filter_map(finding).collect()
}

/// What is wrong with a drop-in: the state of the alert, and words.
fn fault(planned: &WatchedService, found: &DropInSeen) -> Option<(String, String)> {
    let fault = |state: &str, what: &str| Some((state.to_owned(), what.to_owned()));
    match (&planned.drop_in, &found.sha256) {
        _ if !planned.needs_drop_in => None,
        (_, None) => fault("gone", "is gone: its next start will be without its treatment"),
        // What a rollout wrote again has a text of its own; whether it is the same treatment shows below.
        (Some(before), Some(now)) if before != now && !found.written_by_transaction => {
            fault(now, "was changed since the watch began")
        }
        _ if !found.in_force => fault("not in force", "is on disk and not in force: systemd has not read it"),
        _ if !found.overridden.is_empty() => {
            let names = found.overridden.join(", ");
            fault(&names, &format!("is overridden: {names} has another value for systemd"))
        }
        _ => None,
    }
}
