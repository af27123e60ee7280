//! Databases of older versions are read and brought up to date; imports are written and read whole.

use heaptrial_model::{Arm, KnownEvent, LifeStart, Metric, Treatment, TrialKind};
use heaptrial_store::{
    AggregateRow, ImportSource, ImportedEvent, ImportedLife, ImportedList, ImportedSample, ImportedService,
    ImportedTrial, NewTrial, Readings, SCHEMA_VERSION, Store,
};
use rusqlite::Connection;

/// A database as version 1 wrote it: one lab run with one sample.
fn version_1(path: &std::path::Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(include_str!("../schema_v1.sql")).unwrap();
    connection
        .execute_batch(
            r#"INSERT INTO host VALUES (1, 'boot', '{}');
               INSERT INTO trial VALUES (1, 'old', 'lab_command', 1, 'anon', 7, 1, 60000000, '[]', '{}', 'heaptrial lab run',
                                         '0.1.0', 1000, 2000, 'completed');
               INSERT INTO arm VALUES (1, 1, 0, 'glibc', 1, '{}', NULL);
               INSERT INTO service VALUES (1, 1, 1, 'glibc-1', 0, 0);
               INSERT INTO life VALUES (1, 1, 'boot', 42, 77, 1000, 5000000, NULL, NULL, 2000, 6000000, '"planned"');
               INSERT INTO tick VALUES (1, 1, 0, 1500, 5500000, 10, 8);
               INSERT INTO sample VALUES (1, 1, 4096, 2048, 0, 0, 1024, 9999, 4096, 1, 0, 5, 1, 1, NULL, NULL);
               INSERT INTO slow_sample VALUES (1, 1, 3000, 2000, 0, 0, 9);
               INSERT INTO event VALUES (1, 1, 1, 1600, 'note', 'something');
               PRAGMA user_version = 1;"#,
        )
        .unwrap();
}

/// The same as version 2 wrote it.
fn version_2(path: &std::path::Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(include_str!("../schema_v2.sql")).unwrap();
    connection
        .execute_batch(
            r#"INSERT INTO host VALUES (1, 'boot', '{}');
               INSERT INTO trial VALUES (1, 'old', 'lab_command', 1, 'anon', 7, 1, 60000000, '[]', '{}', 'heaptrial lab run',
                                         '0.1.0', 1000, 2000, 'completed');
               INSERT INTO arm VALUES (1, 1, 0, 'glibc', 1, '{}', NULL, NULL, NULL);
               INSERT INTO service VALUES (1, 1, 1, 'glibc-1', 0, 0, NULL);
               INSERT INTO life VALUES (1, 1, 'boot', 42, 77, '"observed"', 1000, 5000000, NULL, NULL, 2000, 6000000, '"planned"');
               INSERT INTO tick VALUES (1, 1, 0, 1500, 5500000, 10, 8);
               INSERT INTO sample VALUES (1, 1, 4096, 2048, 0, 0, 1024, 9999, 4096, 1, 0, 5, 1, 1, NULL, NULL);
               INSERT INTO slow_sample VALUES (1, 1, 3000, 2000, 0, 0, 9);
               INSERT INTO event VALUES (1, 1, 1, NULL, 1600, 'note', 'something');
               PRAGMA user_version = 2;"#,
        )
        .unwrap();
}

/// The same as version 3 wrote it.
fn version_3(path: &std::path::Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(include_str!("../schema_v3.sql")).unwrap();
    connection
        .execute_batch(
            r#"INSERT INTO host VALUES (1, 'boot', '{}');
               INSERT INTO trial VALUES (1, 'old', 'lab_command', 1, 'anon', 7, 1, 60000000, '[]', '{}', 'heaptrial lab run',
                                         '0.1.0', 1000, 2000, 'completed', NULL);
               INSERT INTO arm VALUES (1, 1, 0, 'glibc', 1, '{}', NULL, NULL, NULL);
               INSERT INTO service VALUES (1, 1, 1, 'glibc-1', 0, 0, NULL);
               INSERT INTO life VALUES (1, 1, 'boot', 42, 77, '"observed"', 1000, 5000000, NULL, NULL, 2000, 6000000, '"planned"');
               INSERT INTO tick VALUES (1, 1, 0, 1500, 5500000, 10, 8, NULL);
               INSERT INTO sample VALUES (1, 1, 4096, 2048, 0, 0, 1024, 9999, 4096, 1, 0, 5, 1, 1, NULL, NULL);
               INSERT INTO slow_sample VALUES (1, 1, 3000, 2000, 0, 0, 9);
               INSERT INTO event VALUES (1, 1, 1, NULL, 1600, 'note', 'something');
               PRAGMA user_version = 3;"#,
        )
        .unwrap();
}

