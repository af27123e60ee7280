//! What services need together, by server.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::{Fleet, FleetService, bytes};

/// Memory of the services of an arm on a server, all of them, as they are: nobody is left out of what a machine needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSum {
    /// The server's label; `None` where no name has one and the host is not known.
    pub server: Option<String>,
    /// Position of the arm. A service in several arms is in its first one.
    pub arm: usize,
    /// Services with a reading.
    pub services: u32,
    /// Sum of their last readings, in bytes.
    pub last_bytes: f64,
    /// The same services before and after; `None` where no service was read before.
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

/// Sums of last readings by server and arm, in this order. The server of `server/nickname` is what stands before the
/// slash; of other names it is `host`. Readings of different services may be of different times.
pub fn sums_by_server(fleet: &Fleet, host: Option<&str>) -> Vec<ServerSum> {
    let mut sums: BTreeMap<(Option<&str>, usize), ServerSum> = BTreeMap::new();
    for (index, service) in fleet.services.iter().enumerate() {
        let last = service.current().and_then(|life| life.readings.last()).map(bytes);
        let Some((arm, last)) = service.arms.first().copied().zip(last) else { continue };
        let server = label(&service.name).or(host);
        let sum = sums.entry((server, arm)).or_insert_with(|| ServerSum {
            server: server.map(str::to_owned),
            arm,
            services: 0,
            last_bytes: 0.0,
            compared: None,
        });
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
    sums.into_values().collect()
}

/// The server in a service's name.
fn label(name: &str) -> Option<&str> {
    let (server, nickname) = name.split_once('/')?;
    (!server.is_empty() && !nickname.is_empty()).then_some(server)
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
    let dated = dated.min_by(f64::total_cmp);
    let at = dated.or_else(restart)?;
    let mut readings = service.lives.iter().flat_map(|life| {
        life.readings.iter().map(|reading| (life.started_at + f64::from(reading.age_seconds), bytes(reading)))
    });
    let before = readings.clone().rfind(|reading| reading.0 < at)?.1;
    let after = readings.rfind(|reading| reading.0 >= at)?.1;
    Some(Change { dated: dated.is_some(), before, after })
}
