//! What the agent's samples are to a rollout's gates.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use heaptrial_change::Prepared;
use heaptrial_evaluate::analysis::{Fleet, FleetLife, Worked};
use heaptrial_evaluate::judgement::{Options, read_fleet};
use heaptrial_fleet::rollout::{Observed, Observer, Stratum};
use heaptrial_host::{HostFacts, HostRoot, Instant as Moment};
use heaptrial_model::{KnownEvent, ServiceName};
use heaptrial_store::{LatestSample, Store};

use crate::commands::host::record;

/// What goes on for long is reported this often.
const REPEAT_EVERY: std::time::Duration = std::time::Duration::from_secs(30);

pub struct Watcher {
    database: PathBuf,
    prepared: Prepared,
    strata: Vec<Stratum>,
    boot_id: Option<String>,
    waited: Option<Instant>,
}

impl Watcher {
    /// Of a rollout that is recorded in a database.
    pub fn new(database: PathBuf, prepared: &Prepared, strata: &[Stratum]) -> Self {
        let boot_id = HostFacts::read(&HostRoot::default()).ok().map(|facts| facts.boot_id);
        Self { database, prepared: prepared.clone(), strata: strata.to_vec(), boot_id, waited: None }
    }

    /// What the database has of the rollout now, and seconds since the last reading of each service.
    fn recorded(&self) -> Option<(Fleet, BTreeMap<String, f64>)> {
        let store = Store::open(&self.database).ok()?;
        let row = record::recorded(&store, &self.prepared).ok()??;
        let names: BTreeMap<i64, String> =
            store.services(row.id).ok()?.into_iter().map(|service| (service.id, service.name)).collect();
        let (now, boot_id) = (Moment::now(), self.boot_id.as_deref());
        let since = |latest: LatestSample| {
            latest.rss_bytes?;
            let read = Moment { wall_us: latest.wall_us, boottime_us: latest.boottime_us };
            let is_of_this_boot = boot_id.is_some() && latest.boot_id.as_deref() == boot_id;
            let seconds = seconds_since(read, is_of_this_boot, row.ended_wall_us, now)?;
            Some((names.get(&latest.service_id)?.clone(), seconds))
        };
        let fleet = read_fleet(&store, row.id, &Options::default()).ok()?;
        Some((fleet, store.latest(row.id).ok()?.into_iter().filter_map(since).collect()))
    }

    fn observed(&self, fleet: &Fleet, index: usize, last_reading_seconds: Option<f64>) -> Observed {
        let service = &fleet.services[index];
        let own = || fleet.events.iter().filter(move |event| event.service == Some(index));
        let since = own()
            .filter(|event| event.kind == KnownEvent::TreatmentCommitted)
            .map(|event| event.at)
            .fold(0.0, f64::max);
        let failures =
            own().filter(|event| event.at >= since && event.kind.known().is_some_and(KnownEvent::is_failure));
        let life = service.current().filter(|life| life.contamination.is_none() && life.proved);
        Observed {
            level: life.and_then(|life| self.level(&service.name, life)),
            last_reading_seconds,
            failures: failures.map(|event| event.text.clone()).collect(),
            work: life.and_then(Worked::of_life),
            flags: life.and_then(FleetLife::flags),
        }
    }

    fn level(&self, service: &str, life: &FleetLife) -> Option<(f64, f64)> {
        let age = life.last_age()?;
        let is_own = |stratum: &&Stratum| stratum.services.iter().any(|name| name.as_str() == service);
        let ratio = self.strata.iter().find(is_own).and_then(|stratum| stratum.ratio.as_ref());
        let bytes = match ratio {
            Some(ratio) => ratio.level_of(life, age),
            None => life.last_level(),
        };
        Some((bytes?, age))
    }
}

/// Seconds since a service was read last: by the clock that nobody sets, and of another boot than the present one nothing. Of a
/// rollout that is complete nothing is read any more: up to its end.
fn seconds_since(
    read: Moment,
    is_of_this_boot: bool,
    ended_wall_us: Option<i64>,
    now: Moment,
) -> Option<f64> {
    let passed_us = match ended_wall_us {
        Some(ended) => ended - read.wall_us,
        None if is_of_this_boot => now.boottime_us - read.boottime_us,
        None => return None,
    };
    Some(passed_us as f64 / 1e6)
}

impl Observer for Watcher {
    fn observe(&mut self, services: &[ServiceName]) -> BTreeMap<ServiceName, Observed> {
        let Some((fleet, since)) = self.recorded() else { return BTreeMap::new() };
        let observed = |name: &ServiceName| {
            let index = fleet.services.iter().position(|found| found.name == name.as_str())?;
            Some((name.clone(), self.observed(&fleet, index, since.get(name.as_str()).copied())))
        };
        services.iter().filter_map(observed).collect()
    }

    fn say(&mut self, text: &str) {
        self.waited = None;
        eprintln!("{text}");
    }

    fn waiting(&mut self, text: &str) {
        if self.waited.is_none_or(|at| at.elapsed() >= REPEAT_EVERY) {
            self.waited = Some(Instant::now());
            eprintln!("{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_US: i64 = 60_000_000;

    #[test]
    fn a_reading_is_as_old_as_it_is_whatever_the_wall_clock_says() {
        let now = Moment { wall_us: 900 * MINUTE_US, boottime_us: 60 * MINUTE_US };
        let read =
            Moment { wall_us: now.wall_us + 10 * MINUTE_US, boottime_us: now.boottime_us - 2 * MINUTE_US };
        assert_eq!(seconds_since(read, true, None, now), Some(120.0));
        assert_eq!(seconds_since(read, false, Some(read.wall_us + MINUTE_US), now), Some(60.0));
        // A host that came up since has read nothing yet.
        assert_eq!(seconds_since(read, false, None, now), None);
    }
}
