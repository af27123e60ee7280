//! Parts of a trial over several hosts, gathered in one database: what comes out is what every host wrote, however often and
//! in whatever order it was gathered.

use crate::support::hosts;

use std::collections::BTreeMap;
use std::path::Path;

use heaptrial_exchange::{ImportError, PartFile, gather, pack};
use heaptrial_model::{KnownEvent, Metric};
use heaptrial_store::{PartTick, Readings, RollupHorizon, Store, StoreError};
use hosts::{Host, START_US, plan, take};
use proptest::prelude::*;
use serde_json::json;

/// Every reading of a gathered trial, by service.
fn gathered(store: &Store) -> BTreeMap<String, Vec<(i64, u64)>> {
    let trial = store.trials().unwrap()[0].id;
    let readings = Readings::of_trial(store, trial, Metric::Rss).unwrap();
    let lives = store.lives(trial).unwrap();
    let mut all = BTreeMap::new();
    for service in store.services(trial).unwrap() {
        let mut own: Vec<(i64, u64)> = Vec::new();
        for life in lives.iter().filter(|life| life.service_id == service.id) {
            for reading in readings.of_life(store, life.id, life.started_boottime_us).unwrap() {
                let age_us = (f64::from(reading.age_seconds) * 1e6).round() as i64;
                own.push((life.started_wall_us + age_us, u64::from(reading.kib) * 1024));
            }
        }
        if !own.is_empty() {
            all.insert(service.name, own);
        }
    }
    all
}

fn truth(hosts: &[Host]) -> BTreeMap<String, Vec<(i64, u64)>> {
    hosts.iter().flat_map(|host| host.truth.clone()).collect()
}

fn events(store: &Store) -> usize {
    store.events(store.trials().unwrap()[0].id).unwrap().len()
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Tick(usize, i64),
    Restart(usize, bool),
    /// From where the last one ended, or all of it.
    Gather(usize, bool),
    /// The host's old samples become medians.
    RollUp(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let host = 0_usize..3;
    prop_oneof![
        (host.clone(), 1_i64..20).prop_map(|(host, ticks)| Step::Tick(host, ticks)),
        (host.clone(), any::<bool>()).prop_map(|(host, reboot)| Step::Restart(host, reboot)),
        (host.clone(), any::<bool>()).prop_map(|(host, since)| Step::Gather(host, since)),
        host.prop_map(Step::RollUp),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_is_gathered_is_what_the_hosts_wrote(steps in prop::collection::vec(step(), 1..25)) {
        let folder = tempfile::tempdir().unwrap();
        let counts = [("a", 4), ("bb", 4), ("c", 2)];
        let plan = plan(&counts);
        let mut hosts: Vec<Host> =
            counts.iter().map(|(name, count)| Host::new(folder.path(), &plan, name, *count)).collect();
        let mut store = Store::create(&folder.path().join("all.db")).unwrap();
        let mut last: [Option<PartTick>; 3] = [None; 3];
        for step in steps {
            match step {
                Step::Tick(host, ticks) => hosts[host].tick(ticks),
                Step::Restart(host, reboot) => hosts[host].restart(reboot),
                Step::Gather(host, since) => {
                    let part = hosts[host].gather_into(&mut store, last[host].filter(|_| since));
                    last[host] = part.last;
                    // The same once more brings nothing.
                    let again = hosts[host].gather_into(&mut store, None);
                    prop_assert_eq!((again.new.samples, again.new.lives, again.new.events), (0, 0, 0));
                }
                Step::RollUp(host) => {
                    // What was gathered before stays in full; so that the truth is known, all is gathered first.
                    hosts[host].gather_into(&mut store, None);
                    let mut own = Store::create(&hosts[host].database).unwrap();
                    let host_id = own.add_host(&hosts[host].boot_id(), &json!({})).unwrap();
                    let horizon = RollupHorizon { wall_us: i64::MAX, host_id, boottime_us: i64::MAX };
                    while own.roll_up(hosts[host].trial(), &horizon, 1000).unwrap().more {}
                }
            }
        }
        for host in &hosts {
            host.gather_into(&mut store, None);
        }
        prop_assert_eq!(gathered(&store), truth(&hosts));
        let trial = store.trials().unwrap().remove(0);
        prop_assert_eq!((trial.plan.started_wall_us, trial.ended_wall_us), (START_US, None));
        let parts = store.parts(trial.id).unwrap();
        let names: Vec<&str> = parts.iter().map(|part| part.host.as_str()).collect();
        prop_assert_eq!(names, ["a", "bb", "c"]);
    }
}

#[test]
fn only_what_is_new_travels() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&[("a", 4), ("b", 4)]);
    let mut host = Host::new(folder.path(), &plan, "a", 4);
    host.tick(500);
    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    let first = host.gather_into(&mut store, None);
    assert_eq!((first.new.samples, first.missing.as_slice()), (2000, ["b".to_owned()].as_slice()));
    host.tick(10);
    let own = Store::open(&host.database).unwrap();
    let written = |since| {
        let file = folder.path().join("size.db");
        own.write_part(host.trial(), "a", since, &file, 0).unwrap();
        let samples: i64 = rusqlite_count(&file);
        std::fs::remove_file(&file).unwrap();
        samples
    };
    assert_eq!((written(first.last), written(None)), (40, 2040));
    let second = host.gather_into(&mut store, first.last);
    assert_eq!(second.new.samples, 40);
}

