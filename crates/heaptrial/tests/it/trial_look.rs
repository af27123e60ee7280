//! `heaptrial trial look` on databases as a start and the agent write them.

use crate::support;
use crate::trial;

use std::path::Path;
use std::process::Output;
use std::time::{SystemTime, UNIX_EPOCH};

use heaptrial_model::{KnownEvent, TrialKind};
use heaptrial_store::Store;
use support::{heaptrial, json, stderr, stdout};
use trial::{FieldArm, FieldTrial, HOUR_US, four_arms};

const INCONCLUSIVE: i32 = 4;
const REFUSED: i32 = 3;

/// A trial that began so many hours ago, with data until now.
fn began(hours: i64, trial: FieldTrial) -> FieldTrial {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
    FieldTrial { start_us: now - hours * HOUR_US, hours, ..trial }
}

fn without_difference() -> FieldTrial {
    let mut trial = four_arms(0);
    trial.arms.truncate(2);
    trial.arms[1] = FieldArm { name: "the-same", ..trial.arms[0].clone() };
    trial
}

fn folder(trial: &FieldTrial) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    trial.write(&folder.path().join("host.db"));
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    heaptrial(folder).args(arguments).args(["--db", "host.db"]).output().unwrap()
}

fn look(folder: &Path, arguments: &[&str]) -> Output {
    run(folder, &[&["trial", "look", "five-way"], arguments].concat())
}

fn looks(folder: &Path) -> usize {
    let store = Store::open(&folder.join("host.db")).unwrap();
    let id = store.trials().unwrap()[0].id;
    store.looks(id).unwrap().len()
}

#[test]
fn a_look_that_is_not_due_is_refused_and_a_peek_decides_nothing() {
    let folder = folder(&began(20, four_arms(0)));
    let refused = look(folder.path(), &[]);
    assert_eq!(refused.status.code(), Some(REFUSED), "{}", stderr(&refused));
    let peek = look(folder.path(), &["--peek"]);
    assert_eq!(peek.status.code(), Some(0), "{}", stderr(&peek));
    let text = stdout(&peek);
    assert!(text.contains("A peek decides nothing.") && text.contains("mimalloc-2.0.9"), "{text}");
    for absent in ["Ratio", "Adj. p", "Growth", "decided:"] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
    let json = json(&look(folder.path(), &["--peek", "--json"]));
    assert!(json["arms"][1]["level_bytes"].is_u64() && json["arms"][1]["ratio"].is_null(), "{json:#}");
    assert_eq!(looks(folder.path()), 0);
}

