//! What the agent's samples tell a rollout's gates.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use heaptrial_analysis::{Fleet, FleetLife, FleetService, Forecast};
use heaptrial_host::Instant as Moment;
use heaptrial_model::ServiceName;
use heaptrial_report::{Options, read_fleet};
use heaptrial_rollout::{Before, Observed, Observer};
use heaptrial_stats::median;
use heaptrial_store::Store;

/// Readings older than this do not count: the agent reads once a minute.
const STALE_SECONDS: f64 = 300.0;
/// What goes on for long is told this often.
const TELL_EVERY: std::time::Duration = std::time::Duration::from_secs(30);
/// Without a forecast a level is the median over the last hour, or over half of a shorter life.
const WINDOW_SECONDS: f64 = 3600.0;
/// Work over less time says little: relays are asked every ten minutes.
const LEAST_WORK_SECONDS: f64 = 600.0;
/// Kind of the event that a service was proved to have its treatment.
const COMMITTED: &str = "treatment_committed";

/// Reads the host's database.
pub struct Watcher {
    pub database: PathBuf,
    pub rollout: String,
    pub forecast: Option<Forecast>,
    told: Option<Instant>,
}

impl Watcher {
    /// Of a rollout that is recorded in a database.
    pub fn new(database: PathBuf, rollout: &str, forecast: Option<Forecast>) -> Self {
        Self { database, rollout: rollout.to_owned(), forecast, told: None }
    }

    fn fleet(&self) -> Option<Fleet> {
        let store = Store::open(&self.database).ok()?;
        let row = store.running_trials().ok()?.into_iter().rfind(|row| row.plan.name == self.rollout)?;
        read_fleet(&store, row.id, &Options::default()).ok()
    }

    fn observed(&self, fleet: &Fleet, index: usize) -> Observed {
        let service = &fleet.services[index];
        let own = || fleet.events.iter().filter(move |event| event.service == Some(index));
        let since = own().filter(|event| event.kind == COMMITTED).map(|event| event.at).fold(0.0, f64::max);
        let told = |kind: &str| -> Vec<String> {
            let later = own().filter(|event| event.kind == kind && event.at >= since);
            later.map(|event| event.text.clone()).collect()
        };
        let life = service.current().filter(|life| life.contamination.is_none() && life.proved);
        Observed {
            level: life.and_then(|life| self.level(life)),
            last_reading_seconds: life.and_then(|life| {
                let at = life.started_at + life.last_age()?;
                Some(Moment::now().wall_us as f64 / 1e6 - at)
            }),
            crashes: told("crash"),
            oom_kills: told("oom_kill"),
            work_bytes_per_second: life.and_then(work),
            flags: life.and_then(flags),
        }
    }

    fn level(&self, life: &FleetLife) -> Option<(f64, f64)> {
        let age = life.last_age()?;
        let bytes = match &self.forecast {
            Some(forecast) => forecast.level_of(life, age),
            None => last_level(life),
        };
        Some((bytes?, age))
    }
}

impl Observer for Watcher {
    fn observe(&mut self, services: &[ServiceName]) -> BTreeMap<ServiceName, Observed> {
        let Some(fleet) = self.fleet() else { return BTreeMap::new() };
        let position =
            |name: &ServiceName| fleet.services.iter().position(|found| found.name == name.as_str());
        services
            .iter()
            .filter_map(|name| Some((name.clone(), self.observed(&fleet, position(name)?))))
            .collect()
    }

    fn stale_seconds(&self) -> f64 {
        STALE_SECONDS
    }

    fn told(&mut self, text: &str) {
        self.told = None;
        eprintln!("{text}");
    }

    fn waiting(&mut self, text: &str) {
        if self.told.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
            self.told = Some(Instant::now());
            eprintln!("{text}");
        }
    }
}

/// What a trial's readings tell of a service before a rollout.
pub fn before(service: &FleetService) -> Before {
    let Some(life) = service.current() else { return Before::default() };
    Before {
        bytes: last_level(life),
        work_bytes_per_second: work(life),
        flags: flags(life).unwrap_or_default(),
    }
}

fn last_level(life: &FleetLife) -> Option<f64> {
    let age = life.last_age()?;
    let from = age - WINDOW_SECONDS.min(age / 2.0);
    let window = life.readings.iter().filter(|reading| f64::from(reading.age_seconds) >= from);
    let bytes: Vec<f64> = window.map(|reading| f64::from(reading.kib) * 1024.0).collect();
    median(&bytes)
}

fn work(life: &FleetLife) -> Option<f64> {
    let (first, last) = (life.work.bytes.first()?, life.work.bytes.last()?);
    let seconds = f64::from(last.0 - first.0);
    (seconds >= LEAST_WORK_SECONDS).then(|| (last.1 - first.1).max(0.0) / seconds)
}

fn flags(life: &FleetLife) -> Option<Vec<String>> {
    if life.work.flags.is_empty() {
        return None;
    }
    let has = life.work.flags.iter().filter(|flag| flag.changes.last().is_some_and(|change| change.1));
    Some(has.map(|flag| flag.name.clone()).collect())
}
