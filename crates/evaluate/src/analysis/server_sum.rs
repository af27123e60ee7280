//! What services need together, by server.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::checks::presence::gone;
use crate::analysis::fleet::{Fleet, FleetService, bytes};
use crate::analysis::outcome::ServiceResult;

/// Memory of the services of an arm on a server, whatever they ran: nobody that is there is left out of what a machine needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSum {
    /// The server's label; `None` where it is not known.
    pub server: Option<String>,
    /// Position of the arm.
    pub arm: usize,
    /// Services that were read to the end.
    pub services: u32,
    /// Services that were read no more before the end: what they had is in no sum.
    pub gone: u32,
    /// Sum of their last readings, in bytes.
    pub last_bytes: f64,
    /// The same services before and after; `None` where no service was read before, or no event tells that any treatment changed:
    /// a restart alone changes nothing.
    pub compared: Option<BeforeAfter>,
}

/// Memory of the same services before and after their treatment changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BeforeAfter {
    /// Services that were read before and after.
    pub services: u32,
    /// Of these, those of which an event tells when the treatment changed. Of the others, before is before the first
    /// restart that the data show.
    pub dated: u32,
    /// Sum of their last readings before, in bytes.
    pub before_bytes: f64,
    /// Sum of their last readings, in bytes.
    pub after_bytes: f64,
}

/// A service before and after.
struct Change {
    dated: bool,
    before: f64,
    after: f64,
}

/// Sums of last readings by server and arm, in this order. `labels` has the server of each service, where it is known;
/// a service in several arms is in the first to which it belongs. Readings of different services may be of different times.
pub fn sums_by_server(
    fleet: &Fleet,
    services: &[ServiceResult],
    labels: &[Option<String>],
) -> Vec<ServerSum> {
    let gone = gone(fleet);
    let mut sums: BTreeMap<(Option<&str>, usize), ServerSum> = BTreeMap::new();
    for (index, service) in fleet.services.iter().enumerate() {
        let last = service.current().and_then(|life| life.readings.last()).map(bytes);
        let own = service.arms.iter().copied();
        let arm = own.clone().find(|arm| services[index].belongs_to(*arm)).or_else(|| own.clone().next());
        let Some((arm, last)) = arm.zip(last) else { continue };
        let server = labels.get(index).and_then(Option::as_deref);
        let sum = sums.entry((server, arm)).or_insert_with(|| ServerSum {
            server: server.map(str::to_owned),
            arm,
            services: 0,
            gone: 0,
            last_bytes: 0.0,
            compared: None,
        });
        if gone.contains(&index) {
            sum.gone += 1;
            continue;
        }
        sum.services += 1;
        sum.last_bytes += last;
        if let Some(change) = change(fleet, index, service) {
            let compared = sum.compared.get_or_insert_with(BeforeAfter::default);
            compared.services += 1;
            compared.dated += u32::from(change.dated);
            compared.before_bytes += change.before;
            compared.after_bytes += change.after;
        }
    }
    let mut sums: Vec<ServerSum> = sums.into_values().collect();
    // Where no event tells of any change, restarts are no more than that.
    if !sums.iter().any(|sum| sum.compared.is_some_and(|compared| compared.dated > 0)) {
        sums.iter_mut().for_each(|sum| sum.compared = None);
    }
    sums
}

fn change(fleet: &Fleet, index: usize, service: &FleetService) -> Option<Change> {
    let concerns = |of: Option<usize>, arm: Option<usize>| match (of, arm) {
        (Some(of), _) => of == index,
        (None, Some(arm)) => service.arms.contains(&arm),
        (None, None) => true,
    };
    let events = fleet.events.iter().filter(|event| event.changes_treatment);
    let dated = events.filter(|event| concerns(event.service, event.arm)).map(|event| event.at);
    let restart = || {
        let mut lives = service.lives.iter().filter(|life| !life.readings.is_empty());
        lives.nth(1).map(|life| life.started_at)
    };
    let readings = service.lives.iter().flat_map(|life| {
        life.readings.iter().map(|reading| (life.started_at + f64::from(reading.age_seconds), bytes(reading)))
    });
    let around = |at: f64| {
        let before = readings.clone().rfind(|reading| reading.0 < at)?.1;
        Some((before, readings.clone().rfind(|reading| reading.0 >= at)?.1))
    };
    // What changed before anything was read has no before.
    let mut dated: Vec<f64> = dated.collect();
    dated.sort_by(f64::total_cmp);
    let by_event = dated.into_iter().find_map(around);
    let (before, after) = by_event.or_else(|| around(restart()?))?;
    Some(Change { dated: by_event.is_some(), before, after })
}