/// Writers of all older versions.
const OLD: [fn(&std::path::Path); 3] = [version_1, version_2, version_3];

fn check_old_run(store: &Store) {
    let life = &store.lives(1).unwrap()[0];
    assert_eq!(life.start, LifeStart::Observed);
    assert_eq!(life.key.as_ref().unwrap().pid, 42);
    let series = store.series(life, Metric::Anon).unwrap();
    assert_eq!((series.len(), series[0].metric_bytes, series[0].rss_bytes), (1, 3072, 4096));
    assert!(store.last_slow_sample(life.id, i64::MAX).unwrap().is_some());
    assert_eq!(store.events(1).unwrap()[0].text, "something");
    assert!(store.services(1).unwrap()[0].also_in.is_empty());
}

#[test]
fn an_older_database_is_read_without_being_changed() {
    for write in OLD {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heaptrial.db");
        write(&path);
        let before = std::fs::read(&path).unwrap();
        check_old_run(&Store::open(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

#[test]
fn an_older_database_is_brought_up_to_date_when_it_is_written_to() {
    for write in OLD {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heaptrial.db");
        write(&path);
        drop(Store::create(&path).unwrap());
        let connection = Connection::open(&path).unwrap();
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(version, SCHEMA_VERSION);
        let broken: Option<String> =
            connection.query_row("PRAGMA foreign_key_check", [], |row| row.get(0)).ok();
        assert_eq!(broken, None);
        check_old_run(&Store::open(&path).unwrap());
    }
}

#[test]
fn a_migrated_database_has_the_tables_and_indexes_of_a_new_one() {
    for write in OLD {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old.db"), folder.path().join("new.db"));
        write(&old);
        let columns = |path: &std::path::Path| -> Vec<(String, String, String, bool, i64)> {
            drop(Store::create(path).unwrap());
            let connection = Connection::open(path).unwrap();
            let sql = "SELECT m.name, c.name, c.type, c.\"notnull\", c.pk
                       FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'
                       UNION ALL
                       SELECT m.name || ' ' || i.name, coalesce(c.name, ''), m.tbl_name, i.\"unique\", c.seqno
                       FROM sqlite_schema m, pragma_index_list(m.name) i, pragma_index_info(i.name) c
                       WHERE m.type = 'table' ORDER BY 1, 2";
            let mut statement = connection.prepare(sql).unwrap();
            let row = |row: &rusqlite::Row<'_>| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            };
            statement.query_map([], row).unwrap().map(Result::unwrap).collect()
        };
        assert_eq!(columns(&old), columns(&new));
    }
}

#[test]
fn two_writers_may_open_an_older_database_at_the_same_time() {
    for write in OLD {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heaptrial.db");
        write(&path);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8).map(|_| scope.spawn(|| Store::create(&path).map(drop))).collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
        });
        check_old_run(&Store::open(&path).unwrap());
    }
}

#[test]
fn many_may_make_a_new_database_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..40 {
        let path = folder.path().join(format!("{round}.db"));
        let all_at_once = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            let make = || {
                all_at_once.wait();
                Store::create(&path).map(drop)
            };
            let writers: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
        });
    }
}

