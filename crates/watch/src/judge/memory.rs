//! Memory that runs out.

use std::collections::BTreeMap;

use heaptrial_model::units;
use heaptrial_stats::first_passage;

use super::growth::Excess;
use super::level::Level;
use crate::alert::{Alert, AlertKind};
use crate::plan::WatchPlan;
use crate::seen::{Seen, ServiceSeen};
use crate::state::Standing;

/// A service that uses this share of its MemoryMax is about to be killed,
const NEARLY_ALL: f64 = 0.9;
/// until it uses less than this one again.
const WELL_BELOW: f64 = 0.85;
/// A host with less than this share of its memory available,
const NEARLY_FULL: f64 = 0.05;
/// until there is this one again.
const WELL_ABOVE: f64 = 0.08;
/// The key of an alert on memory that runs out.
const RUNS_OUT: &str = "memory:growth";
/// An alert is told anew when days fall below one of these.
const STEPS_DAYS: [f64; 5] = [1.0, 3.0, 7.0, 14.0, 30.0];

/// What is nearly used up now; `before` is what stood at the check before. What does not run uses nothing, and a reading of long
/// ago raises no alert.
pub(super) fn nearly_used_up(
    plan: &WatchPlan,
    seen: &Seen,
    before: &BTreeMap<String, Standing>,
) -> Vec<Alert> {
    let mut alerts = Vec::new();
    for service in seen.services.iter().filter(|service| service.stopped.is_none()) {
        let (Some(bytes), Some(limit)) = (service.limited_bytes(), service.limit_bytes) else { continue };
        let key = format!("memory:{}", service.service);
        let stands = before.contains_key(&key);
        let share = if stands { WELL_BELOW } else { NEARLY_ALL };
        let is_read =
            service.last_reading_at.is_some_and(|last| seen.at - last <= plan.limits.no_data_seconds);
        if bytes >= share * limit && (is_read || stands) {
            alerts.push(Alert {
                key,
                kind: AlertKind::Memory,
                state: "nearly_all".to_owned(),
                service: Some(service.service.clone()),
                services: Vec::new(),
                text: format!(
                    "{} uses {} of the {} that it may (MemoryMax)",
                    service.service,
                    units::memory(bytes),
                    units::memory(limit)
                ),
                advice: format!("restart {} or raise its MemoryMax before it is killed", service.service),
            });
        }
    }
    if let (Some(all), Some(available)) = (seen.host_bytes, seen.host_available_bytes) {
        let share = if before.contains_key("memory:host") { WELL_ABOVE } else { NEARLY_FULL };
        if available < share * all {
            alerts.push(Alert {
                key: "memory:host".to_owned(),
                kind: AlertKind::Memory,
                state: "nearly_all".to_owned(),
                service: None,
                services: Vec::new(),
                text: format!(
                    "{} of the host's {} are available",
                    units::memory(available),
                    units::memory(all)
                ),
                advice: "free memory before the kernel kills a process".to_owned(),
            });
        }
    }
    alerts
}

/// Memory that runs out within the horizon if services grow on as they were shown to. What is in `before` stands while the
/// estimate says so, shown or not.
pub(super) fn running_out(
    plan: &WatchPlan,
    levels: &[Level],
    excess: &Excess,
    seen: &Seen,
    before: &[Alert],
) -> Option<Alert> {
    let known = plan.shown_growth();
    let (growth, low) = (excess.value + known, excess.low + known);
    let stands = before.iter().any(|alert| alert.key == RUNS_OUT);
    if growth <= 0.0 || (low <= 0.0 && !stands) {
        return None;
    }
    // One without a level, as where its readings end a little before the look, uses memory all the same.
    let bytes = |service: &ServiceSeen| {
        let level = levels.iter().find(|level| level.service == service.service);
        level.map(|level| level.bytes).or(service.bytes)
    };
    let runs = seen.services.iter().filter(|service| service.stopped.is_none());
    let used: Vec<(&ServiceSeen, f64)> =
        runs.filter_map(|service| Some((service, bytes(service)?))).collect();
    let of_service = |(service, bytes): &(&ServiceSeen, f64)| {
        // What is in swap now stays there.
        let limit = service.limit_bytes? + service.swap_bytes;
        let days = first_passage(*bytes, bytes * growth, None, limit)?;
        Some((days.estimate, format!("{} reaches its MemoryMax", service.service)))
    };
    let together = used.iter().map(|(_, bytes)| bytes).sum::<f64>() * growth;
    let host = seen.host_available_bytes.filter(|_| together > 0.0).map(|available| {
        (available / together, "the host's memory is full, if nothing else of it changes".to_owned())
    });
    let first = used.iter().filter_map(of_service).chain(host).min_by(|a, b| a.0.total_cmp(&b.0));
    let (days, what) = first.filter(|(days, _)| *days <= plan.limits.horizon_days)?;
    let step = STEPS_DAYS.iter().find(|step| days <= **step).copied().unwrap_or(plan.limits.horizon_days);
    Some(Alert {
        key: RUNS_OUT.to_owned(),
        kind: AlertKind::Memory,
        state: format!("within_{step:.0}_days"),
        service: None,
        services: Vec::new(),
        text: format!("at {} a day {what} in {days:.0} days", units::share(growth)),
        advice: "restart services before then, or roll back; a restart frees what has grown".to_owned(),
    })
}