/// A host that lost its database, or was installed again, records the trial again: what was gathered may be all there is of it.
#[test]
fn another_recording_of_a_host_is_refused_and_replaces_what_is_here_only_if_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&[("a", 4), ("b", 4)]);
    let mut first = Host::new(folder.path(), &plan, "a", 4);
    first.tick(50);
    let mut other = Host::new(folder.path(), &plan, "b", 4);
    other.tick(7);
    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    for host in [&first, &other] {
        host.gather_into(&mut store, None);
    }
    let mut again = Host::new(&folder.path().join("again"), &plan, "a", 4);
    (again.boot, again.ticks) = (5, 50);
    let connection = rusqlite::Connection::open(&again.database).unwrap();
    connection.execute("UPDATE trial SET started_wall_us = ?1", [again.now_us()]).unwrap();
    drop(connection);
    again.tick(3);
    let error = take(&mut store, &again.database, None, again.now_us()).unwrap_err().to_string();
    assert!(error.contains("a recorded the trial again") && error.contains("--replace"), "{error}");
    assert_eq!(gathered(&store), truth(&[first, other]));

    let file = PartFile::open(&again.database).unwrap();
    let part = gather(&mut store, file, None, true, again.now_us()).unwrap();
    assert_eq!((part.new.samples, part.new.changed), (12, true));
    let mut found = gathered(&store);
    found.retain(|name, _| name.starts_with("a/"));
    assert_eq!(found, truth(&[again]));
    assert_eq!(gathered(&store).len(), 8);
}

/// Containers of one machine have the same id of their boot.
#[test]
fn hosts_that_share_a_boot_stay_two() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&[("a", 2), ("b", 2)]);
    let mut hosts = ["a", "b"].map(|name| Host::new(folder.path(), &plan, name, 2));
    hosts.iter_mut().for_each(|host| host.shared_boot = true);
    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    for ticks in [3, 4] {
        for host in &mut hosts {
            host.tick(ticks);
            assert_eq!(host.gather_into(&mut store, None).new.samples, 2 * ticks as u64);
            assert!(!host.gather_into(&mut store, None).new.changed);
        }
    }
    hosts[0].tick(9);
    hosts[0].gather_into(&mut store, None);
    assert_eq!(gathered(&store), truth(&hosts));
    let trial = store.trials().unwrap()[0].id;
    let boots = ["a", "b"].map(|host| store.boots_of(trial, host).unwrap());
    assert!(boots[0].is_disjoint(&boots[1]), "{boots:?}");
    let ticks = store.ticks_until(trial, i64::MAX).unwrap();
    let of = |host: usize| ticks.iter().filter(|tick| boots[host].contains(&tick.host_id)).count();
    assert_eq!([of(0), of(1)], [16, 7]);
}

fn rusqlite_count(file: &Path) -> i64 {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.query_row("SELECT count(*) FROM sample", [], |row| row.get(0)).unwrap()
}

#[test]
fn what_a_host_read_after_its_end_is_left_out_and_the_whole_ends_with_its_last_host() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&[("a", 2), ("b", 2)]);
    let mut hosts = [Host::new(folder.path(), &plan, "a", 2), Host::new(folder.path(), &plan, "b", 2)];
    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    let mut ends = Vec::new();
    for (host, ticks) in hosts.iter_mut().zip([20, 30]) {
        host.tick(ticks);
        ends.push(host.now_us());
        let mut own = Store::create(&host.database).unwrap();
        own.end_trial(host.trial(), host.now_us(), "completed").unwrap();
        // A revert tells of its services after the end, while another host goes on.
        let service = own.services(host.trial()).unwrap()[0].id;
        let after = host.now_us() + 1;
        own.add_event(host.trial(), Some(service), after, KnownEvent::TreatmentReverted, "put back").unwrap();
        host.tick(5);
        let part = host.gather_into(&mut store, None);
        assert_eq!(part.new.samples, 2 * ticks as u64);
        let trial = store.trials().unwrap().remove(0);
        let expected = (ends.len() == 2).then_some(ends[ends.len() - 1]);
        assert_eq!(trial.ended_wall_us, expected);
        assert!(!host.gather_into(&mut store, None).new.changed);
    }
    assert_eq!(events(&store), 0);
}