fn import(samples: &[(i64, u64)]) -> ImportedTrial {
    let arm = |name: &str, control| Arm { name: name.into(), control, treatment: Treatment::default() };
    let sample = |(wall_us, rss_bytes): &(i64, u64)| ImportedSample {
        wall_us: *wall_us,
        rss_bytes: *rss_bytes,
        vsize_bytes: Some(3 * rss_bytes),
        hwm_bytes: None,
        ..ImportedSample::default()
    };
    let life = ImportedLife {
        started_wall_us: 500_000,
        start: LifeStart::Inferred { uncertainty_us: 250_000 },
        contamination: None,
        samples: samples.iter().map(sample).collect(),
    };
    let service = |name: &str| ImportedService {
        name: name.into(),
        block: 0,
        attributes: serde_json::json!({ "server": "go" }),
        lives: vec![life.clone()],
    };
    let list = |name, control, members: &[usize], earlier_list_of| ImportedList {
        arm: arm(name, control),
        earlier_list_of,
        members: members.to_vec(),
        source: format!("{name}.txt"),
    };
    ImportedTrial {
        plan: NewTrial {
            name: "fleet".into(),
            kind: TrialKind::ImportTorutils,
            boot_id: "import:fleet".into(),
            host_facts: serde_json::json!({}),
            metric: Metric::Rss,
            seed: 1,
            repeats: 1,
            planned_us: 0,
            arms: Vec::new(),
            parameters: serde_json::json!({}),
            command: "heaptrial import torutils memory.csv".into(),
            tool_version: "0.1.0".into(),
            started_wall_us: 0,
        },
        lists: vec![
            list("a", true, &[0], None),
            list("b", false, &[0, 1], None),
            list("a_old", false, &[1], Some(0)),
        ],
        services: vec![service("one"), service("two")],
        events: vec![ImportedEvent {
            wall_us: 700_000,
            service: None,
            arm: Some(1),
            kind: KnownEvent::Restart.into(),
            text: "all of b".into(),
        }],
        aggregates: vec![AggregateRow {
            wall_us: 1,
            server: "go".into(),
            count: 2,
            total_bytes: 4,
            mean_bytes: 2,
            min_bytes: 1,
            max_bytes: 3,
        }],
        sources: vec![ImportSource {
            file: "memory.csv".into(),
            role: "memory".into(),
            sha256: "00".into(),
            rows: 4,
            skipped: 0,
        }],
    }
}

#[test]
fn an_import_is_read_back_whole_and_replaced_under_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heaptrial.db");
    let mut store = Store::create(&path).unwrap();
    let first = import(&[(1_000_000, 1024), (2_000_000, 2048)]);
    let trial_id = store.write_imported(&first).unwrap();
    for trial in [first, import(&[(1_000_000, 1024), (2_000_000, 2048), (3_000_000, 8192)])] {
        assert_eq!(store.write_imported(&trial).unwrap(), trial_id);
        let (found_id, found) =
            store.read_imported("fleet", heaptrial_model::TrialKind::ImportTorutils).unwrap().unwrap();
        assert_eq!(found_id, trial_id);
        assert_eq!(found.lists, trial.lists);
        assert_eq!(found.events, trial.events);
        assert_eq!(found.aggregates, trial.aggregates);
        assert_eq!(found.sources, trial.sources);
        assert_eq!(found.services.len(), 2);
        assert_eq!(found.services[1].lives[0].samples, trial.services[1].lives[0].samples);
        assert_eq!(found.services[1].lives[0].start, LifeStart::Inferred { uncertainty_us: 250_000 });
        assert_eq!(found.services[0].attributes["server"], "go");
    }
    let life = &store.lives(trial_id).unwrap()[0];
    let readings = Readings::of_trial(&store, trial_id, Metric::Rss).unwrap();
    let found = readings.of_life(&store, life.id, life.started_boottime_us).unwrap();
    let ages: Vec<(f32, u32)> = found.iter().map(|reading| (reading.age_seconds, reading.kib)).collect();
    assert_eq!(ages, [(0.5, 1), (1.5, 2), (2.5, 8)]);
    assert!(store.read_imported("other", heaptrial_model::TrialKind::ImportTorutils).unwrap().is_none());
}
