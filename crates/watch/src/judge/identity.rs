//! What processes run, and what lies on disk for their next start.

use std::path::{Path, PathBuf};

use heaptrial_allocator::Expected;

use super::cause::Finding;
use crate::alert::{Alert, AlertKind};
use crate::plan::{Fingerprint, WatchPlan, WatchedService};
use crate::seen::{DropInSeen, Seen, ServiceSeen};

/// States of an alert on a drop-in begin with what is wrong with it.
const GONE: &str = "gone";
const CHANGED: &str = "changed";
const NOT_IN_FORCE: &str = "not in force";

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
        Some(Finding {
            kind: AlertKind::Identity,
            service: seen.service.clone(),
            cause: what.clone(),
            key: seen.service.clone(),
            state,
            text: ("", format!(" does not run what was proved: {what}")),
        })
    };
    plan.services.iter().zip(&seen.services).filter_map(finding).collect()
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
        let told = |of: &Fingerprint| {
            let settings: Vec<String> =
                of.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
            if settings.is_empty() { "none".to_owned() } else { settings.join(" ") }
        };
        found.push(format!("settings {} in place of {}", told(now), told(before)));
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

/// Files of code that are other ones on disk than when the watch started.
pub(super) fn files(plan: &WatchPlan, seen: &Seen) -> Vec<(PathBuf, Alert)> {
    let alert = |(path, before): (&PathBuf, &String)| {
        let now = seen.files.get(path)?;
        if now.as_ref() == Some(before) {
            return None;
        }
        let users: Vec<&str> =
            plan.services.iter().filter(|own| uses(own, path)).map(|own| own.service.as_str()).collect();
        let what = match now {
            Some(now) => format!("is another file ({} in place of {})", short(now), short(before)),
            None => "is gone".to_owned(),
        };
        let alert = Alert {
            key: format!("file:{}", path.display()),
            kind: AlertKind::File,
            state: now.clone().unwrap_or_else(|| "gone".to_owned()),
            service: None,
            services: Vec::new(),
            text: format!(
                "{} {what}; at their next start {} will run it: {}",
                path.display(),
                heaptrial_model::units::counted(users.len(), "service"),
                users.join(", ")
            ),
            advice: "put the file back before the services are restarted, as by installing the package's version before"
                .to_owned(),
        };
        Some((path.clone(), alert))
    };
    plan.files.iter().filter_map(alert).collect()
}

fn uses(service: &WatchedService, path: &Path) -> bool {
    let object = service.expected.as_ref().and_then(|expected: &Expected| expected.object.as_deref());
    let libc = service.runs.as_ref().and_then(|runs| runs.libc.as_ref()).map(|libc| libc.0.as_path());
    object == Some(path) || libc == Some(path)
}

/// Services that lost their drop-in.
pub(super) fn drop_ins(plan: &WatchPlan, seen: &Seen) -> Vec<Finding> {
    let finding = |(planned, seen): (&WatchedService, &ServiceSeen)| {
        let Fault { cause, state, what } = fault(planned, seen.drop_in.as_ref()?)?;
        Some(Finding {
            kind: AlertKind::DropIn,
            service: seen.service.clone(),
            cause,
            key: seen.service.clone(),
            state,
            text: ("the drop-in of ", format!(" {what}")),
        })
    };
    plan.services.iter().zip(&seen.services).filter_map(finding).collect()
}

/// What is wrong with a drop-in.
struct Fault {
    cause: String,
    state: String,
    what: String,
}

fn fault(planned: &WatchedService, found: &DropInSeen) -> Option<Fault> {
    if !planned.needs_drop_in {
        return None;
    }
    let told = |cause: &str, what: &str| {
        Some(Fault { cause: cause.to_owned(), state: cause.to_owned(), what: what.to_owned() })
    };
    match (&planned.drop_in, &found.sha256) {
        (_, None) => told(GONE, "is gone: its next start will be without its treatment"),
        // What a rollout wrote anew has a text of its own; whether it is the same treatment shows below.
        (Some(before), Some(now)) if before != now && !found.written_by_transaction => Some(Fault {
            cause: CHANGED.to_owned(),
            state: format!("{CHANGED} {now}"),
            what: "was changed since the watch began".to_owned(),
        }),
        _ if !found.in_force => told(NOT_IN_FORCE, "is on disk and not in force: systemd has not read it"),
        _ if !found.overridden.is_empty() => {
            let names = found.overridden.join(", ");
            let cause = format!("overridden {names}");
            told(&cause, &format!("is overridden: {names} has another value for systemd"))
        }
        _ => None,
    }
}
