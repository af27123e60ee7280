//! What processes run, and what lies on disk for their next start.

use heaptrial_allocator::Expected;

use crate::alert::{Alert, AlertKind};
use crate::plan::{Fingerprint, WatchPlan, WatchedService};
use crate::seen::{DropInSeen, Seen, ServiceSeen};

/// Processes that run something else than was proved.
pub(super) fn processes(plan: &WatchPlan, seen: &Seen) -> Vec<Alert> {
    let alert = |(planned, seen): (&WatchedService, &ServiceSeen)| {
        let (state, text) = match (&planned.runs, &seen.runs) {
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
        Some(Alert {
            key: format!("identity:{}", seen.service),
            kind: AlertKind::Identity,
            state,
            service: Some(seen.service.clone()),
            text: format!("{} does not run what was proved: {text}", seen.service),
            advice: format!(
                "what was measured does not hold for it; put the file back and restart it, or measure anew: \
                 `heaptrial watch stop {name}` ends this watch",
                name = plan.name
            ),
        })
    };
    plan.services.iter().zip(&seen.services).filter_map(alert).collect()
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
pub(super) fn files(plan: &WatchPlan, seen: &Seen) -> Vec<Alert> {
    let alert = |(path, before): (&std::path::PathBuf, &String)| {
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
        Some(Alert {
            key: format!("file:{}", path.display()),
            kind: AlertKind::File,
            state: now.clone().unwrap_or_else(|| "gone".to_owned()),
            service: None,
            text: format!(
                "{} {what}; at their next start {} will run it: {}",
                path.display(),
                heaptrial_model::units::counted(users.len(), "service"),
                users.join(", ")
            ),
            advice: "put the file back before the services are restarted, as by installing the package's version before"
                .to_owned(),
        })
    };
    plan.files.iter().filter_map(alert).collect()
}

fn uses(service: &WatchedService, path: &std::path::Path) -> bool {
    let object = service.expected.as_ref().and_then(|expected: &Expected| expected.object.as_deref());
    let libc = service.runs.as_ref().and_then(|runs| runs.libc.as_ref()).map(|libc| libc.0.as_path());
    object == Some(path) || libc == Some(path)
}

/// Services that lost their drop-in.
pub(super) fn drop_ins(plan: &WatchPlan, seen: &Seen) -> Vec<Alert> {
    let alert = |(planned, seen): (&WatchedService, &ServiceSeen)| {
        let found = seen.drop_in.as_ref()?;
        let (state, what) = fault(planned, found)?;
        Some(Alert {
            key: format!("drop_in:{}", seen.service),
            kind: AlertKind::DropIn,
            state,
            service: Some(seen.service.clone()),
            text: format!("the drop-in of {} {what}", seen.service),
            advice: format!(
                "`systemctl cat {service}` shows what is in force; put the drop-in back, then `systemctl daemon-reload`",
                service = seen.service
            ),
        })
    };
    plan.services.iter().zip(&seen.services).filter_map(alert).collect()
}

fn fault(planned: &WatchedService, found: &DropInSeen) -> Option<(String, String)> {
    if !planned.needs_drop_in {
        return None;
    }
    let told = |state: &str, what: &str| Some((state.to_owned(), what.to_owned()));
    match (&planned.drop_in, &found.sha256) {
        (_, None) => told("gone", "is gone: its next start will be without its treatment"),
        (Some(before), Some(now)) if before != now => {
            Some((format!("changed {now}"), "was changed since the watch began".to_owned()))
        }
        _ if !found.in_force => told("not in force", "is on disk and not in force: systemd has not read it"),
        _ if !found.overridden.is_empty() => {
            let names = found.overridden.join(", ");
            Some((
                format!("overridden {names}"),
                format!("is overridden: {names} has another value for systemd"),
            ))
        }
        _ => None,
    }
}
