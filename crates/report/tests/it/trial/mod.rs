//! A synthetic field trial, written through the store as a start and the agent write it.
#![allow(dead_code, reason = "shared by several tests, each of which uses a part")]

use std::path::Path;

use heaptrial_model::{
    Arm, Identity, KnownEvent, LifeKey, Linkage, Metric, Sample, SlowSample, Treatment, TrialKind, Version,
};
use heaptrial_store::{NewService, NewTrial, Store, TickInput};
use serde_json::json;

pub const GIB: f64 = 1_073_741_824.0;
/// 2026-01-02 03:04:05 UTC.
pub const START_US: i64 = 1_767_323_045_000_000;
pub const HOUR_US: i64 = 3_600_000_000;
pub const DAY_US: i64 = 24 * HOUR_US;
/// From one service's restart to the next.
const PACE_US: i64 = 60_000_000;
/// Boot clock at the start of the trial.
const BOOTTIME_US: i64 = 5_000_000_000;

/// An arm, and what its services do.
#[derive(Debug, Clone, Default)]
pub struct FieldArm {
    pub name: &'static str,
    pub allocator: Option<&'static str>,
    pub torrc: Option<(&'static str, &'static str)>,
    pub restart_hours: Option<i64>,
    pub level_gib: f64,
    pub growth_gib_per_day: f64,
    /// Read and written in 10^6 bytes a second; 0 has no readings of work.
    pub work_mb_per_second: f64,
    /// Services that have the Guard flag after a day.
    pub guards: usize,
    /// Services that crash.
    pub crashing: usize,
    /// Bytes that the own out-of-memory handler of its first service frees.
    pub oom_bytes: f64,
    /// Processes that share each page of its services; of 0 no proportional sums are read.
    pub sharing: u64,
    /// The share of its memory that is in swap at the end.
    pub swapped: f64,
    /// Services that run the control's allocator in place of the arm's.
    pub contaminated: usize,
}

/// A trial with one service of each arm in each block.
#[derive(Debug, Clone)]
pub struct FieldTrial {
    pub kind: TrialKind,
    pub start_us: i64,
    pub blocks: usize,
    /// Until when there are data, in hours.
    pub hours: i64,
    pub looks: &'static str,
    pub outcome: Option<&'static str>,
    pub memory_max_bytes: Option<u64>,
    pub arms: Vec<FieldArm>,
    /// The first so many services have an arm that somebody wrote.
    pub by_hand: usize,
    /// Name of a service, and its nickname and fingerprint.
    pub named: fn(usize) -> (String, Option<[String; 2]>),
}

/// A control, two allocators (the first with a contaminated service), and an arm that saves memory by doing less.
pub fn four_arms(hours: i64) -> FieldTrial {
    let glibc = FieldArm {
        name: "glibc",
        level_gib: 4.0,
        growth_gib_per_day: 0.02,
        work_mb_per_second: 1.2,
        guards: 5,
        ..FieldArm::default()
    };
    let mimalloc = FieldArm {
        name: "mimalloc-2.0.9",
        allocator: Some("mimalloc@2.0.9"),
        level_gib: 1.05,
        growth_gib_per_day: 0.0003,
        contaminated: 1,
        ..glibc.clone()
    };
    let jemalloc = FieldArm {
        name: "jemalloc",
        allocator: Some("jemalloc@5.3.0"),
        level_gib: 1.8,
        growth_gib_per_day: 0.001,
        contaminated: 0,
        ..mimalloc.clone()
    };
    let dircache = FieldArm {
        name: "dircache-0",
        torrc: Some(("DirCache", "0")),
        level_gib: 0.5,
        growth_gib_per_day: 0.0001,
        work_mb_per_second: 0.2,
        guards: 0,
        crashing: 4,
        oom_bytes: 3.0e8,
        ..glibc.clone()
    };
    FieldTrial {
        kind: TrialKind::Field,
        start_us: START_US,
        blocks: 8,
        hours,
        looks: "1d 3d 6d 10d",
        outcome: None,
        memory_max_bytes: Some((12.0 * GIB) as u64),
        arms: vec![glibc, mimalloc, jemalloc, dircache],
        by_hand: 0,
        named: |service| (format!("tor@relay{service:02}.service"), None),
    }
}

