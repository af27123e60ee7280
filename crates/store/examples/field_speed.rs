//! How fast the database of a field trial is: `cargo run --release -p heaptrial-store --example field_speed [SERVICES [DAYS]]`
//! writes one tick a minute, then reads what a dashboard reads, and rolls up all of it.

use std::time::{Duration, Instant};

use heaptrial_model::{LifeKey, Metric, Sample, TrialKind, TrialPlan};
use heaptrial_store::{NewService, NewTrial, RollupHorizon, Store, TickInput};

const MINUTE_US: i64 = 60_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<i64>());
    let services = numbers.next().transpose()?.unwrap_or(200);
    let days = numbers.next().transpose()?.unwrap_or(14);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("heaptrial.db");
    let mut store = Store::create(&path)?;
    let (trial_id, host_id, lives) = begin(&mut store, services)?;

    let ticks = days * 1440;
    let mut costs = Vec::new();
    for number in 0..ticks {
        let tick = tick(number, host_id, &lives);
        let started = Instant::now();
        store.write_tick(trial_id, &tick)?;
        costs.push(started.elapsed());
    }
    show("writing a tick", &mut costs);
    let size = std::fs::metadata(&path)?.len() as f64 / f64::from(1 << 20);
    println!("{services} services, {days} days, {} samples: {size:.0} MiB", ticks * services);

    let reader = Store::open(&path)?;
    let mut latest = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        assert_eq!(reader.latest(trial_id)?.len(), services as usize);
        latest.push(started.elapsed());
    }
    show("latest samples", &mut latest);

    let all = ticks * MINUTE_US;
    let horizon = RollupHorizon { wall_us: all, host_id, boottime_us: all };
    let mut steps = Vec::new();
    loop {
        let started = Instant::now();
        let step = store.roll_up(trial_id, &horizon, 3000)?;
        if !step.more {
            break;
        }
        steps.push(started.elapsed());
    }
    show("a step of the rollup", &mut steps);
    let left = store.tick_summary(trial_id)?.samples;
    println!("{left} samples are left");
    let life = store.lives(trial_id)?.swap_remove(0);
    println!("{} points of one service", store.series(&life, Metric::Rss)?.len());
    Ok(())
}

fn begin(store: &mut Store, services: i64) -> Result<(i64, i64, Vec<i64>), Box<dyn std::error::Error>> {
    let specs = ["glibc".parse()?, "mimalloc@2.0.9".parse()?];
    let trial = NewTrial {
        name: "five-way".into(),
        kind: TrialKind::Field,
        boot_id: "boot".into(),
        host_facts: serde_json::json!({}),
        metric: Metric::Rss,
        seed: 7,
        repeats: 1,
        planned_us: 0,
        arms: TrialPlan::from_specs("five-way", &specs)?.arms,
        parameters: serde_json::json!({}),
        command: String::new(),
        tool_version: String::new(),
        started_wall_us: 0,
    };
    let service = |number: i64| NewService {
        name: format!("tor@{number:03}.service"),
        arm: number as usize % 2,
        block: 0,
        position: number as u32,
        attributes: serde_json::Value::Null,
    };
    let rows: Vec<NewService> = (0..services).map(service).collect();
    let trial_id = store.begin_field_trial(&trial, &[None, None], &rows)?;
    let host_id = store.add_host("boot", &serde_json::json!({}))?;
    let mut lives = Vec::new();
    for (number, service) in store.services(trial_id)?.iter().enumerate() {
        let key = LifeKey { boot_id: "boot".into(), pid: number as i32, start_ticks: 1 };
        lives.push(store.add_life(service.id, &key, (0, 0), None, None)?);
    }
    Ok((trial_id, host_id, lives))
}

fn tick(number: i64, host_id: i64, lives: &[i64]) -> TickInput {
    const NAMES: [&str; 10] = [
        "tor_read_bytes",
        "tor_written_bytes",
        "tor_connections",
        "tor_oom_bytes",
        "tor_flag_guard",
        "tor_flag_stable",
        "tor_flag_fast",
        "tor_flag_hsdir",
        "tor_flag_exit",
        "tor_flag_v2dir",
    ];
    let bytes = |life: i64| 1_000_000_000 + (number * 7919 + life * 104_729) as u64 % 100_000_000;
    let sample = |life: &i64| {
        let rss_bytes = bytes(*life);
        let sample = Sample {
            rss_bytes,
            anon_bytes: rss_bytes - 28_000_000,
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
    let observed = lives.iter().filter(|_| number % 10 == 0);
    TickInput {
        sequence: number,
        wall_us: number * MINUTE_US,
        boottime_us: number * MINUTE_US,
        samples: lives.iter().map(sample).collect(),
        observations: observed.flat_map(|life| NAMES.map(|name| (*life, name, number as f64))).collect(),
        host_id: Some(host_id),
        ..TickInput::default()
    }
}

fn show(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let Some(last) = times.last() else { return };
    println!("{what}: median {:.1?}, longest {last:.1?}, {} times", times[times.len() / 2], times.len());
}
