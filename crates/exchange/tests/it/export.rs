//! What is exported can be read again: by our own importer, and by the Parquet reader.

use crate::support;

use heaptrial_exchange::{ExportFormat, Timezone, export, import_torutils};
use heaptrial_model::{LifeKey, Metric, Sample, SlowSample, TrialKind, TrialPlan};
use heaptrial_store::{ImportedSample, NewTrial, Store, TickInput};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use proptest::prelude::*;
use support::{DAYS, Fleet, HEADER};

fn exported(store: &Store, trial_id: i64, format: ExportFormat) -> (u64, Vec<u8>) {
    let mut bytes = Vec::new();
    let samples = export(store, trial_id, format, &mut bytes).unwrap();
    (samples, bytes)
}

fn imported() -> (Fleet, Store) {
    let fleet = Fleet::new(DAYS);
    let mut store = fleet.store();
    import_torutils(&mut store, &fleet.request()).unwrap();
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
    let trial = store.read_imported(name, heaptrial_model::TrialKind::ImportTorutils).unwrap().unwrap().1;
    let mut readings: Vec<(String, Vec<ImportedSample>)> = trial
        .services
        .into_iter()
        .map(|service| (service.name, service.lives.into_iter().flat_map(|life| life.samples).collect()))
        .collect();
    readings.sort_by(|a, b| a.0.cmp(&b.0));
    readings
}

#[test]
fn the_scripts_csv_comes_back_as_it_went() {
    let (fleet, mut store) = imported();
    let trial_id = store.trials().unwrap()[0].id;
    let (samples, bytes) = exported(&store, trial_id, ExportFormat::Csv);
    assert_eq!(samples, 12 * DAYS);
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("timestamp,server,type,fingerprint,nickname,group,contaminated,rss_kb,anon_kb,"),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].starts_with(
            "2026-03-01T10:00:00Z,alpha,relay,0000000000000000000000000000000000000001,relaya0,group_A_glibc,false,"
        ),
        "{}",
        lines[1]
    );

    fleet.write("again.csv", &text);
    // Its groups are the arms.
    let summary = import_torutils(&mut store, &support::memory_only(&fleet.path("again.csv"))).unwrap();
    assert_eq!(summary.arms.iter().map(|arm| arm.services).collect::<Vec<_>>(), [4, 4, 4]);
    assert_eq!(summary.samples, 12 * DAYS);
    assert_eq!(readings(&store, "again"), readings(&store, "memory"));
}

#[test]
fn parquet_holds_every_sample_with_what_is_known_of_it() {
    let (_fleet, mut store) = imported();
    let imported_id = store.trials().unwrap()[0].id;
    let lab_id = lab_run(&mut store, 4);
    let (samples, bytes) = exported(&store, imported_id, ExportFormat::Parquet);
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!((rows.len() as u64, samples), (12 * DAYS, 12 * DAYS));
    let fields: Vec<(String, Field)> =
        rows[7].get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect();
    let field = |name: &str| &fields.iter().find(|(column, _)| column == name).unwrap().1;
    assert_eq!(field("service"), &Field::Str("relaya0".into()));
    assert_eq!(field("arm"), &Field::Str("group_A_glibc".into()));
    assert_eq!((field("life"), field("start")), (&Field::Long(2), &Field::Str("inferred".into())));
    assert_eq!(field("time"), &Field::TimestampMicros(1_772_964_000_000_000));
    assert_eq!(field("age_seconds"), &Field::Double(40.0 * 3600.0));
    assert_eq!(field("anon_bytes"), &Field::Null);
    assert!(matches!(field("hwm_bytes"), Field::Long(bytes) if *bytes > 1 << 30));

    let (_, bytes) = exported(&store, lab_id, ExportFormat::Parquet);
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    assert!(rows[2].contains("age_seconds: 1.0") && rows[2].contains("cpu_us: 3000000"), "{}", rows[2]);
    assert!(rows[2].contains("pss_bytes: 77") && rows[3].contains("pss_bytes: null"), "{}", rows[3]);
    assert!(rows[2].contains("start: \"observed\""), "{}", rows[2]);
}

#[test]
fn lives_that_do_not_count_are_marked() {
    let (_fleet, mut store) = imported();
    let imported_id = store.trials().unwrap()[0].id;
    let lab_id = lab_run(&mut store, 4);
    let marks = |store: &Store, trial_id: i64| {
        let (_, bytes) = exported(store, trial_id, ExportFormat::Parquet);
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string());
        let marked = rows.filter(|row| row.contains("contaminated: true")).count();
        let (_, bytes) = exported(store, trial_id, ExportFormat::Csv);
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.lines().filter(|line| line.contains(",true,")).count(), marked);
        marked
    };
    // Of an import nothing is proved.
    assert_eq!((marks(&store, imported_id), marks(&store, lab_id)), (0, 0));
    let life = store.lives(lab_id).unwrap()[0].id;
    store.contaminate(life, "it runs glibc").unwrap();
    assert_eq!(marks(&store, lab_id), 4);
}

#[test]
fn every_reading_of_a_lab_run_is_in_the_csv() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::create(&dir.path().join("heaptrial.db")).unwrap();
    let trial_id = lab_run(&mut store, 2);
    let (_, bytes) = exported(&store, trial_id, ExportFormat::Csv);
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let row = |name: &str| lines[2][lines[0].iter().position(|column| *column == name).unwrap()];
    assert_eq!(
        (row("timestamp"), row("nickname"), row("group")),
        ("2027-01-15T08:00:00.5Z", "glibc-1", "glibc")
    );
    assert_eq!((row("rss_kb"), row("vmsize_kb"), row("cpu_us")), ("404", "1048576", "1500000"));
    assert_eq!((row("pss_kb"), row("server")), ("", ""));
}

#[test]
fn a_trial_that_is_not_there_is_told() {
    let (_fleet, store) = imported();
    let error = export(&store, 99, ExportFormat::Parquet, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "the database has no trial 99");
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
        let summary = import_torutils(&mut store, &request).unwrap();
        let (_, bytes) = exported(&store, summary.trial_id, ExportFormat::Csv);
        let second = dir.path().join("second.csv");
        std::fs::write(&second, bytes).unwrap();
        import_torutils(&mut store, &support::memory_only(&second)).unwrap();
        prop_assert_eq!(readings(&store, "second"), readings(&store, "first"));
    }
}