#[test]
fn a_ledger_that_cannot_be_read_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&[("a", 2), ("b", 2)]);
    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    for (name, column) in [("a", "identity_json"), ("b", "start_json")] {
        let mut host = Host::new(folder.path(), &plan, name, 2);
        host.tick(3);
        let connection = rusqlite::Connection::open(&host.database).unwrap();
        let sql = format!("UPDATE life SET {column} = '{{\"family\":' WHERE id = 2");
        assert_eq!(connection.execute(&sql, []).unwrap(), 1);
        drop(connection);
        let error = take(&mut store, &host.database, None, host.now_us()).unwrap_err();
        assert!(matches!(&error, ImportError::Store(StoreError::Query { .. })), "{error}");
        assert!(error.to_string().contains("reading the ledger"), "{error}");
    }
    assert!(store.trials().unwrap().is_empty());
}

#[test]
fn what_is_no_part_is_refused_and_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&[("a", 2), ("b", 2)]);
    let mut host = Host::new(folder.path(), &plan, "a", 2);
    host.tick(3);
    let all = folder.path().join("all.db");
    let mut store = Store::create(&all).unwrap();
    take(&mut store, &host.database, None, host.now_us()).unwrap();
    let mut other = Store::create(&folder.path().join("other.db")).unwrap();
    let refused = |store: &mut Store, from: &Path, named| take(store, from, named, 0).unwrap_err();
    assert!(refused(&mut other, &all, None).to_string().contains("was gathered itself"));
    assert!(refused(&mut other, &host.database, Some("x")).to_string().contains("no trial `x`"));
    let nothing = folder.path().join("nothing.db");
    assert!(matches!(refused(&mut other, &nothing, None), ImportError::Store(StoreError::Missing { .. })));
    std::fs::write(&nothing, "no database").unwrap();
    assert!(matches!(refused(&mut other, &nothing, None), ImportError::Store(_)));
    assert!(other.trials().unwrap().is_empty());
    // A host's own database is no place for the parts of others.
    let mut second = Host::new(folder.path(), &plan, "b", 2);
    second.tick(1);
    let mut own = Store::create(&host.database).unwrap();
    assert!(refused(&mut own, &second.database, None).to_string().contains("runs on this host itself"));
    // A clock that is ahead is told, one that is not is not.
    let ahead = take(&mut store, &host.database, None, host.now_us() - 3_600_000_000).unwrap();
    assert_eq!(ahead.ahead_seconds, Some(3600.0));
    assert_eq!(take(&mut store, &host.database, None, host.now_us()).unwrap().ahead_seconds, None);
}

/// The agent writes a tick each minute, and cannot wait for an export of days.
#[test]
fn an_export_does_not_wait_for_a_writer_nor_a_writer_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::new(folder.path(), &plan(&[("a", 2)]), "a", 2);
    host.tick(5);
    let writer = rusqlite::Connection::open(&host.database).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let file = folder.path().join("part.db");
    Store::open(&host.database).unwrap().write_part(host.trial(), "a", None, &file, host.now_us()).unwrap();
    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    assert_eq!(take(&mut store, &host.database, None, host.now_us()).unwrap().new.samples, 10);
    writer.execute_batch("ROLLBACK").unwrap();
}