#[test]
fn a_look_that_is_due_decides_once() {
    let folder = folder(&began(30, four_arms(0)));
    let taken = look(folder.path(), &[]);
    assert_eq!(taken.status.code(), Some(0), "{}\n{}", stdout(&taken), stderr(&taken));
    let text = stdout(&taken);
    let line = text.lines().find(|line| line.starts_with("decided: ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.starts_with("decided: mimalloc-2.0.9 needs 0.26 ("), "{line}");
    assert!(text.contains("7 of 8") && text.contains("as assigned"), "{text}");
    assert_eq!(looks(folder.path()), 1);
    let again = look(folder.path(), &[]);
    assert_eq!((again.status.code(), stdout(&again)), (Some(0), text));
    assert!(stderr(&again).contains("was taken before; the next one is planned in"), "{}", stderr(&again));
    assert_eq!(looks(folder.path()), 1);
    let json = json(&look(folder.path(), &["--json"]));
    assert_eq!(
        (&json["schema_version"], &json["number"], &json["decision"]),
        (&1.into(), &1.into(), &"difference".into())
    );
    assert_eq!(json["arms"][1]["standing"], "less");
    let alpha = json["alpha"].as_f64().unwrap();
    // The first of four looks at a tenth of the time may err next to never.
    assert!(alpha > 0.0 && alpha < 1e-8, "{alpha}");
}

#[test]
fn looks_that_were_missed_are_taken_in_order() {
    let folder = folder(&began(24 * 7, four_arms(0)));
    let taken = look(folder.path(), &[]);
    assert_eq!(taken.status.code(), Some(0), "{}", stderr(&taken));
    let text = stdout(&taken);
    for number in ["look 1 of 4", "look 2 of 4", "look 3 of 4"] {
        assert!(text.contains(number), "{text}");
    }
    assert_eq!(looks(folder.path()), 3);
}

#[test]
fn a_look_that_the_data_do_not_reach_is_refused_unless_the_gap_is_accepted() {
    // The agent died after 12 of 24 hours.
    let folder = folder(&FieldTrial { hours: 12, ..began(25, four_arms(0)) });
    let refused = look(folder.path(), &[]);
    assert_eq!((refused.status.code(), looks(folder.path())), (Some(REFUSED), 0), "{}", stdout(&refused));
    let taken = json(&look(folder.path(), &["--accept-gap", "--json"]));
    assert_eq!((&taken["number"], &taken["accepted_gap_seconds"]), (&1.into(), &43_200.0.into()));
    assert_eq!(looks(folder.path()), 1);
}

/// Services of which the start never came to have no age of a look; whoever leaves them so says it.
#[test]
fn a_look_waits_for_services_that_have_not_had_their_treatment() {
    let trial = began(30, four_arms(0));
    let folder = folder(&trial);
    let mut store = Store::open_for_writing(&folder.path().join("host.db")).unwrap();
    let id = store.trials().unwrap()[0].id;
    store.add_event(id, None, trial.start_us, KnownEvent::TreatmentsRecorded, "").unwrap();
    let services = store.services(id).unwrap();
    for service in &services[1..] {
        let at = trial.start_us + HOUR_US;
        store.add_event(id, Some(service.id), at, KnownEvent::TreatmentCommitted, "").unwrap();
    }
    drop(store);
    let refused = look(folder.path(), &[]);
    assert_eq!((refused.status.code(), looks(folder.path())), (Some(REFUSED), 0), "{}", stdout(&refused));
    assert!(stderr(&refused).contains(&services[0].name), "{}", stderr(&refused));
    let taken = json(&look(folder.path(), &["--accept-gap", "--json"]));
    assert_eq!(
        (&taken["number"], &taken["arms"][0]["services_treated"]),
        (&1.into(), &7.into()),
        "{taken:#}"
    );
}

/// A look is taken once: one host whose data end before it would be left out for ever.
#[test]
fn a_look_waits_for_the_host_that_was_gathered_least_lately() {
    let trial = began(30, four_arms(0));
    let folder = folder(&trial);
    let now_us = trial.start_us + 30 * HOUR_US;
    let part = |host: &str, last_us: i64, ended_us: Option<i64>| {
        let connection = rusqlite::Connection::open(folder.path().join("host.db")).unwrap();
        let sql =
            "INSERT OR REPLACE INTO part SELECT id, ?1, '{}', started_wall_us, ?2, 7, ?3, ?4 FROM trial";
        connection.execute(sql, rusqlite::params![host, ended_us, last_us, now_us]).unwrap();
    };
    part("alpha", now_us, None);
    for ended in [None, Some(trial.start_us + 5 * HOUR_US)] {
        part("beta", trial.start_us + 5 * HOUR_US, ended);
        let refused = look(folder.path(), &[]);
        assert_eq!(refused.status.code(), Some(REFUSED), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("on host `beta`"), "{}", stderr(&refused));
        assert_eq!(looks(folder.path()), 0);
    }
    part("beta", now_us, None);
    // Of beta there is a part, and here nobody read anything on it.
    let taken = look(folder.path(), &["--accept-gap"]);
    assert_ne!(taken.status.code(), Some(REFUSED), "{}", stderr(&taken));
    assert_eq!(looks(folder.path()), 1);
}

#[test]
fn after_its_end_a_trial_has_no_look_to_come() {
    let folder = folder(&FieldTrial { outcome: Some("completed"), ..began(30, four_arms(0)) });
    let taken = look(folder.path(), &[]);
    assert_eq!(taken.status.code(), Some(0), "{}", stderr(&taken));
    let again = look(folder.path(), &[]);
    assert_eq!((again.status.code(), looks(folder.path())), (Some(0), 1), "{}", stderr(&again));
    let early = self::folder(&FieldTrial { outcome: Some("completed"), ..began(12, four_arms(0)) });
    let refused = look(early.path(), &[]);
    assert_eq!((refused.status.code(), looks(early.path())), (Some(REFUSED), 0), "{}", stdout(&refused));
}

#[test]
fn without_a_difference_a_look_is_inconclusive() {
    let folder = folder(&began(25, without_difference()));
    for _ in 0..2 {
        let taken = look(folder.path(), &[]);
        assert_eq!(taken.status.code(), Some(INCONCLUSIVE), "{}\n{}", stdout(&taken), stderr(&taken));
    }
}

#[test]
fn what_is_no_running_field_trial_is_refused() {
    let folder = folder(&FieldTrial { kind: TrialKind::Host, ..began(25, without_difference()) });
    let refused = look(folder.path(), &[]);
    assert_eq!(refused.status.code(), Some(REFUSED));
    assert!(stderr(&refused).contains("has no field trial `five-way`; it has none"), "{}", stderr(&refused));
    let missing = heaptrial(folder.path()).args(["trial", "look", "x", "--db", "none.db"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(REFUSED));
    assert!(
        stderr(&missing).contains("none.db") && !folder.path().join("none.db").exists(),
        "{}",
        stderr(&missing)
    );
}

#[test]
fn a_running_trial_has_a_report() {
    let folder = folder(&began(30, four_arms(0)));
    let report = run(folder.path(), &["report", "five-way", "--json", "--out", "report"]);
    assert_eq!(report.status.code(), Some(0), "{}", stderr(&report));
    let json = json(&report);
    assert_eq!((&json["kind"], &json["outcome"]), (&"field".into(), &"unfinished".into()));
    assert_eq!(json["looks"].as_array().unwrap().len(), 4);
    let markdown = std::fs::read_to_string(folder.path().join("report/report.md")).unwrap();
    assert!(markdown.contains("this is none of its planned looks"), "{markdown}");
}
