//! An agent on a database of its own, for tests; systemd may be there or not.

use heaptrial_host::Instant;
use heaptrial_model::{LifeKey, ServiceName, TrialKind};
use heaptrial_store::{EventRecord, LifeRecord, NewService, TickInput};

use crate::Config;
use crate::agent::Agent;
use crate::watched::Main;

pub(crate) const UNIT: &str = "heaptrial-test-of-lives.service";
pub(crate) const HOUR_US: i64 = 3_600_000_000;

/// The agent, and the folder that it needs.
pub(crate) struct Fixture {
    pub(crate) agent: Agent,
    _folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("state/test.db");
        let agent = Agent::new(Config::new(database, folder.path().join("trials"))).unwrap();
        Self { agent, _folder: folder }
    }

    /// Begins a trial with the one service; gives the row ids of both.
    pub(crate) fn begin(&mut self, kind: TrialKind, start: Instant) -> (i64, i64) {
        let trial = self.agent.untreated_trial(&kind.to_string(), kind, start);
        let (name, attributes) = (UNIT.to_owned(), serde_json::Value::Null);
        let service = NewService { name, arm: 0, block: 0, position: 0, attributes };
        let store = &mut self.agent.ledger.store;
        let trial = store.begin_field_trial(&trial, &[None], &[service]).unwrap();
        (trial, store.services(trial).unwrap()[0].id)
    }

    /// Ends the agent and starts another one on the same database; the clock stays as it was set.
    pub(crate) fn restart_agent(&mut self) {
        let (config, clock) = (self.agent.config.clone(), std::mem::take(&mut self.agent.clock));
        let place = self.agent.config.database.with_extension("away");
        let away = Agent::new(Config::new(place, Default::default())).unwrap();
        drop(std::mem::replace(&mut self.agent, away));
        self.agent = Agent::new(config).unwrap();
        self.agent.clock = clock;
    }

    /// A tick of another boot, so many milliseconds ago by the wall clock.
    pub(crate) fn tick_of_other_boot(&mut self, trial: i64, boot_id: &str, ago_ms: i64) {
        let store = &mut self.agent.ledger.store;
        let host_id = store.add_host(boot_id, &serde_json::json!({})).unwrap();
        let wall_us = Instant::now().wall_us - ago_ms * 1000;
        let tick = TickInput { wall_us, boottime_us: 7, host_id: Some(host_id), ..TickInput::default() };
        store.write_tick(trial, &tick).unwrap();
    }

    /// A life of this boot that the agent saw before it was restarted.
    pub(crate) fn earlier_life(&mut self, service: i64, started: Instant) {
        let key = LifeKey { boot_id: self.agent.boot_id.clone(), pid: 1, start_ticks: 1 };
        let started = (started.wall_us, started.boottime_us);
        self.agent.ledger.store.add_life(service, &key, started, None, None).unwrap();
    }

    /// Has this process be found as the main process, as if it had begun then.
    pub(crate) fn find_main(&mut self, started: Instant) {
        let name: ServiceName = UNIT.parse().unwrap();
        let pid = std::process::id() as i32;
        let mut main = Main::open(&self.agent.root, pid, "", Instant::now()).unwrap();
        main.started = started;
        self.agent.watched.get_mut(&name).unwrap().main = Some(main);
        self.agent.enter_lives(&name);
    }

    pub(crate) fn lives(&self, trial: i64) -> Vec<LifeRecord> {
        self.agent.ledger.store.lives(trial).unwrap()
    }

    pub(crate) fn events(&self, trial: i64) -> Vec<EventRecord> {
        self.agent.ledger.store.events(trial).unwrap()
    }
}

/// So many hours before now, on both clocks.
pub(crate) fn hours_ago(hours: i64) -> Instant {
    let now = Instant::now();
    Instant { wall_us: now.wall_us - hours * HOUR_US, boottime_us: now.boottime_us - hours * HOUR_US }
}