#[test]
fn what_is_not_as_the_plan_says_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&[("a", 4), ("b", 2)]);
    let mut host = Host::new(folder.path(), &plan, "a", 4);
    host.tick(3);
    let forged = folder.path().join("forged.db");
    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    for (sql, why) in [
        (
            "UPDATE service SET arm_id = (SELECT max(id) FROM arm) WHERE position = 0",
            "what the plan says of tor@0.service",
        ),
        ("UPDATE service SET block = 7 WHERE position = 1", "what the plan says of tor@1.service"),
        ("UPDATE service SET name = 'x.service' WHERE position = 1", "what the plan says of x.service"),
        ("UPDATE part SET host = 'c'", "a plan that has no host c"),
        ("UPDATE part SET host = 'b'", "what the plan says of tor@2.service"),
        (
            "INSERT INTO arm (trial_id, position, name, control, treatment_json) SELECT trial_id, 9, 'x', 0, '{}' FROM part",
            "without the arm x",
        ),
        ("CREATE TRIGGER t AFTER INSERT ON tick BEGIN DELETE FROM tick; END", "triggers or views"),
    ] {
        let _ = std::fs::remove_file(&forged);
        Store::open(&host.database)
            .unwrap()
            .write_part(host.trial(), "a", None, &forged, host.now_us())
            .unwrap();
        rusqlite::Connection::open(&forged).unwrap().execute_batch(sql).unwrap();
        let error = take(&mut store, &forged, None, host.now_us()).unwrap_err().to_string();
        assert!(error.contains(why), "{sql}: {error}");
        assert!(store.trials().unwrap().is_empty(), "{sql}");
    }
    // A host on which the plan was edited before it was recorded.
    host.gather_into(&mut store, None);
    let mut other = Host::new(&folder.path().join("b"), &plan, "b", 2);
    other.tick(1);
    let connection = rusqlite::Connection::open(&other.database).unwrap();
    connection.execute("UPDATE service SET block = 7 WHERE name = 'tor@1.service'", []).unwrap();
    let error = take(&mut store, &other.database, None, host.now_us()).unwrap_err();
    assert!(error.to_string().contains("is not as what the plan says of tor@1.service"), "{error}");
}

/// What a plan's own comments allow to edit does no harm to the data of the host that did.
#[test]
fn a_plan_may_be_edited_on_its_host_where_nothing_depends_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&[("a", 4), ("b", 4)]);
    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    let mut host = Host::new(folder.path(), &plan, "a", 4);
    host.tick(2);
    host.gather_into(&mut store, None);
    let mut edited = plan.clone();
    edited["pace"] = json!({ "pause": "9s" });
    edited["about"] = json!({ "notes": "beta is slow" });
    let lines = edited["services"].as_array_mut().unwrap();
    lines.swap(4, 5);
    lines.remove(7);
    let mut other = Host::new(&folder.path().join("b"), &edited, "b", 3);
    other.tick(2);
    let part = other.gather_into(&mut store, None);
    assert_eq!((part.new.samples, part.missing), (6, Vec::<String>::new()));
    let trial = store.trials().unwrap()[0].id;
    let at =
        |name: &str| store.services(trial).unwrap().iter().find(|own| own.name == name).unwrap().position;
    assert_eq!([at("b/tor@0.service"), at("b/tor@1.service")], [4, 5]);
    // So it is whichever host is gathered first.
    let mut first = Store::create(&folder.path().join("first.db")).unwrap();
    other.gather_into(&mut first, None);
    host.gather_into(&mut first, None);
    // What is tested when, and with what, is the same on all hosts.
    for (key, value) in [("looks", json!(["12h"])), ("duration", json!("2d")), ("seed", json!(8))] {
        let mut edited = plan.clone();
        edited[key] = value;
        let mut other = Host::new(&folder.path().join(key), &edited, "b", 4);
        other.tick(1);
        let error = take(&mut store, &other.database, None, host.now_us()).unwrap_err();
        assert!(error.to_string().contains("is not as the plan that is here"), "{key}: {error}");
    }
}

