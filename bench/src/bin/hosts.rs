//! Databases of hosts of one trial, as their agents write them: one tick a minute, older ones rolled up.
//!
//! `cargo run --release -p heaptrial-bench --bin hosts -- FOLDER HOSTS SERVICES DAYS` writes FOLDER/hostN.db; the first is
//! continued up to DAYS if it is there, and the others are its copies under their own names: what they cost is the same.
//! `bench/gather.py` measures with them.

use std::path::Path;

use heaptrial_model::{AllocatorSpec, Identity, LifeKey, Linkage, Metric, Sample, TrialKind, TrialPlan};
use heaptrial_store::{NewService, NewTrial, RollupHorizon, Store, TickInput};
use serde_json::{Value, json};

const MINUTE_US: i64 = 60_000_000;
const DAY_US: i64 = 1440 * MINUTE_US;
const START_US: i64 = 1_767_323_045_000_000;
/// As the agent has it.
const RAW_DAYS: i64 = 14;
const ROLLUP_SAMPLES: u64 = 3000;
/// Allocator, MiB after the start, MiB a day.
const ARMS: [(&str, f64, f64); 5] = [
    ("glibc", 600.0, 4.0),
    ("jemalloc@5.3.0", 270.0, 0.1),
    ("mimalloc@2.0.9", 125.0, 0.2),
    ("mimalloc@2.1.7", 175.0, 3.0),
    ("mimalloc@3.0.1", 150.0, 30.0),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, hosts, services, days] = &arguments[..] else {
        return Err("usage: hosts FOLDER HOSTS SERVICES DAYS".into());
    };
    let (hosts, services, days): (usize, usize, i64) = (hosts.parse()?, services.parse()?, days.parse()?);
    let path = |host: usize| Path::new(folder).join(format!("host{host}.db"));
    write(&path(0), &plan(hosts, services), services, days)?;
    for host in 1..hosts {
        std::fs::copy(path(0), path(host))?;
        rename(&path(host), host)?;
    }
    Ok(())
}

/// Gives a copy of the first host's database the name of another.
fn rename(path: &Path, host: usize) -> rusqlite::Result<()> {
    let connection = rusqlite::Connection::open(path)?;
    let own = ("\"host\":\"host0\",\"plan\"", format!("\"host\":\"host{host}\",\"plan\""));
    connection.execute("UPDATE trial SET parameters_json = replace(parameters_json, ?1, ?2)", own)?;
    let boot = ("boot-0", format!("boot-{host}"));
    connection.execute("UPDATE life SET boot_id = replace(boot_id, ?1, ?2)", (boot.0, &boot.1))?;
    let sql = "UPDATE host SET boot_id = replace(boot_id, ?1, ?2), facts_json = replace(facts_json, ?1, ?2)";
    connection.execute(sql, (boot.0, &boot.1))?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

fn service(index: usize) -> String {
    format!("tor@{index:03}.service")
}

fn arm(index: usize) -> &'static str {
    ARMS[index % ARMS.len()].0
}

fn plan(hosts: usize, services: usize) -> Value {
    let assignments = (0..hosts).flat_map(|host| {
        (0..services).map(move |index| {
            json!({ "service": service(index), "host": format!("host{host}"), "arm": arm(index),
                    "block": index / ARMS.len(), "stratum": "relay" })
        })
    });
    json!({ "id": "0123456789abcdef", "services": assignments.collect::<Vec<_>>() })
}

fn write(path: &Path, plan: &Value, services: usize, days: i64) -> Result<(), Box<dyn std::error::Error>> {
    let boot = "boot-0";
    let facts = json!({ "kernel": "6.1", "ram_bytes": 824_633_720_832_u64, "boot_id": boot });
    let mut store = Store::create(path)?;
    let trial_id = match store.trials()?.first() {
        Some(trial) => trial.id,
        None => begin(&mut store, plan, services, boot, &facts)?,
    };
    let host_id = store.add_host(boot, &facts)?;
    let lives: Vec<i64> = store.lives(trial_id)?.into_iter().map(|life| life.id).collect();
    let done = store.last_tick(trial_id)?.map_or(0, |tick| tick.sequence + 1);
    for number in done..days * 1440 {
        store.write_tick(trial_id, &tick(number, host_id, &lives))?;
    }
    let before = days * DAY_US - RAW_DAYS * DAY_US;
    let horizon = RollupHorizon { wall_us: START_US + before, host_id, boottime_us: before };
    while before > 0 && store.roll_up(trial_id, &horizon, ROLLUP_SAMPLES)?.more {}
    Ok(())
}

