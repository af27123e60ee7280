//! Memory that runs out.

use std::collections::BTreeMap;

use heaptrial_model::units;
use heaptrial_stats::first_passage;

use super::growth::Excess;
use super::level::Level;
use crate::alert::{Alert, AlertKind};
use crate::plan::WatchPlan;
use crate::seen::Seen;
use crate::state::Standing;

/// A service that uses this share of its MemoryMax is about to be killed,
const NEARLY_ALL: f64 = 0.9;
/// until it uses less than this one again.
const WELL_BELOW: f64 = 0.85;
/// A host with less than this share of its memory available,
const NEARLY_FULL: f64 = 0.05;
/// until there is this one again.
const WELL_ABOVE: f64 = 0.08;
/// An alert is told anew when days fall below one of these.
const STEPS_DAYS: [f64; 5] = [1.0, 3.0, 7.0, 14.0, 30.0];

/// What is nearly used up now; `before` is what stood at the check before.
pub(super) fn nearly_used_up(seen: &Seen, before: &BTreeMap<String, Standing>) -> Vec<Alert> {
    let mut alerts = Vec::new();
    for service in &seen.services {
        let (Some(bytes), Some(limit)) = (service.limited_bytes(), service.limit_bytes) else { continue };
        let key = format!("memory:{}", service.service);
        let share = if before.contains_key(&key) { WELL_BELOW } else { NEARLY_ALL };
        if bytes >= share * limit {
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

/// Memory that runs out within the horizon if services grow on as they were shown to.
pub(super) fn running_out(plan: &WatchPlan, levels: &[Level], excess: &Excess, seen: &Seen) -> Option<Alert> {
    let known = plan.shown_growth();
    let (growth, low) = (excess.value + known, excess.low + known);
    if low <= 0.0 {
        return None;
    }
    // What is in swap now stays there.
    let limit = |service: &str| {
        let seen = seen.services.iter().find(|seen| seen.service == service)?;
        Some(seen.limit_bytes? + seen.swap_bytes)
    };
    let of_service = |level: &Level| {
        let days = first_passage(level.bytes, level.bytes * growth, None, limit(&level.service)?)?;
        Some((days.estimate, format!("{} reaches its MemoryMax", level.service)))
    };
    let together: f64 = levels.iter().map(|level| level.bytes).sum::<f64>() * growth;
    let host = seen.host_available_bytes.map(|available| {
        (available / together, "the host's memory is full, if nothing else of it changes".to_owned())
    });
    let first = levels.iter().filter_map(of_service).chain(host).min_by(|a, b| a.0.total_cmp(&b.0));
    let (days, what) = first.filter(|(days, _)| *days <= plan.limits.horizon_days)?;
    let step = STEPS_DAYS.iter().find(|step| days <= **step).copied().unwrap_or(plan.limits.horizon_days);
    Some(Alert {
        key: "memory:growth".to_owned(),
        kind: AlertKind::Memory,
        state: format!("within_{step:.0}_days"),
        service: None,
        services: Vec::new(),
        text: format!("at {} a day {what} in {days:.0} days", units::share(growth)),
        advice: "restart services before then, or roll back; a restart frees what has grown".to_owned(),
    })
}