/// A number in 0..1 that looks random and is always the same.
fn noise(a: usize, b: usize) -> f64 {
    let mut x = (b as u32).wrapping_add(7) ^ (a as u32 + 1).wrapping_mul(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    f64::from(x ^ (x >> 16)) / f64::from(u32::MAX)
}

/// One life of a service as it goes.
struct Life {
    id: i64,
    arm: FieldArm,
    service: usize,
    block: usize,
    /// Hours since the trial's start.
    from: i64,
    until: i64,
    started_us: i64,
    guard: bool,
    oom_bytes: f64,
}

impl Life {
    fn sample(&self, age_seconds: f64) -> Sample {
        let days = age_seconds / 86_400.0;
        // Blocks are what they are made for: unlike each other.
        let own = (1.0 + 0.3 * self.block as f64) * (1.0 + 0.06 * (noise(self.service, 0) - 0.5));
        let rise = 1.0 - 0.6 * (-days / 0.3).exp();
        let wave = 1.0 + 0.01 * (noise(self.service, (days * 24.0) as usize + 1) - 0.5);
        let gib = own * wave * (self.arm.level_gib * rise + self.arm.growth_gib_per_day * days);
        let all_bytes = (gib * GIB / 1024.0) as u64 * 1024;
        let swap_bytes = (self.arm.swapped * all_bytes as f64) as u64;
        let rss_bytes = all_bytes - swap_bytes;
        Sample {
            rss_bytes,
            swap_bytes,
            anon_bytes: rss_bytes * 9 / 10,
            file_bytes: rss_bytes / 10,
            vsize_bytes: 2 * rss_bytes,
            hwm_bytes: rss_bytes,
            cpu_us: (age_seconds * 2e4) as u64,
            threads: 5,
            processes: 1,
            ..Sample::default()
        }
    }

    fn slow_sample(&self, age_seconds: f64) -> Option<(i64, SlowSample)> {
        let pss_bytes = self.sample(age_seconds).rss_bytes.checked_div(self.arm.sharing)?;
        Some((self.id, SlowSample { pss_bytes, ..SlowSample::default() }))
    }

    fn observations(&self, age_seconds: f64) -> Vec<(i64, &'static str, f64)> {
        let rate = self.arm.work_mb_per_second * 1e6 * (1.0 + 0.1 * (noise(self.service, 99) - 0.5));
        if rate <= 0.0 {
            return Vec::new();
        }
        let known = age_seconds >= 3600.0;
        let mut found = vec![
            (self.id, "tor_read_bytes", rate * age_seconds / 2.0),
            (self.id, "tor_written_bytes", rate * age_seconds / 2.0),
            (self.id, "tor_connections", (rate / 1000.0).round()),
            (self.id, "tor_oom_bytes", if age_seconds > 86_400.0 { self.oom_bytes } else { 0.0 }),
        ];
        if known {
            found.push((
                self.id,
                "tor_flag_guard",
                f64::from(u8::from(self.guard && age_seconds > 86_400.0)),
            ));
            found.push((self.id, "tor_flag_fast", 1.0));
        }
        found
    }
}

pub fn identity(family: &str, version: &str) -> Identity {
    Identity {
        family: family.to_owned(),
        version: Some(Version::new(version)),
        version_range: None,
        path: Some(format!("/usr/lib/heaptrial/allocators/lib{family}.so").into()),
        build_id: None,
        sha256: None,
        linkage: if family == "glibc" { Linkage::Libc } else { Linkage::Preloaded },
        settings: Default::default(),
        evidence: Vec::new(),
        ..Identity::default()
    }
}

fn runs(arm: &FieldArm) -> Identity {
    let (family, version) = arm.allocator.unwrap_or("glibc@2.36").split_once('@').unwrap();
    identity(family, version)
}

impl FieldTrial {
    fn plan(&self) -> NewTrial {
        let arm = |(index, arm): (usize, &FieldArm)| Arm {
            name: arm.name.to_owned(),
            control: index == 0,
            treatment: Treatment {
                allocator: arm.allocator.map(|spec| spec.parse().unwrap()),
                torrc: arm
                    .torrc
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                restart_every: arm.restart_hours.map(|hours| format!("{hours}h").parse().unwrap()),
                ..Treatment::default()
            },
        };
        let arms: Vec<Arm> = self.arms.iter().enumerate().map(arm).collect();
        let looks: Vec<&str> = self.looks.split_whitespace().collect();
        let parameters = if self.kind == TrialKind::Field {
            json!({"plan": {
                "name": "five-way", "id": "0123456789abcdef", "tool_version": "0.1.0", "seed": 7, "metric": "rss",
                "duration": looks.last(), "looks": looks, "pace": {"at_once": 1, "pause": "1m"}, "arms": arms,
                "builds": {}, "services": []
            }})
        } else {
            json!({})
        };
        NewTrial {
            name: "five-way".to_owned(),
            kind: self.kind,
            boot_id: "boot".to_owned(),
            host_facts: json!({"ram_bytes": 429_496_729_600_u64, "kernel": "6.1.0-28-amd64", "cpu_count": 32}),
            metric: Metric::Rss,
            seed: 7,
            repeats: 1,
            planned_us: if self.kind == TrialKind::Field { 10 * DAY_US } else { 0 },
            arms,
            parameters,
            command: "heaptrial trial start five-way".to_owned(),
            tool_version: "0.1.0".to_owned(),
            started_wall_us: self.start_us,
        }
    }

    /// Writes it into a new database; gives its row id.
    pub fn write(&self, path: &Path) -> i64 {
        let mut store = Store::create(path).unwrap();
        let of = |service: usize| (service % self.arms.len(), service / self.arms.len());
        let services: Vec<NewService> = (0..self.blocks * self.arms.len())
            .map(|service| {
                let (name, relay) = (self.named)(service);
                let of_relay = |index: usize| relay.as_ref().map(|texts| texts[index].clone());
                let attributes = json!({
                    "memory_max_bytes": self.memory_max_bytes, "nickname": of_relay(0), "fingerprint": of_relay(1),
                    "assigned_by_hand": service < self.by_hand,
                });
                let (arm, block) = of(service);
                NewService { name, arm, block: block as u32, position: service as u32, attributes }
            })
            .collect();
        let trial_id = store.begin_field_trial(&self.plan(), &[], &services).unwrap();
        let ids: Vec<i64> = store.services(trial_id).unwrap().iter().map(|service| service.id).collect();
        let mut lives = Vec::new();
        for (service, id) in ids.iter().enumerate() {
            let (arm_index, block) = of(service);
            let assigned = &self.arms[arm_index];
            let contaminated = block < assigned.contaminated;
            let arm = if contaminated { &self.arms[0] } else { assigned };
            let every = assigned.restart_hours.unwrap_or(i64::MAX / 2);
            for from in (0..self.hours).step_by(every.min(self.hours).max(1) as usize) {
                let offset = from * HOUR_US + service as i64 * PACE_US;
                let key = LifeKey {
                    boot_id: "boot".to_owned(),
                    pid: 1000 + service as i32,
                    start_ticks: (offset / 10_000) as u64,
                };
                let started_us = self.start_us + offset;
                let why = contaminated.then_some("glibc 2.36 in place of mimalloc 2.0.9");
                let proved = runs(arm);
                let started = (started_us, BOOTTIME_US + offset);
                let life = store.add_life(*id, &key, started, Some(&proved), why).unwrap();
                if from > 0 {
                    store
                        .add_event(trial_id, Some(*id), started_us, KnownEvent::RestartPlanned, "its timer")
                        .unwrap();
                }
                lives.push(Life {
                    id: life,
                    arm: arm.clone(),
                    service,
                    block,
                    from,
                    until: (from + every).min(self.hours),
                    started_us,
                    guard: block < assigned.guards,
                    oom_bytes: if block == 0 { assigned.oom_bytes } else { 0.0 },
                });
            }
            if block < assigned.crashing {
                store
                    .add_event(trial_id, Some(*id), self.start_us + HOUR_US, KnownEvent::Crash, "SIGSEGV")
                    .unwrap();
            }
        }
        for hour in 1..=self.hours {
            let offset = hour * HOUR_US;
            let now = self.start_us + offset;
            let alive = || lives.iter().filter(|life| life.from < hour && hour <= life.until);
            let age = |life: &Life| (now - life.started_us) as f64 / 1e6;
            let alive = || alive().filter(|life| age(life) > 0.0);
            let tick = TickInput {
                sequence: hour,
                wall_us: now,
                boottime_us: BOOTTIME_US + offset,
                cost_wall_us: 4_000,
                cost_cpu_us: 3_000,
                samples: alive().map(|life| (life.id, life.sample(age(life)))).collect(),
                slow_samples: alive().filter_map(|life| life.slow_sample(age(life))).collect(),
                observations: alive().flat_map(|life| life.observations(age(life))).collect(),
                ..TickInput::default()
            };
            store.write_tick(trial_id, &tick).unwrap();
        }
        if let Some(outcome) = self.outcome {
            store.end_trial(trial_id, self.start_us + self.hours * HOUR_US, outcome).unwrap();
        }
        trial_id
    }
}
