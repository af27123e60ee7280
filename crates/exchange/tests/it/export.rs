//! What is exported can be read again: by our own importer and by any other.

use std::collections::HashMap;

use crate::support;

use heaptrial_exchange::{Timezone, export, import_csv};
use heaptrial_model::{LifeKey, Metric, Sample, SlowSample, TrialKind, TrialPlan};
use heaptrial_store::{ImportedSample, NewTrial, Store, TickInput};
use proptest::prelude::*;
use support::stored;
use support::{DAYS, Fleet, HEADER};

fn exported(store: &Store, trial_id: i64) -> (u64, Vec<u8>) {
    let mut bytes = Vec::new();
    let samples = export(store, trial_id, &mut bytes).unwrap();
    (samples, bytes)
}

fn imported() -> (Fleet, Store) {
    let fleet = Fleet::new(DAYS);
    let mut store = fleet.store();
    import_csv(&mut store, &fleet.request()).unwrap();
    (fleet, store)
}

/// A lab run of one service with a name that has to be escaped.
fn lab_run(store: &mut Store, ticks: i64) -> i64 {
    let specs = ["glibc".parse().unwrap(), "mimalloc@2.0.9".parse().unwrap()];
    let plan = NewTrial {
        name: "lab \"one\"\\".into(),
        kind: TrialKind::LabCommand,
        boot_id: "boot".into(),
        host_facts: serde_json::json!({}),
        metric: Metric::Rss,
        seed: 1,
        repeats: 1,
        planned_us: 1,
        arms: TrialPlan::from_specs("lab", &specs).unwrap().arms,
        parameters: serde_json::json!({}),
        command: String::new(),
        tool_version: String::new(),
        started_wall_us: 1_800_000_000_000_000,
    };
    let (trial_id, arms) = store.begin_trial(&plan).unwrap();
    let service = store.add_service(trial_id, arms[0], "glibc-1", 0, 0).unwrap();
    let key = LifeKey { boot_id: "boot".into(), pid: 1, start_ticks: 1 };
    let life = store.add_life(service, &key, (1_800_000_000_000_000, 5_000_000), None, None).unwrap();
    for sequence in 0..ticks {
        let sample = Sample {
            rss_bytes: (100 + sequence as u64) * 4096,
            cpu_us: 1_500_000 * sequence as u64,
            vsize_bytes: 1 << 30,
            ..Sample::default()
        };
        let slow = SlowSample { pss_bytes: 77, ..SlowSample::default() };
        let tick = TickInput {
            sequence,
            wall_us: 1_800_000_000_000_000 + 500_000 * sequence,
            boottime_us: 5_000_000 + 500_000 * sequence,
            samples: vec![(life, sample)],
            slow_samples: if sequence % 2 == 0 { vec![(life, slow)] } else { Vec::new() },
            ..TickInput::default()
        };
        store.write_tick(trial_id, &tick).unwrap();
    }
    trial_id
}

/// Every reading of a trial, by service.
fn readings(store: &Store, name: &str) -> Vec<(String, Vec<ImportedSample>)> {
    let trial = stored::read(store, name);
    let mut readings: Vec<(String, Vec<ImportedSample>)> = trial
        .services
        .into_iter()
        .map(|service| {
            (service.service.name, service.lives.into_iter().flat_map(|life| life.samples).collect())
        })
        .collect();
    readings.sort_by(|a, b| a.0.cmp(&b.0));
    readings
}

#[test]
fn the_scripts_csv_comes_back_as_it_went() {
    let (fleet, mut store) = imported();
    let trial_id = store.trials().unwrap()[0].id;
    let (samples, bytes) = exported(&store, trial_id);
    assert_eq!(samples, 12 * DAYS);
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("timestamp,server,fingerprint,nickname,group,life,start,age_seconds,contaminated,rss_bytes,anon_bytes,"),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].starts_with(
            "2026-03-01T10:00:00.000000Z,alpha,0000000000000000000000000000000000000001,relaya0,group_A_glibc,"
        ),
        "{}",
        lines[1]
    );

    fleet.write("again.csv", &text);
    // Its groups are the arms.
    let summary = import_csv(&mut store, &support::memory_only(&fleet.path("again.csv"))).unwrap();
    assert_eq!(summary.arms.iter().map(|arm| arm.services).collect::<Vec<_>>(), [4, 4, 4]);
    assert_eq!(summary.samples, 12 * DAYS);
    assert_eq!(readings(&store, "again"), readings(&store, "memory"));
}

