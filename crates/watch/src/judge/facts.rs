//! What is looked at by every check. These are facts and no tests.

use heaptrial_model::{ServicePattern, units};

use super::{failures, identity, memory};
use crate::alert::{Alert, AlertKind};
use crate::plan::WatchPlan;
use crate::seen::{Seen, ServiceSeen};

/// Alerts on what a check sees. `stands` tells of a key whether such an alert was there at the check before.
pub fn facts(plan: &WatchPlan, seen: &Seen, stands: &dyn Fn(&str) -> bool) -> Vec<Alert> {
    let mut alerts = identity::processes(plan, seen);
    alerts.extend(identity::files(plan, seen));
    alerts.extend(identity::drop_ins(plan, seen));
    alerts.extend(newcomers(plan, seen));
    alerts.extend(memory::nearly_used_up(seen, stands));
    alerts.extend(failures::alert(plan, seen));
    alerts.extend(no_data(plan, seen));
    alerts
}

fn newcomers(plan: &WatchPlan, seen: &Seen) -> Vec<Alert> {
    let patterns: Vec<&str> = plan.patterns.iter().map(ServicePattern::as_str).collect();
    let patterns = patterns.join(" ");
    let alert = |service: &String| Alert {
        key: format!("new_service:{service}"),
        kind: AlertKind::NewService,
        state: "untreated".to_owned(),
        service: Some(service.clone()),
        text: format!("{service} matches {patterns} and has no treatment"),
        advice: format!(
            "`heaptrial rollout start {name} --arm {arm} --services {service}` brings it, or leave it as it is",
            name = plan.name,
            arm = plan.arm
        ),
    };
    seen.newcomers.iter().map(alert).collect()
}

/// What is not known is told: it never passes as good.
fn no_data(plan: &WatchPlan, seen: &Seen) -> Vec<Alert> {
    let alert = |key: &str, state: &str, service: Option<String>, text: String| Alert {
        key: format!("no_data:{key}"),
        kind: AlertKind::NoData,
        state: state.to_owned(),
        service,
        text,
        advice: "`systemctl status heaptrial-agent.service` and that of the service tell why".to_owned(),
    };
    let mut alerts: Vec<Alert> = seen
        .unreadable
        .iter()
        .map(|what| alert(what, "unreadable", None, format!("no data: {what}")))
        .collect();
    let limit = plan.limits.no_data_seconds;
    let since = |service: &ServiceSeen| seen.at - service.last_reading_at.unwrap_or(plan.started_at);
    let silent: Vec<&ServiceSeen> = seen.services.iter().filter(|service| since(service) > limit).collect();
    let told = |service: &ServiceSeen| match service.last_reading_at {
        Some(_) => format!("the last reading is {} old", units::duration(since(service))),
        None => "there was none since the watch began".to_owned(),
    };
    if silent.len() > 1 && silent.len() == seen.services.len() {
        let newest = silent.iter().min_by(|a, b| since(a).total_cmp(&since(b)));
        let newest = newest.map_or(String::new(), |service| told(service));
        let text = format!("no data: of all {} {newest}", units::counted(silent.len(), "service"));
        alerts.push(alert("all", "silent", None, text));
        return alerts;
    }
    alerts.extend(silent.into_iter().map(|service| {
        let text = format!("no data: of {} {}", service.service, told(service));
        alert(&service.service, "silent", Some(service.service.clone()), text)
    }));
    let nameless = |service: &&ServiceSeen| service.runs.is_none() && since(service) <= limit;
    alerts.extend(seen.services.iter().filter(nameless).map(|service| {
        let text = format!("no data: what {} runs cannot be told", service.service);
        alert(&format!("identity:{}", service.service), "unknown", Some(service.service.clone()), text)
    }));
    alerts
}
