//! A trial over two hosts as their agents would have it.
//!
//! Histories are drawn: services that restart and are down for a while, a host that boots, an agent that is away, clocks that are an
//! hour off and are set back.

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
        libraries: vec![],
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

/// A service while its host goes on.
struct Running {
    row: i64,
    life: i64,
    /// True time.
    started: f64,
    next_restart: f64,
    down_until: f64,
    lives: u64,
}

/// How the clock of a host goes: seconds ahead of the time.
fn ahead(host: &str, at: f64) -> f64 {
    match (host, at < (START + 20 * 3600) as f64) {
        ("beta", true) => 3600.0,
        ("beta", false) => -20.0,
        _ => 0.4,
    }
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
        let wall_us = |at: f64| ((at + ahead(host, at)) * 1e6) as i64;
        let start = START as f64;
        let (mut store, trial) = begin(&path, host, wall_us(start));
        let mut boot = (0, start - 500_000.0);
        let mut host_row = store.add_host(&format!("{host}-0"), &facts()).unwrap();
        let mut running: Vec<Running> = store
            .services(trial)
            .unwrap()
            .iter()
            .enumerate()
            .map(|(index, service)| Running {
                row: service.id,
                life: 0,
                started: 0.0,
                // One after the other, as a start of a trial restarts them.
                next_restart: start + 90.0 * index as f64 + rng.random_range(0.0..20.0),
                down_until: 0.0,
                lives: 0,
            })
            .collect();
        let mut agent_away = 0.0..0.0;
        let reboot = if host == "beta" { start + 26.0 * 3600.0 } else { f64::INFINITY };
        let mut sequence = 0;
        for minute in 0..HOURS * 60 {
            let at = start + minute as f64 * 60.0 + 7.0;
            if boot.0 == 0 && at > reboot {
                boot = (1, reboot + 30.0);
                host_row = store.add_host(&format!("{host}-1"), &facts()).unwrap();
                agent_away = at..at + 150.0;
                for service in &mut running {
                    service.life = 0;
                    service.next_restart = reboot + 60.0 + rng.random_range(0.0..200.0);
                }
            }
            if rng.random_bool(0.0003) {
                agent_away = at..at + rng.random_range(200.0..5000.0);
            }
            for (index, service) in
                running.iter_mut().enumerate().filter(|(_, service)| service.next_restart <= at)
            {
                let began = service.next_restart;
                service.lives += 1;
                service.started = began;
                let key = LifeKey {
                    boot_id: format!("{host}-{}", boot.0),
                    pid: index as i32 + 9,
                    start_ticks: service.lives,
                };
                let boottime_us = ((began - boot.1) * 1e6) as i64;
                let arm = ARMS[index % 2].split('@').next().unwrap();
                let started = (wall_us(began), boottime_us);
                service.life =
                    store.add_life(service.row, &key, started, Some(&identity(arm)), None).unwrap();
                service.down_until = began;
                service.next_restart = match index % 5 {
                    // Some are restarted all the time, most never.
                    0 => began + rng.random_range(100.0..30_000.0),
                    1 => began + rng.random_range(40_000.0..200_000.0),
                    _ => f64::INFINITY,
                };
            }
            if agent_away.contains(&at) {
                continue;
            }
            let boottime_us = ((at - boot.1) * 1e6) as i64;
            let mut read: Vec<(usize, Sample)> = Vec::new();
            for (index, service) in running.iter_mut().enumerate() {
                // It is down for a while before its next start.
                let down = service.next_restart - at < 70.0 && index == 0;
                if service.life == 0 || down {
                    continue;
                }
                let days = (at - service.started) / 86_400.0;
                let level = if index % 2 == 0 { 600.0 } else { 150.0 } * (1.0 + 0.02 * index as f64);
                let settled = 1.0 - 0.6 * (-days / 0.1).exp();
                let burst = if rng.random_bool(0.002) { 1.4 } else { 1.0 };
                let mib = (level * settled + 20.0 * days) * rng.random_range(0.98..1.02) * burst;
                let anon_bytes = (mib * 256.0) as u64 * 4096;
                let swap_bytes = if days > 0.4 { (index as u64) << 20 } else { 0 };
                read.push((
                    index,
                    Sample {
                        rss_bytes: anon_bytes + (28 << 20),
                        anon_bytes,
                        swap_bytes,
                        // The second arm takes a tenth more of a processor.
                        cpu_us: (days * 86_400e6 * [0.050, 0.055][index % 2]) as u64,
                        ..Sample::default()
                    },
                ));
            }
            let tick = TickInput {
                sequence,
                wall_us: wall_us(at),
                boottime_us,
                samples: read.iter().map(|(index, sample)| (running[*index].life, *sample)).collect(),
                host_id: Some(host_row),
                ..TickInput::default()
            };
            store.write_tick(trial, &tick).unwrap();
            sequence += 1;
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
