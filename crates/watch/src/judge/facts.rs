//! What is looked at by every check. These are facts and no tests.

use std::collections::BTreeMap;

use heaptrial_model::{ServicePattern, units};

use super::cause::{Finding, SILENT, UNTOLD, together};
use super::{failures, identity, memory, transaction, work};
use crate::alert::{Alert, AlertKind};
use crate::plan::WatchPlan;
use crate::seen::{Seen, ServiceSeen};
use crate::state::Standing;

/// A relay that has told neither work nor flags for so long is told as silent; it is asked every ten minutes.
const SILENT_SECONDS: f64 = 3600.0;

/// Alerts on what a check sees; `before` is what stood at the check before.
pub fn facts(plan: &WatchPlan, seen: &Seen, before: &BTreeMap<String, Standing>) -> Vec<Alert> {
    let mut findings = identity::processes(plan, seen);
    findings.extend(identity::drop_ins(plan, seen));
    findings.extend(newcomers(plan, seen));
    findings.extend(stopped(seen));
    findings.extend(work::less(plan, seen, before));
    findings.extend(flags(seen));
    findings.extend(no_data(plan, seen));
    let mut files = identity::files(plan, seen);
    let mut alerts = transaction::explained(plan, seen, &mut findings, &mut files);
    alerts.extend(together(plan, seen.services.len(), findings));
    alerts.extend(files.into_iter().map(|(_, alert)| alert));
    alerts.extend(memory::nearly_used_up(plan, seen, before));
    alerts.extend(failures::alert(plan, seen));
    alerts.extend(unreadable(seen));
    alerts
}

fn newcomers(plan: &WatchPlan, seen: &Seen) -> Vec<Finding> {
    let patterns: Vec<&str> = plan.patterns.iter().map(ServicePattern::as_str).collect();
    let patterns = patterns.join(" ");
    let finding = |service: &String| Finding {
        kind: AlertKind::NewService,
        service: service.clone(),
        cause: "untreated".to_owned(),
        key: service.clone(),
        state: "untreated".to_owned(),
        text: ("", format!(" matches {patterns} and has no treatment")),
    };
    seen.newcomers.iter().map(finding).collect()
}

fn stopped(seen: &Seen) -> Vec<Finding> {
    let finding = |service: &ServiceSeen| {
        let how = service.stopped.clone()?;
        Some(Finding {
            kind: AlertKind::Stopped,
            service: service.service.clone(),
            cause: how.clone(),
            key: service.service.clone(),
            text: ("", format!(" does not run: it is {how}")),
            state: how,
        })
    };
    seen.services.iter().filter_map(finding).collect()
}

fn flags(seen: &Seen) -> Vec<Finding> {
    let finding = |service: &ServiceSeen| {
        let lost: Vec<&str> = service.lost_flags.iter().map(|flag| flag.as_str()).collect();
        let lost = lost.join(", ");
        (!lost.is_empty()).then(|| Finding {
            kind: AlertKind::Flags,
            service: service.service.clone(),
            cause: lost.clone(),
            key: service.service.clone(),
            text: ("", format!(" has lost {lost}, and ran on")),
            state: lost,
        })
    };
    seen.services.iter().filter_map(finding).collect()
}

/// What is not known is told: it never passes as good. Of what does not run nothing more is to be known.
fn no_data(plan: &WatchPlan, seen: &Seen) -> Vec<Finding> {
    let limit = plan.limits.no_data_seconds;
    let since = |service: &ServiceSeen| seen.at - service.last_reading_at.unwrap_or(plan.started_at);
    let finding = |service: &ServiceSeen, cause: &str, key: String, text: (&'static str, String)| Finding {
        kind: AlertKind::NoData,
        service: service.service.clone(),
        cause: cause.to_owned(),
        key,
        state: cause.to_owned(),
        text,
    };
    let runs = |service: &&ServiceSeen| service.stopped.is_none();
    let mut silent: Vec<&ServiceSeen> =
        seen.services.iter().filter(runs).filter(|service| since(service) > limit).collect();
    // Of several the newest reading is told.
    silent.sort_by(|a, b| since(a).total_cmp(&since(b)));
    let silent = silent.into_iter().map(|service| {
        let told = match service.last_reading_at {
            Some(_) => format!(" the last reading is {} old", units::duration(since(service))),
            None => " there was none since the watch began".to_owned(),
        };
        finding(service, SILENT, service.service.clone(), ("no data: of ", told))
    });
    let nameless = |service: &&ServiceSeen| service.runs.is_none() && since(service) <= limit;
    let nameless = seen.services.iter().filter(runs).filter(nameless).map(|service| {
        let key = format!("identity:{}", service.service);
        finding(service, "unknown", key, ("no data: what ", " runs cannot be told".to_owned()))
    });
    // Where nobody reads, that is told above.
    let untold = |service: &&ServiceSeen| {
        let of = |since: f64| seen.at - since > SILENT_SECONDS.max(limit);
        since(service) <= limit && service.untold_since.is_some_and(of)
    };
    let untold = seen.services.iter().filter(runs).filter(untold).map(|service| {
        let key = format!("relay:{}", service.service);
        let text = " were not told for an hour or longer".to_owned();
        finding(service, UNTOLD, key, ("no data: work and flags of ", text))
    });
    silent.chain(nameless).chain(untold).collect()
}

/// Of all together: one that is over shows in the number of those that are not.
fn unreadable(seen: &Seen) -> Option<Alert> {
    (!seen.unreadable.is_empty()).then(|| Alert {
        key: "no_data:unreadable".to_owned(),
        kind: AlertKind::NoData,
        state: format!("unreadable: {}", seen.unreadable.len()),
        service: None,
        services: Vec::new(),
        text: format!("no data: {}", seen.unreadable.join("; ")),
        advice: "`systemctl status heaptrial-agent.service` and that of the service tell why".to_owned(),
    })
}
