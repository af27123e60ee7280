//! What the agent's samples tell a rollout's gates.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use heaptrial_analysis::Worked;
use heaptrial_analysis::{Fleet, FleetLife, Forecast};
use heaptrial_change::Prepared;
use heaptrial_host::Instant as Moment;
use heaptrial_judgement::{LifeFigures, Options, read_fleet};
use heaptrial_model::{KnownEvent, ServiceName};
use heaptrial_rollout::{Observed, Observer};
use heaptrial_store::Store;

use crate::commands::trial::in_database;

/// Readings older than this do not count: the agent reads once a minute.
const STALE_SECONDS: f64 = 300.0;
/// What goes on for long is told this often.
const TELL_EVERY: std::time::Duration = std::time::Duration::from_secs(30);

/// Reads the host's database.
pub struct Watcher {
    pub database: PathBuf,
    pub prepared: Prepared,
    pub forecast: Option<Forecast>,
    told: Option<Instant>,
}

impl Watcher {
    /// Of a rollout that is recorded in a database.
    pub fn new(database: PathBuf, prepared: &Prepared, forecast: Option<Forecast>) -> Self {
        Self { database, prepared: prepared.clone(), forecast, told: None }
    }

    /// What is recorded, and up to when, in microseconds since 1970: of a rollout that is complete nothing is read any more.
    fn fleet(&self) -> Option<(Fleet, i64)> {
        let store = Store::open(&self.database).ok()?;
        let row = in_database::recorded(&store, &self.prepared).ok()??;
        let until = row.ended_wall_us.unwrap_or_else(|| Moment::now().wall_us);
        Some((read_fleet(&store, row.id, &Options::default()).ok()?, until))
    }

    fn observed(&self, (fleet, until_us): &(Fleet, i64), index: usize) -> Observed {
        let service = &fleet.services[index];
        let own = || fleet.events.iter().filter(move |event| event.service == Some(index));
        let since = own()
            .filter(|event| event.kind == KnownEvent::TreatmentCommitted)
            .map(|event| event.at)
            .fold(0.0, f64::max);
        let told = |kind: KnownEvent| -> Vec<String> {
            let later = own().filter(|event| event.kind == kind && event.at >= since);
            later.map(|event| event.text.clone()).collect()
        };
        let life = service.current().filter(|life| life.contamination.is_none() && life.proved);
        Observed {
            level: life.and_then(|life| self.level(life)),
            last_reading_seconds: life.and_then(|life| {
                let at = life.started_at + life.last_age()?;
                Some(*until_us as f64 / 1e6 - at)
            }),
            crashes: told(KnownEvent::Crash),
            oom_kills: told(KnownEvent::OomKill),
            work: life.and_then(Worked::of_life),
            flags: life.and_then(LifeFigures::flags),
        }
    }

    fn level(&self, life: &FleetLife) -> Option<(f64, f64)> {
        let age = life.last_age()?;
        let bytes = match &self.forecast {
            Some(forecast) => forecast.level_of(life, age),
            None => life.last_level(),
        };
        Some((bytes?, age))
    }
}

impl Observer for Watcher {
    fn observe(&mut self, services: &[ServiceName]) -> BTreeMap<ServiceName, Observed> {
        let Some(known) = self.fleet() else { return BTreeMap::new() };
        let position =
            |name: &ServiceName| known.0.services.iter().position(|found| found.name == name.as_str());
        services
            .iter()
            .filter_map(|name| Some((name.clone(), self.observed(&known, position(name)?))))
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
