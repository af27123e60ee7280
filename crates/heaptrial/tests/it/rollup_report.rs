//! The report of a field trial whose old samples were rolled up says what it said before.

use heaptrial_model::{Identity, LifeKey, Linkage, Metric, Sample, TrialKind, TrialPlan};
use heaptrial_report::{Options, Report};
use heaptrial_store::{NewService, NewTrial, RollupHorizon, Store, TickInput};
use serde_json::Value;

const TICK_US: i64 = 300_000_000;
const DAY_US: i64 = 86_400_000_000;
const DAYS: i64 = 6;
const START_US: i64 = 1_800_000_000_000_000;

fn identity() -> Identity {
    Identity {
        family: "glibc".into(),
        version: None,
        version_range: None,
        path: None,
        build_id: None,
        sha256: None,
        linkage: Linkage::Libc,
        settings: Default::default(),
        evidence: vec![],
        ..Identity::default()
    }
}

/// Settles within a day, grows by 1% a day, and jumps about by 3%.
fn rss_bytes(service: usize, tick: i64) -> u64 {
    let days = (tick * TICK_US) as f64 / DAY_US as f64;
    let level = if service % 2 == 0 { 2e9 } else { 1e9 } * (1.0 + 0.01 * (service as f64 * 1.7).sin());
    let noise = (tick as f64 * 12.9898 + service as f64 * 78.233).sin() * 43758.5453;
    let settled = 1.0 - 0.5 * (-days / 0.3).exp();
    (level * (settled + 0.01 * days) * (1.0 + 0.03 * (noise - noise.floor() - 0.5))) as u64 / 1024 * 1024
}

fn write(store: &mut Store) -> (i64, i64) {
    let specs = ["glibc".parse().unwrap(), "glibc?arena_max=1".parse().unwrap()];
    let trial = NewTrial {
        name: "two-way".into(),
        kind: TrialKind::Field,
        boot_id: "boot".into(),
        host_facts: serde_json::json!({}),
        metric: Metric::Rss,
        seed: 7,
        repeats: 1,
        planned_us: DAYS * DAY_US,
        arms: TrialPlan::from_specs("two-way", &specs).unwrap().arms,
        parameters: serde_json::json!({}),
        command: "heaptrial trial start two-way".into(),
        tool_version: "0.1.0".into(),
        started_wall_us: START_US - 1,
    };
    let service = |number: usize| NewService {
        name: format!("tor@{number}.service"),
        arm: number % 2,
        block: number as u32 / 4,
        position: number as u32,
        attributes: Value::Null,
    };
    let services: Vec<NewService> = (0..12).map(service).collect();
    let trial_id = store.begin_field_trial(&trial, &[None, None], &services).unwrap();
    let host_id = store.add_host("boot", &serde_json::json!({})).unwrap();
    let rows = store.services(trial_id).unwrap();
    let lives: Vec<i64> = rows
        .iter()
        .enumerate()
        .map(|(number, service)| {
            let key = LifeKey { boot_id: "boot".into(), pid: number as i32 + 10, start_ticks: 1 };
            store.add_life(service.id, &key, (START_US, 0), Some(&identity()), None).unwrap()
        })
        .collect();
    for number in 0..DAYS * DAY_US / TICK_US {
        let sample = |(service, life): (usize, &i64)| {
            let rss_bytes = rss_bytes(service, number);
            (*life, Sample { rss_bytes, anon_bytes: rss_bytes, processes: 1, ..Sample::default() })
        };
        let tick = TickInput {
            sequence: number,
            wall_us: START_US + number * TICK_US,
            boottime_us: number * TICK_US,
            samples: lives.iter().enumerate().map(sample).collect(),
            host_id: Some(host_id),
            ..TickInput::default()
        };
        store.write_tick(trial_id, &tick).unwrap();
    }
    (trial_id, host_id)
}

/// Level and ratio of the arms, and the slopes of the services.
fn figures(store: &Store, trial_id: i64) -> Vec<f64> {
    let report = Report::from_store(store, trial_id, &Options::default()).unwrap();
    let report = serde_json::to_value(&report).unwrap();
    let arms = report["arms"].as_array().unwrap();
    let ratio = &arms[1]["ratio_to_control"];
    let mut figures: Vec<f64> = ["estimate", "low", "high"]
        .map(|name| ratio[name].as_f64().unwrap_or_else(|| panic!("{ratio}")))
        .to_vec();
    figures.extend(arms.iter().map(|arm| arm["rss_bytes_final"].as_f64().unwrap()));
    figures
}

/// The highest reading of each service, in bytes.
fn peaks(store: &Store, trial_id: i64) -> Vec<u64> {
    let report = Report::from_store(store, trial_id, &Options::default()).unwrap();
    report.services.iter().map(|service| service.result.peak_bytes.unwrap() as u64).collect()
}

#[test]
fn a_rolled_up_trial_has_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("heaptrial.db")).unwrap();
    let (trial_id, host_id) = write(&mut store);
    let before = figures(&store, trial_id);
    let highest = peaks(&store, trial_id);
    let samples = store.tick_summary(trial_id).unwrap().samples;
    // Also of the days that the result rests on, and in the middle of which a report may be asked for.
    for days in [2, DAYS] {
        let horizon =
            RollupHorizon { wall_us: START_US + days * DAY_US, host_id, boottime_us: days * DAY_US };
        while store.roll_up(trial_id, &horizon, 3000).unwrap().more {}
        let after = figures(&store, trial_id);
        // A median is no peak.
        assert_eq!(peaks(&store, trial_id), highest);
        eprintln!("{before:?}\n{after:?} after {days} days were rolled up");
        for (before, after) in before.iter().zip(&after) {
            assert!((after / before - 1.0).abs() < 0.02, "{after} in place of {before}");
        }
    }
    assert_eq!(store.tick_summary(trial_id).unwrap().samples * 3, samples);
}
