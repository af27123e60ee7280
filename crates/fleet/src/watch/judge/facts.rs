//! What is looked at by every check. These are facts and no tests.

use std::collections::BTreeMap;

use heaptrial_model::{ServicePattern, units};

use super::{failures, identity, memory, work};
use crate::watch::alert::{AlertKind, Finding};
use crate::watch::plan::WatchPlan;
use crate::watch::seen::{Seen, ServiceSeen};
use crate::watch::state::Standing;

/// A relay that has reported neither work nor flags for so long is silent; it is asked every ten minutes.
const SILENT_SECONDS: f64 = 3600.0;

/// What a check finds; `before` is what stood at the check before.
pub fn facts(plan: &WatchPlan, seen: &Seen, before: &BTreeMap<AlertKind, Standing>) -> Vec<Finding> {
    let stands = |kind: AlertKind, service: &str| {
        before.get(&kind).is_some_and(|standing| standing.alert.found.contains_key(service))
    };
    let mut findings = identity::processes(plan, seen);
    findings.extend(identity::drop_ins(seen));
    findings.extend(identity::files(plan, seen));
    findings.extend(newcomers(plan, seen));
    findings.extend(stopped(seen));
    findings.extend(work::less(plan, seen, &stands));
    findings.extend(no_data(plan, seen));
    findings.extend(memory::nearly_used_up(plan, seen, &stands));
    findings.extend(failures::findings(plan, seen));
    findings
        .extend(seen.unreadable.iter().map(|what| Finding::new(AlertKind::NoData, what, "", "not readable")));
    findings
}

fn newcomers(plan: &WatchPlan, seen: &Seen) -> Vec<Finding> {
    let patterns: Vec<&str> = plan.patterns.iter().map(ServicePattern::as_str).collect();
    let text = format!("matches {} and has no treatment", patterns.join(" "));
    seen.newcomers.iter().map(|service| Finding::new(AlertKind::NewService, service, "", &text)).collect()
}

fn stopped(seen: &Seen) -> Vec<Finding> {
    let finding = |service: &ServiceSeen| {
        let how = service.stopped.as_ref()?;
        let text = format!("does not run: it is {how}");
        Some(Finding::new(AlertKind::Stopped, &service.service, how, text))
    };
    seen.services.iter().filter_map(finding).collect()
}

/// What is not known never passes as good. Of what does not run nothing more is to be known.
fn no_data(plan: &WatchPlan, seen: &Seen) -> Vec<Finding> {
    let limit = plan.no_data_seconds;
    let finding = |service: &ServiceSeen| {
        let since = seen.at - service.last_reading_at.unwrap_or(plan.started_at);
        let silent = service.unanswered_since.map_or(0.0, |since| seen.at - since);
        let (state, text) = match service.last_reading_at {
            Some(_) if since > limit => {
                ("silent", format!("the last reading is {} old", units::duration(since)))
            }
            None if since > limit => ("silent", "there was no reading since the watch began".to_owned()),
            _ if service.runs.is_none() => ("unknown", "what it runs is not known".to_owned()),
            _ if silent > SILENT_SECONDS.max(limit) => {
                ("unanswered", "work and flags were not reported for an hour or longer".to_owned())
            }
            _ => return None,
        };
        Some(Finding::new(AlertKind::NoData, &service.service, state, text))
    };
    seen.services.iter().filter(|service| service.stopped.is_none()).filter_map(finding).collect()
}