#[test]
fn an_older_file_changes_nothing_and_one_with_a_gap_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&[("a", 2), ("b", 2)]);
    let mut host = Host::new(folder.path(), &plan, "a", 2);
    let write = |host: &Host, name: &str, since| {
        let path = folder.path().join(name);
        Store::open(&host.database)
            .unwrap()
            .write_part(host.trial(), "a", since, &path, host.now_us())
            .unwrap();
        path
    };
    host.tick(5);
    let early = write(&host, "early.db", None);
    host.tick(5);
    let middle = Store::open(&host.database).unwrap().last_tick(host.trial()).unwrap().unwrap();
    let middle = PartTick { sequence: middle.sequence, wall_us: middle.wall_us };
    host.tick(5);
    let mut own = Store::create(&host.database).unwrap();
    let life = own.lives(host.trial()).unwrap()[0].id;
    own.contaminate(life, "it ran something else").unwrap();
    own.end_trial(host.trial(), host.now_us(), "completed").unwrap();
    let late = write(&host, "late.db", Some(middle));
    let whole = write(&host, "whole.db", None);
    let empty = {
        let last = own.last_tick(host.trial()).unwrap().unwrap();
        write(&host, "empty.db", Some(PartTick { sequence: last.sequence, wall_us: last.wall_us }))
    };

    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    let now_us = host.now_us();
    let take = |store: &mut Store, file: &Path| take(store, file, None, now_us);
    for file in [&late, &empty] {
        let error = take(&mut store, file).unwrap_err().to_string();
        assert!(
            error.contains("it begins after tick") && error.contains("the next one here is 0"),
            "{error}"
        );
    }
    take(&mut store, &early).unwrap();
    for file in [&late, &empty] {
        let error = take(&mut store, file).unwrap_err().to_string();
        assert!(
            error.contains("it begins after tick") && error.contains("the next one here is 5"),
            "{error}"
        );
    }
    take(&mut store, &whole).unwrap();
    assert!(!take(&mut store, &whole).unwrap().new.changed);
    assert_eq!(take(&mut store, &late).unwrap().new.samples, 0);
    let told = |store: &Store| {
        let trial = store.trials().unwrap()[0].id;
        let contaminated =
            store.lives(trial).unwrap().iter().filter(|life| life.contamination.is_some()).count();
        (contaminated, store.parts(trial).unwrap())
    };
    let before = told(&store);
    assert_eq!((before.0, before.1[0].ended_wall_us), (1, Some(now_us)));
    let part = take(&mut store, &early).unwrap();
    assert!(!part.new.changed);
    assert_eq!(told(&store), before);
    assert_eq!(gathered(&store), truth(&[host]));
}

/// What travels has a checksum: a file that is cut short or changed on its way brings nothing.
#[test]
fn a_packed_file_that_is_torn_or_changed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::new(folder.path(), &plan(&[("a", 4)]), "a", 4);
    host.tick(300);
    let (file, packed) = (folder.path().join("part.db"), folder.path().join("packed"));
    Store::open(&host.database).unwrap().write_part(host.trial(), "a", None, &file, host.now_us()).unwrap();
    pack(&file, &packed).unwrap();
    let whole = std::fs::read(&packed).unwrap();
    assert!(whole.len() * 2 < std::fs::metadata(&file).unwrap().len() as usize);
    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    let changed = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let cut = [1, 4, whole.len() / 2].map(|less| whole[..whole.len() - less].to_vec());
    let flipped = [whole.len() / 3, whole.len() / 2, whole.len() - 1].map(changed);
    for bytes in cut.into_iter().chain(flipped) {
        std::fs::write(&packed, bytes).unwrap();
        let error = take(&mut store, &packed, None, host.now_us()).unwrap_err();
        assert!(error.to_string().contains("cannot be unpacked"), "{error}");
        assert!(store.trials().unwrap().is_empty());
    }
    std::fs::write(&packed, &whole).unwrap();
    assert_eq!(take(&mut store, &packed, None, host.now_us()).unwrap().new.samples, 1200);
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".heaptrial")), "{left:?}");
}

/// A part of several trials of a host, and of a trial that is not the first of its database.
#[test]
fn a_host_with_several_trials_writes_the_one_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::new(folder.path(), &plan(&[("a", 4)]), "a", 4);
    host.tick(20);
    // Rows of another trial before and after those of this one.
    rusqlite::Connection::open(&host.database)
        .unwrap()
        .execute_batch(
            "INSERT INTO trial SELECT 77, 'other', 'watch', host_id, metric, seed, repeats, planned_us, '{}', command,
               tool_version, started_wall_us, NULL, NULL, NULL FROM trial;
             INSERT INTO arm (id, trial_id, position, name, control, treatment_json) VALUES (77, 77, 0, 'x', 1, '{}');
             INSERT INTO service (id, trial_id, arm_id, name, block, position) VALUES (77, 77, 77, 'x.service', 0, 0);
             INSERT INTO life (id, service_id, start_json, started_wall_us, started_boottime_us)
               VALUES (77, 77, '\"unknown\"', 0, 0);
             INSERT INTO tick (id, trial_id, sequence, wall_us, boottime_us, cost_wall_us, cost_cpu_us)
               VALUES (7777, 77, 0, 0, 0, 0, 0);
             INSERT INTO sample (life_id, tick_id, rss_bytes) VALUES (77, 7777, 1);",
        )
        .unwrap();
    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    let first = host.gather_into(&mut store, None);
    assert_eq!(first.new.samples, 80);
    host.tick(5);
    assert_eq!(host.gather_into(&mut store, first.last).new.samples, 20);
    assert_eq!(gathered(&store), truth(&[host]));
}
