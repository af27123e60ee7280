//! Hosts of one trial, each with a database, services and a clock of its own, and what they wrote.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use heaptrial_exchange::{GatheredPart, ImportError, PartFile, gather, host_of, pack};
use heaptrial_model::{Identity, KnownEvent, LifeKey, Linkage, Metric, Sample, TrialKind, TrialPlan};
use heaptrial_store::{NewService, NewTrial, PartTick, Store, TickInput};
use serde_json::json;

pub const START_US: i64 = 1_800_000_000_000_000;
pub const MINUTE_US: i64 = 60_000_000;

/// A host with services of names that other hosts have too, and its clock.
pub struct Host {
    pub name: String,
    pub database: PathBuf,
    pub services: Vec<String>,
    /// Row ids of the present lives.
    pub lives: Vec<i64>,
    pub boot: u32,
    /// Whether it tells the id of a boot that others tell too.
    pub shared_boot: bool,
    /// How often its services began.
    pub begun: u64,
    /// Ticks of the trial, and of the present boot.
    pub ticks: i64,
    pub of_boot: i64,
    /// Every reading that was written: by service its times since the start and RSS.
    pub truth: BTreeMap<String, Vec<(i64, u64)>>,
}

pub fn plan(hosts: &[(&str, usize)]) -> serde_json::Value {
    let services = hosts.iter().flat_map(|(host, count)| {
        (0..*count).map(move |index| {
            json!({ "service": format!("tor@{index}.service"), "host": host, "arm": arm(index), "block": index / 2,
                    "stratum": "relay" })
        })
    });
    json!({ "name": "fleet", "id": "0123456789abcdef", "tool_version": "", "seed": 7, "metric": "rss", "pace": {}, "arms": [], "builds": {},
            "duration": "1d", "looks": [], "services": services.collect::<Vec<_>>() })
}

pub fn arm(index: usize) -> &'static str {
    if index % 2 == 0 { "glibc" } else { "mimalloc@2.0.9" }
}

pub fn identity() -> Identity {
    Identity { family: "glibc".into(), linkage: Linkage::Libc, ..Identity::default() }
}

impl Host {
    pub fn new(folder: &Path, plan: &serde_json::Value, name: &str, count: usize) -> Self {
        let specs = ["glibc".parse().unwrap(), "mimalloc@2.0.9".parse().unwrap()];
        std::fs::create_dir_all(folder).unwrap();
        let host = Self {
            name: name.to_owned(),
            database: folder.join(format!("{name}.db")),
            services: (0..count).map(|index| format!("tor@{index}.service")).collect(),
            lives: Vec::new(),
            boot: 0,
            shared_boot: false,
            begun: 0,
            ticks: 0,
            of_boot: 0,
            truth: BTreeMap::new(),
        };
        let trial = NewTrial {
            name: "fleet".into(),
            kind: TrialKind::Field,
            boot_id: host.boot_id(),
            host_facts: json!({ "kernel": "6.1", "ram_bytes": 8_u64 << 30 }),
            metric: Metric::Rss,
            seed: 7,
            repeats: 1,
            planned_us: 86_400_000_000,
            arms: TrialPlan::from_specs("fleet", &specs).unwrap().arms,
            parameters: json!({ "plan": plan, "host": name, "started_boottime_us": 0 }),
            command: "heaptrial trial start fleet".into(),
            tool_version: String::new(),
            started_wall_us: START_US,
        };
        let services: Vec<NewService> = (0..count)
            .map(|index| NewService {
                name: host.services[index].clone(),
                arm: index % 2,
                block: (index / 2) as u32,
                position: index as u32,
                attributes: json!({ "stratum": "relay" }),
            })
            .collect();
        let mut store = Store::create(&host.database).unwrap();
        store.begin_field_trial(&trial, &[None, None], &services).unwrap();
        host
    }

    pub fn boot_id(&self) -> String {
        let machine = if self.shared_boot { "machine" } else { &self.name };
        format!("{machine}-{}", self.boot)
    }

    pub fn trial(&self) -> i64 {
        PartFile::open(&self.database).unwrap().trial(None).unwrap().id
    }

    /// New lives, in a new boot or in this one.
    pub fn restart(&mut self, reboot: bool) {
        let mut store = Store::create(&self.database).unwrap();
        let trial = self.trial();
        if reboot {
            (self.boot, self.of_boot) = (self.boot + 1, 0);
            store.add_event(trial, None, self.now_us(), KnownEvent::Reboot, "it booted").unwrap();
        }
        self.lives.clear();
        self.begun += 1;
        for service in store.services(trial).unwrap() {
            let key = LifeKey { boot_id: self.boot_id(), pid: service.id as i32, start_ticks: self.begun };
            let boottime_us = self.boottime_us();
            let life =
                store.add_life(service.id, &key, (self.now_us(), boottime_us), Some(&identity()), None);
            self.lives.push(life.unwrap());
        }
    }

    /// Agents of two hosts do not read in the same microsecond.
    fn boottime_us(&self) -> i64 {
        self.of_boot * MINUTE_US + i64::from(self.name.as_bytes()[0])
    }

    pub fn now_us(&self) -> i64 {
        START_US + self.ticks * MINUTE_US
    }

    pub fn tick(&mut self, ticks: i64) {
        if self.lives.is_empty() {
            self.restart(false);
        }
        let mut store = Store::create(&self.database).unwrap();
        let trial = self.trial();
        let host =
            store.add_host(&self.boot_id(), &json!({ "kernel": "6.1", "ram_bytes": 8_u64 << 30 })).unwrap();
        for _ in 0..ticks {
            (self.ticks, self.of_boot) = (self.ticks + 1, self.of_boot + 1);
            let sample = |(index, life): (usize, &i64)| {
                let rss_bytes =
                    ((self.ticks as u64) << 20) + (index as u64) * 4096 + self.name.len() as u64 * 40_960;
                (*life, Sample { rss_bytes, ..Sample::default() })
            };
            let samples: Vec<(i64, Sample)> = self.lives.iter().enumerate().map(sample).collect();
            for (service, (_, sample)) in self.services.iter().zip(&samples) {
                let name = format!("{}/{service}", self.name);
                let now_us = self.now_us();
                self.truth.entry(name).or_default().push((now_us, sample.rss_bytes));
            }
            let tick = TickInput {
                sequence: self.ticks - 1,
                wall_us: self.now_us(),
                boottime_us: self.boottime_us(),
                samples,
                host_id: Some(host),
                ..TickInput::default()
            };
            store.write_tick(trial, &tick).unwrap();
        }
    }

    /// Written there, and taken in.
    pub fn gather_into(&self, store: &mut Store, since: Option<PartTick>) -> GatheredPart {
        let folder = tempfile::tempdir().unwrap();
        let (file, packed) = (folder.path().join("part.db"), folder.path().join("packed"));
        let own = Store::open(&self.database).unwrap();
        let trial = PartFile::open(&self.database).unwrap().trial(None).unwrap();
        let host = host_of(&own, &self.database, &trial).unwrap();
        assert_eq!(host, self.name);
        own.write_part(self.trial(), &host, since, &file, self.now_us()).unwrap();
        pack(&file, &packed).unwrap();
        take(store, &packed, None, self.now_us()).unwrap()
    }
}

pub fn take(
    store: &mut Store,
    from: &Path,
    named: Option<&str>,
    now_us: i64,
) -> Result<GatheredPart, ImportError> {
    gather(store, PartFile::open(from)?, named, false, now_us)
}
