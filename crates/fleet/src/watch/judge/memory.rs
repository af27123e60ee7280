//! Memory that is nearly used up.

use heaptrial_model::units;

use crate::watch::alert::{AlertKind, Finding};
use crate::watch::plan::WatchPlan;
use crate::watch::seen::Seen;

/// A service that uses this share of its MemoryMax is about to be killed,
const NEARLY_ALL: f64 = 0.9;
/// until it uses less than this one again.
const WELL_BELOW: f64 = 0.85;
/// A host with less than this share of its memory available,
const NEARLY_FULL: f64 = 0.05;
/// until there is this one again.
const WELL_ABOVE: f64 = 0.08;
/// The host in the place of a service.
const HOST: &str = "host";

/// What is nearly used up now. What does not run uses nothing, and a reading of long ago raises no alert.
pub(super) fn nearly_used_up(
    plan: &WatchPlan,
    seen: &Seen,
    stands: &dyn Fn(AlertKind, &str) -> bool,
) -> Vec<Finding> {
    let kind = AlertKind::Memory;
    let mut findings = Vec::new();
    for service in seen.services.iter().filter(|service| service.stopped.is_none()) {
        let (Some(bytes), Some(limit)) = (service.limited_bytes(), service.limit_bytes) else { continue };
        let stands = stands(kind, &service.service);
        let share = if stands { WELL_BELOW } else { NEARLY_ALL };
        let is_read = service.last_reading_at.is_some_and(|last| seen.at - last <= plan.no_data_seconds);
        if bytes >= share * limit && (is_read || stands) {
            let (used, all) = (units::memory(bytes), units::memory(limit));
            let text = format!("uses {used} of the {all} that it may (MemoryMax)");
            findings.push(Finding::new(kind, &service.service, "nearly_all", text));
        }
    }
    if let (Some(all), Some(available)) = (seen.host_bytes, seen.host_available_bytes) {
        let share = if stands(kind, HOST) { WELL_ABOVE } else { NEARLY_FULL };
        if available < share * all {
            let text = format!("{} of its {} are available", units::memory(available), units::memory(all));
            findings.push(Finding::new(kind, HOST, "nearly_all", text));
        }
    }
    findings
}