/// The rows of a trial, each by the names of its columns.
fn rows(store: &Store, trial_id: i64) -> Vec<HashMap<String, String>> {
    let (samples, bytes) = exported(store, trial_id);
    let rows: Vec<_> = csv::Reader::from_reader(&bytes[..]).into_deserialize().map(Result::unwrap).collect();
    assert_eq!(rows.len() as u64, samples);
    rows
}

#[test]
fn a_row_says_what_is_known_of_a_life() {
    let (_fleet, mut store) = imported();
    let imported_id = store.trials().unwrap()[0].id;
    let lab_id = lab_run(&mut store, 4);
    let imported = rows(&store, imported_id);
    let at = |row: &&HashMap<String, String>| {
        row["nickname"] == "relaya0" && row["timestamp"].starts_with("2026-03-08T10:00:00")
    };
    let row = imported.iter().find(at).unwrap();
    let columns = ["start", "age_seconds", "contaminated", "anon_bytes"].map(|column| &*row[column]);
    assert_eq!(columns, ["inferred", "144000", "false", ""]);

    // Of an import nothing is proved.
    let marked =
        |id: i64, store: &Store| rows(store, id).iter().filter(|row| row["contaminated"] == "true").count();
    assert_eq!((marked(imported_id, &store), marked(lab_id, &store)), (0, 0));
    let life = store.lives(lab_id).unwrap()[0].id;
    store.contaminate(life, "it runs glibc").unwrap();
    assert_eq!(marked(lab_id, &store), 4);
}

#[test]
fn every_reading_of_a_lab_run_is_in_the_csv() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::create(&dir.path().join("heaptrial.db")).unwrap();
    let trial_id = lab_run(&mut store, 4);
    let rows = rows(&store, trial_id);
    let columns = |row: usize, columns: [&str; 4]| columns.map(|column| rows[row][column].clone());
    assert_eq!(
        columns(1, ["timestamp", "nickname", "group", "start"]),
        ["2027-01-15T08:00:00.500000Z", "glibc-1", "glibc", "observed"]
    );
    assert_eq!(
        columns(1, ["rss_bytes", "vsize_bytes", "cpu_us", "server"]),
        ["413696", "1073741824", "1500000", ""]
    );
    assert_eq!((&*rows[2]["age_seconds"], &*rows[1]["pss_bytes"], &*rows[2]["pss_bytes"]), ("1", "", "77"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_is_imported_is_exported_and_imported_the_same(
        rows in prop::collection::vec((0u8..3, 0u8..2, 0u32..2_000_000, 1u64 << 10..1 << 30, prop::option::of(1u64..1 << 30), prop::option::of(1u64..1 << 30)), 1..60)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut text = HEADER.to_owned();
        for (relay, server, seconds, rss, more_vsize, more_hwm) in &rows {
            // Neither the virtual size nor the peak is below the RSS.
            let (vsize, hwm) = (more_vsize.map(|more| rss + more), more_hwm.map(|more| rss + more));
            let time = jiff::Timestamp::from_second(1_770_000_000 + i64::from(*seconds)).unwrap();
            let number = |kib: &Option<u64>| kib.map_or_else(String::new, |kib| kib.to_string());
            let local = time.to_string().replace('Z', "");
            text += &format!("{local},s{server},relay,,r{relay},{rss},{},{},,,,,,\n", number(&vsize), number(&hwm));
        }
        let first = dir.path().join("first.csv");
        std::fs::write(&first, &text).unwrap();
        let mut store = Store::create(&dir.path().join("heaptrial.db")).unwrap();
        let timezone: Timezone = "Europe/Berlin".parse().unwrap();
        let mut request = support::memory_only(&first);
        request.timezone = Some(timezone);
        let summary = import_csv(&mut store, &request).unwrap();
        let (_, bytes) = exported(&store, summary.trial_id);
        let second = dir.path().join("second.csv");
        std::fs::write(&second, bytes).unwrap();
        import_csv(&mut store, &support::memory_only(&second)).unwrap();
        prop_assert_eq!(readings(&store, "second"), readings(&store, "first"));
    }
}
