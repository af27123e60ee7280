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

/// Readings older than this do not count: the agent reads once a minute.
const STALE_SECONDS: f64 = 300.0;
/// What goes on for long is reported this often.
const REPEAT_EVERY: std::time::Duration = std::time::Duration::from_secs(30);

pub struct Watcher {
    pub database: PathBuf,
    pub prepared: Prepared,
    pub strata: Vec<Stratum>,
    boot_id: Option<String>,
    waited: Option<Instant>,
}

/// What a database has of a rollout now.
struct Recorded {
    fleet: Fleet,
    last_reading_seconds: BTreeMap<String, f64>,
}

impl Watcher {
    /// Of a rollout that is recorded in a database.
    pub fn new(database: PathBuf, prepared: &Prepared, strata: &[Stratum]) -> Self {
        let boot_id = HostFacts::read(&HostRoot::default()).ok().map(|facts| facts.boot_id);
        Self { database, prepared: prepared.clone(), strata: strata.to_vec(), boot_id, waited: None }
    }

    fn recorded(&self) -> Option<Recorded> {
        let store = Store::open(&self.database).ok()?;
        let row = record::recorded(&store, &self.prepared).ok()??;
        let names: BTreeMap<i64, String> =
            store.services(row.id).ok()?.into_iter().map(|service| (service.id, service.name)).collect();
        let (now, boot_id) = (Moment::now(), self.boot_id.as_deref());
        let since = |latest: LatestSample| {
            let seconds = seconds_since(&latest, row.ended_wall_us, now, boot_id)?;
            Some((names.get(&latest.service_id)?.clone(), seconds))
        };
        Some(Recorded {
            fleet: read_fleet(&store, row.id, &Options::default()).ok()?,
            last_reading_seconds: store.latest(row.id).ok()?.into_iter().filter_map(since).collect(),
        })
    }

    fn observed(&self, recorded: &Recorded, index: usize) -> Observed {
        let fleet = &recorded.fleet;
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
            last_reading_seconds: recorded.last_reading_seconds.get(&service.name).copied(),
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
    latest: &LatestSample,
    ended_wall_us: Option<i64>,
    now: Moment,
    boot_id: Option<&str>,
) -> Option<f64> {
    latest.rss_bytes?;
    let passed_us = match ended_wall_us {
        Some(ended) => ended - latest.wall_us,
        None if boot_id.is_some() && latest.boot_id.as_deref() == boot_id => {
            now.boottime_us - latest.boottime_us
        }
        None => return None,
    };
    Some(passed_us as f64 / 1e6)
}

impl Observer for Watcher {
    fn observe(&mut self, services: &[ServiceName]) -> BTreeMap<ServiceName, Observed> {
        let Some(known) = self.recorded() else { return BTreeMap::new() };
        let position =
            |name: &ServiceName| known.fleet.services.iter().position(|found| found.name == name.as_str());
        services
            .iter()
            .filter_map(|name| Some((name.clone(), self.observed(&known, position(name)?))))
            .collect()
    }

    fn stale_seconds(&self) -> f64 {
        STALE_SECONDS
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
    use heaptrial_model::{Identity, LifeKey, Sample, TrialKind};
    use heaptrial_store::{NewService, TickInput};
    use serde_json::json;

    use super::*;
    use crate::commands::host::record::tests::{frozen, row};

    const MINUTE_US: i64 = 60_000_000;

    /// Seconds since the last reading, which was two minutes ago in a life of an hour; the clock is set by so many minutes at
    /// some time before or after that reading.
    fn seconds_ago(before: i64, after: i64, boot_id: Option<&str>) -> Option<f64> {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("db");
        let mut store = Store::create(&database).unwrap();
        let prepared = frozen("r");
        let id = json!({ "plan": prepared.plan });
        let (trial, arms) = store.begin_trial(&row("r", TrialKind::Rollout, id)).unwrap();
        let service =
            NewService { name: "a.service".into(), arm: 0, block: 0, position: 0, attributes: json!(null) };
        let service = store.add_new_service(trial, arms[0], &service).unwrap();
        let mut watcher = Watcher::new(database.clone(), &prepared, &[]);
        let now = Moment::now();
        let boot_id = boot_id.map_or_else(|| watcher.boot_id.clone().unwrap(), str::to_owned);
        let key = LifeKey { boot_id: boot_id.clone(), pid: 7, start_ticks: 7 };
        let identity = json!({
            "family": "glibc", "version": null, "version_range": null, "path": null, "build_id": null, "sha256": null,
            "linkage": "libc", "settings": {}, "evidence": [],
        });
        let identity: Identity = serde_json::from_value(identity).unwrap();
        // Moments by the clock as it went at the time.
        let at = |minutes_ago: i64, set_by: i64| {
            (now.wall_us - (minutes_ago + set_by) * MINUTE_US, now.boottime_us - minutes_ago * MINUTE_US)
        };
        let host = store.add_host(&boot_id, &json!({})).unwrap();
        let life = store.add_life(service, &key, at(60, before + after), Some(&identity), None).unwrap();
        for (sequence, minutes_ago) in [30, 20, 2].into_iter().enumerate() {
            let (wall_us, boottime_us) = at(minutes_ago, after);
            let samples = vec![(life, Sample { rss_bytes: 1 << 20, ..Sample::default() })];
            let (sequence, host_id) = (sequence as i64, Some(host));
            let tick = TickInput { sequence, wall_us, boottime_us, samples, host_id, ..TickInput::default() };
            store.write_tick(trial, &tick).unwrap();
        }
        let name: ServiceName = "a.service".parse().unwrap();
        let seen = watcher.observe(std::slice::from_ref(&name)).remove(&name).unwrap();
        assert!(seen.level.is_some());
        seen.last_reading_seconds
    }

    #[test]
    fn a_reading_is_as_old_as_it_is_whatever_clock_is_set_when() {
        for (before, after) in [(0, 0), (10, 0), (-10, 0), (0, 10), (0, -10)] {
            let seconds = seconds_ago(before, after, None).unwrap();
            assert!(
                (seconds - 120.0).abs() < 60.0,
                "set by {before} min before and {after} after: {seconds}"
            );
        }
        // A host that came up since has read nothing yet.
        assert_eq!(seconds_ago(0, 0, Some("another boot")), None);
    }
}
