//! A trial over two hosts as their agents would have it.

use std::path::{Path, PathBuf};

use heaptrial_host::{HostFacts, HostRoot};
use heaptrial_model::{Identity, LifeKey, Linkage, Metric, Sample, TrialKind, TrialPlan};
use heaptrial_store::{NewService, NewTrial, Store, TickInput};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::{heaptrial, succeeds};

pub const S: i64 = 1_000_000;
/// 2026-10-01, in seconds since 1970.
pub const START: i64 = 1_790_812_800;
pub const HOURS: i64 = 48;
pub const SERVICES: usize = 12;
pub const ARMS: [&str; 2] = ["glibc", "mimalloc@2.0.9"];
pub const HOSTS: [&str; 2] = ["alpha", "beta"];

/// Everything that was drawn.
#[derive(Debug, Default)]
pub struct World {
    /// Databases of the hosts.
    pub databases: Vec<PathBuf>,
}

fn service(index: usize) -> String {
    format!("tor@{index:02}.service")
}

fn identity(family: &str) -> Identity {
    Identity {
        family: family.into(),
        version: None,
        version_range: None,
        path: None,
        build_id: None,
        sha256: Some("00".repeat(32)),
        linkage: Linkage::Preloaded,
        settings: Default::default(),
        evidence: vec![],
        ..Identity::default()
    }
}

fn plan() -> Value {
    let services = HOSTS.iter().flat_map(|host| {
        (0..SERVICES).map(move |index| {
            json!({ "service": service(index), "host": host, "arm": ARMS[index % 2], "block": index / 4, "stratum": "relay" })
        })
    });
    json!({ "name": "fleet", "id": "0123456789abcdef", "tool_version": "", "seed": 7, "metric": "rss", "pace": {}, "arms": [], "builds": {},
            "duration": "2d", "looks": [], "services": services.collect::<Vec<_>>() })
}

/// Those of this machine stand for those of every host.
fn facts() -> Value {
    serde_json::to_value(HostFacts::read(&HostRoot::default()).unwrap()).unwrap()
}

fn begin(path: &Path, host: &str, started_us: i64) -> (Store, i64) {
    let specs = ARMS.map(|arm| arm.parse().unwrap());
    let trial = NewTrial {
        name: "fleet".into(),
        kind: TrialKind::Field,
        boot_id: format!("{host}-0"),
        host_facts: facts(),
        metric: Metric::Anon,
        seed: 7,
        repeats: 1,
        planned_us: HOURS * 3600 * S,
        arms: TrialPlan::from_specs("fleet", &specs).unwrap().arms,
        parameters: json!({ "plan": plan(), "host": host, "started_boottime_us": 0 }),
        command: "heaptrial trial start fleet".into(),
        tool_version: "0.1.0".into(),
        started_wall_us: started_us,
    };
    let services: Vec<NewService> = (0..SERVICES)
        .map(|index| NewService {
            name: service(index),
            arm: index % 2,
            block: index as u32 / 4,
            position: index as u32,
            attributes: Value::Null,
        })
        .collect();
    let mut store = Store::create(path).unwrap();
    let id = store.begin_field_trial(&trial, &[None, None], &services).unwrap();
    (store, id)
}

impl World {
    pub fn draw(folder: &Path, seed: u64) -> Self {
        let mut world = Self::default();
        for host in HOSTS {
            world.draw_host(folder, host, &mut StdRng::seed_from_u64(seed * 10 + host.len() as u64));
        }
        world
    }

    fn draw_host(&mut self, folder: &Path, host: &str, rng: &mut StdRng) {
        let path = folder.join(format!("{host}.db"));
        let (mut store, trial) = begin(&path, host, START * S);
        let host_row = store.add_host(&format!("{host}-0"), &facts()).unwrap();
        let services = store.services(trial).unwrap();
        let mut lives: Vec<(i64, i64)> = Vec::new();
        for minute in 0..HOURS * 60 {
            let boottime_us = (minute * 60 + 7) * S;
            if minute % (24 * 60) == 0 {
                // All are restarted as the trial begins, and again after a day.
                lives.clear();
                for (index, service) in services.iter().enumerate() {
                    let key = LifeKey {
                        boot_id: format!("{host}-0"),
                        pid: index as i32 + 9,
                        start_ticks: minute as u64,
                    };
                    let arm = ARMS[index % 2].split('@').next().unwrap();
                    let started = (START * S + boottime_us, boottime_us);
                    let life = store.add_life(service.id, &key, started, Some(&identity(arm)), None).unwrap();
                    lives.push((life, boottime_us));
                }
            }
            let mut sample = |index: usize| {
                let (life, started_us) = lives[index];
                let days = (boottime_us - started_us) as f64 / 86_400e6;
                let level = if index % 2 == 0 { 600.0 } else { 150.0 } * (1.0 + 0.02 * index as f64);
                let settled = 1.0 - 0.6 * (-days / 0.1).exp();
                let mib = (level * settled + 20.0 * days) * rng.random_range(0.98..1.02);
                let anon_bytes = (mib * 256.0) as u64 * 4096;
                let sample = Sample {
                    rss_bytes: anon_bytes + (28 << 20),
                    anon_bytes,
                    // The second arm takes a tenth more of a processor.
                    cpu_us: (days * 86_400e6 * [0.050, 0.055][index % 2]) as u64,
                    ..Sample::default()
                };
                (life, sample)
            };
            let tick = TickInput {
                sequence: minute,
                wall_us: START * S + boottime_us,
                boottime_us,
                samples: (0..SERVICES).map(&mut sample).collect(),
                host_id: Some(host_row),
                ..TickInput::default()
            };
            store.write_tick(trial, &tick).unwrap();
        }
        self.databases.push(path);
    }

    /// Gathers into a database.
    pub fn gather(&self, folder: &Path, name: &str) -> PathBuf {
        for database in &self.databases {
            let part = folder.join("part.db");
            let part = part.to_str().unwrap();
            let export = ["export", database.to_str().unwrap(), "--format", "heaptrial", "-o", part];
            succeeds(&heaptrial(folder).args(export).output().unwrap());
            succeeds(&heaptrial(folder).args(["--db", name, "import", "heaptrial", part]).output().unwrap());
        }
        folder.join(name)
    }
}
