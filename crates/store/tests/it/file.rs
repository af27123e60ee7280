//! A database whose file is deleted or replaced while it is open.

use std::fs;
use std::path::Path;

use heaptrial_model::{Arm, KnownEvent, Metric, Treatment, TrialKind};
use heaptrial_store::{NewTrial, Place, Store, StoreError};

/// A trial of this name; its row id.
fn begin(store: &mut Store, name: &str) -> i64 {
    let trial = NewTrial {
        name: name.into(),
        kind: TrialKind::Field,
        boot_id: "boot".into(),
        host_facts: serde_json::json!({}),
        metric: Metric::Rss,
        seed: 0,
        repeats: 1,
        planned_us: 0,
        arms: vec![Arm { name: "arm".into(), control: true, treatment: Treatment::default() }],
        parameters: serde_json::json!({}),
        command: String::new(),
        tool_version: String::new(),
        started_wall_us: 0,
    };
    store.begin_field_trial(&trial, &[None], &[]).unwrap()
}

fn note(store: &mut Store, trial: i64, text: &str) {
    store.add_event(trial, None, 0, KnownEvent::Note, text).unwrap();
}

fn notes(store: &Store, trial: i64) -> Vec<String> {
    store.events(trial).unwrap().into_iter().map(|event| event.text).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_was_deleted_is_put_back_with_what_was_written_since() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut store = Store::create(&path).unwrap();
    let trial = begin(&mut store, "trial");
    note(&mut store, trial, "before");
    // What is beside may be deleted as well, or stay: then it is none of the new file's.
    for beside in [true, false] {
        assert_eq!(store.place(), Place::Same);
        fs::remove_file(&path).unwrap();
        if beside {
            fs::remove_file(folder.path().join("db-wal")).unwrap();
            fs::remove_file(folder.path().join("db-shm")).unwrap();
        }
        assert_eq!(store.place(), Place::Gone);
        note(&mut store, trial, "since");
        let mut back = store.put_back().unwrap();
        assert_eq!(store.place(), Place::Replaced);
        note(&mut back, trial, "after");
        // The earlier one ends; that touches nothing of the new one.
        drop(store);
        let seen = Store::open(&path).unwrap();
        assert_eq!(notes(&seen, trial), notes(&back, trial));
        store = back;
    }
    assert_eq!(notes(&store, trial), ["before", "since", "after", "since", "after"]);
    drop(store);
    assert_eq!(names(folder.path()), ["db"]);
}

#[test]
fn what_was_replaced_is_kept_beside_and_mixed_with_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut store = Store::create(&path).unwrap();
    let trial = begin(&mut store, "first");
    note(&mut store, trial, "of the first");
    let other = folder.path().join("other");
    begin(&mut Store::create(&other).unwrap(), "second");
    fs::rename(&other, &path).unwrap();
    assert_eq!(store.place(), Place::Replaced);
    store.remove_beside().unwrap();
    let mut second = Store::create(&path).unwrap();
    for number in 1..=2 {
        assert_eq!(store.keep_beside().unwrap(), folder.path().join(format!("db.lost-{number}")));
    }
    note(&mut second, 1, "of the second");
    drop(store);
    assert_eq!(Store::open(&path).unwrap().trials().unwrap()[0].plan.name, "second");
    assert_eq!(notes(&Store::open(&path).unwrap(), 1), ["of the second"]);
    let kept = Store::kept_beside(&path);
    assert_eq!(kept.len(), 2);
    assert_eq!(notes(&Store::open(&kept[0]).unwrap(), trial), ["of the first"]);
}

#[test]
fn writing_makes_no_database_where_none_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    assert!(matches!(Store::open_for_writing(&path), Err(StoreError::Missing { .. })));
    assert!(!path.exists());
    drop(Store::create(&path).unwrap());
    assert!(Store::open_for_writing(&path).is_ok());
}