fn begin(
    store: &mut Store,
    plan: &Value,
    services: usize,
    boot: &str,
    facts: &Value,
) -> Result<i64, Box<dyn std::error::Error>> {
    let specs = ARMS.iter().map(|(arm, ..)| arm.parse::<AllocatorSpec>()).collect::<Result<Vec<_>, _>>()?;
    let trial = NewTrial {
        name: "fleet".into(),
        kind: TrialKind::Field,
        boot_id: boot.to_owned(),
        host_facts: facts.clone(),
        metric: Metric::Rss,
        seed: 7,
        repeats: 1,
        planned_us: 30 * DAY_US,
        arms: TrialPlan::from_specs("fleet", &specs)?.arms,
        parameters: json!({ "plan": plan, "host": "host0", "started_boottime_us": 0 }),
        command: "heaptrial trial start fleet".into(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        started_wall_us: START_US,
    };
    let rows: Vec<NewService> = (0..services)
        .map(|index| NewService {
            name: service(index),
            arm: index % ARMS.len(),
            block: (index / ARMS.len()) as u32,
            position: index as u32,
            attributes: json!({ "stratum": "relay", "role": "guard" }),
        })
        .collect();
    let trial_id = store.begin_field_trial(&trial, &vec![None; ARMS.len()], &rows)?;
    for (index, service) in store.services(trial_id)?.iter().enumerate() {
        let key = LifeKey { boot_id: boot.to_owned(), pid: index as i32 + 1, start_ticks: 1 };
        store.add_life(service.id, &key, (START_US, 0), Some(&identity(arm(index))), None)?;
    }
    Ok(trial_id)
}

fn identity(arm: &str) -> Identity {
    let family = arm.split_once('@').map_or(arm, |(family, _)| family);
    Identity {
        family: family.to_owned(),
        version: arm.parse::<AllocatorSpec>().ok().and_then(|spec| spec.version),
        version_range: None,
        path: None,
        build_id: None,
        sha256: None,
        linkage: if family == "glibc" { Linkage::Libc } else { Linkage::Preloaded },
        settings: Default::default(),
        evidence: Vec::new(),
        ..Identity::default()
    }
}

fn tick(number: i64, host_id: i64, lives: &[i64]) -> TickInput {
    let age_days = number as f64 / 1440.0;
    let settled = 1.0 - 0.6 * (-age_days / 0.3).exp();
    let sample = |(index, life): (usize, &i64)| {
        let (_, level, growth) = ARMS[index % ARMS.len()];
        let own = 1.0 + 0.1 * (noise(index as u64) - 0.5);
        let seed = index as u64 * 1_000_003 + number as u64;
        let wave = 1.0 + 0.03 * (noise(seed) - 0.5);
        let rss_bytes = ((level * own * settled + growth * age_days) * wave * 256.0) as u64 * 4096;
        let sample = Sample {
            rss_bytes,
            anon_bytes: rss_bytes.saturating_sub(28_000_000),
            file_bytes: 28_000_000,
            vsize_bytes: 2 * rss_bytes,
            hwm_bytes: rss_bytes,
            minor_faults: number as u64 * 1000,
            cpu_us: number as u64 * 10_000_000,
            threads: 17,
            processes: 1,
            cgroup_current_bytes: Some(rss_bytes),
            cgroup_peak_bytes: Some(rss_bytes),
            ..Sample::default()
        };
        (*life, sample)
    };
    TickInput {
        sequence: number,
        wall_us: START_US + number * MINUTE_US,
        boottime_us: number * MINUTE_US,
        samples: lives.iter().enumerate().map(sample).collect(),
        host_id: Some(host_id),
        ..TickInput::default()
    }
}

/// A number in 0..1 that looks random and is always the same: the finaliser of G. Steele's SplitMix64.
fn noise(seed: u64) -> f64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) as f64 / u64::MAX as f64
}
