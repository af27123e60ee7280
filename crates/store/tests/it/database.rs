//! What is written is read back, and a killed writer loses nothing that was committed.

use heaptrial_model::{
    Ending, Identity, KnownEvent, LifeKey, Linkage, Metric, Sample, SlowSample, TrialKind, TrialPlan,
};
use heaptrial_store::{Access, NewTrial, Store, StoreError, TickInput};

pub fn trial() -> NewTrial {
    let specs = ["glibc".parse().unwrap(), "mimalloc@2.0.9".parse().unwrap()];
    NewTrial {
        name: "test".into(),
        kind: TrialKind::LabCommand,
        boot_id: "boot".into(),
        host_facts: serde_json::json!({ "kernel": "6.1" }),
        metric: Metric::Anon,
        seed: u64::MAX,
        repeats: 1,
        planned_us: 60_000_000,
        arms: TrialPlan::from_specs("test", &specs).unwrap().arms,
        parameters: serde_json::json!({}),
        command: "heaptrial lab run".into(),
        tool_version: "0.1.0".into(),
        started_wall_us: 1_700_000_000_000_000,
    }
}

pub fn identity() -> Identity {
    Identity { family: "glibc".into(), linkage: Linkage::Libc, ..Identity::default() }
}

fn tick(life_id: i64, sequence: i64) -> TickInput {
    let sample =
        Sample { rss_bytes: 100 + sequence as u64, anon_bytes: 50, swap_bytes: 7, ..Sample::default() };
    TickInput {
        sequence,
        wall_us: 1_700_000_000_000_000 + sequence * 1_000_000,
        boottime_us: 5_000_000 + sequence * 1_000_000,
        cost_wall_us: 10,
        cost_cpu_us: 8,
        samples: vec![(life_id, sample)],
        slow_samples: vec![(life_id, SlowSample { pss_bytes: 90, ..SlowSample::default() })],
        observations: vec![(life_id, "consensus_age_seconds", 3.5)],
        ..TickInput::default()
    }
}

fn begin(store: &mut Store) -> (i64, i64) {
    let (trial_id, arms) = store.begin_trial(&trial()).unwrap();
    let service_id = store.add_service(trial_id, arms[0], "glibc-1", 0, 0).unwrap();
    let key = LifeKey { boot_id: "boot".into(), pid: 42, start_ticks: 77 };
    (trial_id, store.add_life(service_id, &key, (1, 5_000_000), Some(&identity()), None).unwrap())
}

#[test]
fn what_is_written_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("heaptrial.db");
    let mut store = Store::create(&path).unwrap();
    let (trial_id, life_id) = begin(&mut store);
    for sequence in 0..3 {
        store.write_tick(trial_id, &tick(life_id, sequence)).unwrap();
    }
    store.end_life(life_id, (2, 8_000_000), &Ending::Planned).unwrap();
    store.add_event(trial_id, None, 5, KnownEvent::Note, "a note").unwrap();
    store.end_trial(trial_id, 9, "completed").unwrap();
    drop(store);

    let store = Store::open(&path).unwrap();
    let trials = store.trials().unwrap();
    assert_eq!(trials.len(), 1);
    assert_eq!(trials[0].plan.seed, u64::MAX);
    assert_eq!(trials[0].plan.metric, Metric::Anon);
    assert_eq!(trials[0].plan.arms, trial().arms);
    let lives = store.lives(trial_id).unwrap();
    assert!(lives[0].counts());
    let series = store.series(&lives[0], Metric::Anon).unwrap();
    assert_eq!(series.iter().map(|p| p.age_seconds).collect::<Vec<_>>(), [0.0, 1.0, 2.0]);
    assert_eq!((series[2].metric_bytes, series[2].rss_bytes), (57, 102));
    assert_eq!(store.series(&lives[0], Metric::Pss).unwrap()[0].metric_bytes, 90);
    assert!(store.series(&lives[0], Metric::Cgroup).unwrap().is_empty());
    assert_eq!(store.observations(&lives[0], "consensus_age_seconds").unwrap()[1], (1.0, 3.5));
    let cost = store.tick_summary(trial_id).unwrap();
    assert_eq!((cost.ticks, cost.samples, cost.cost_wall_us, cost.longest_gap_us), (3, 3, 30, 1_000_000));
    assert_eq!(store.events(trial_id).unwrap()[0].text, "a note");
}

#[test]
fn lives_that_crashed_or_ran_something_else_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::create(&dir.path().join("db")).unwrap();
    let (trial_id, life_id) = begin(&mut store);
    store.end_life(life_id, (2, 8), &Ending::Signaled(11)).unwrap();
    assert!(!store.lives(trial_id).unwrap()[0].counts());
    store.end_life(life_id, (2, 8), &Ending::Planned).unwrap();
    let life = |store: &Store| store.lives(trial_id).unwrap().remove(0);
    store.fail_life(life_id, "crashed by SIGSEGV").unwrap();
    assert!(!life(&store).counts() && life(&store).failed);
    // One that ran something else stays so, whatever else happened.
    store.contaminate(life_id, "jemalloc is mapped").unwrap();
    assert!(!life(&store).failed);
    store.fail_life(life_id, "crashed by SIGSEGV").unwrap();
    assert!(!life(&store).counts() && !life(&store).failed);
    assert_eq!(life(&store).contamination.as_deref(), Some("crashed by SIGSEGV; jemalloc is mapped"));
}

/// A reader that stays must not hold what it opened where it cannot share: the agent would be locked out.
#[test]
fn a_reader_that_stays_keeps_no_writer_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("heaptrial.db");
    begin(&mut Store::create(&path).unwrap());
    // In place of the index that readers share, which cannot be made then.
    let index = dir.path().join("heaptrial.db-shm");
    std::os::unix::fs::symlink(dir.path().join("nowhere/index"), &index).unwrap();
    let exclusive = Store::open(&path).unwrap();
    assert_eq!(exclusive.access(), Access::Exclusive);
    drop(exclusive);
    let reader = Store::open_to_stay(&path).unwrap();
    assert_eq!(reader.access(), Access::Immutable);
    assert!(!reader.access().shows_changes());
    assert_eq!(reader.trials().unwrap().len(), 1);
    std::fs::remove_file(&index).unwrap();
    let mut store = Store::create(&path).unwrap();
    store.end_trial(1, 9, "completed").unwrap();
    assert_eq!(Store::open_to_stay(&path).unwrap().access(), Access::Shared);
}

/// The writer is another process that is killed with SIGKILL while it writes as fast as it can.
#[test]
fn a_killed_writer_leaves_every_tick_that_it_committed() {
    const PATH: &str = "HEAPTRIAL_TEST_WRITER_DATABASE";
    if let Some(path) = std::env::var_os(PATH) {
        let mut store = Store::create(path.as_ref()).unwrap();
        let (trial_id, life_id) = begin(&mut store);
        for sequence in 0.. {
            store.write_tick(trial_id, &tick(life_id, sequence)).unwrap();
            println!("committed {sequence}");
        }
    }
    use std::io::{BufRead, BufReader};
    let dir = tempfile::tempdir().unwrap();
    for (round, ticks) in [1_usize, 7, 40].into_iter().enumerate() {
        let path = dir.path().join(format!("{round}.db"));
        let mut writer = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "database::a_killed_writer_leaves_every_tick_that_it_committed", "--nocapture"])
            .env(PATH, &path)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let committed =
            lines.map_while(Result::ok).filter(|line| line.contains("committed")).take(ticks).count();
        writer.kill().unwrap();
        writer.wait().unwrap();
        let store = Store::open(&path).unwrap();
        let trial = &store.trials().unwrap()[0];
        let lives = store.lives(trial.id).unwrap();
        let series = store.series(&lives[0], Metric::Rss).unwrap();
        assert!(series.len() >= committed, "{} of at least {committed} ticks", series.len());
        // The whole tick or none of it, in unbroken sequence.
        assert!(series.iter().enumerate().all(|(i, p)| p.rss_bytes == 100 + i as u64));
        assert_eq!(store.observations(&lives[0], "consensus_age_seconds").unwrap().len(), series.len());
        assert_eq!(trial.outcome, None);
    }
}

#[test]
fn files_that_are_no_database_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    assert!(matches!(Store::open(&path), Err(StoreError::Missing { .. })));
    std::fs::write(
        &path,
        "these are notes, and rather many of them, so that it is no empty database".repeat(20),
    )
    .unwrap();
    let error = Store::open(&path).unwrap_err().to_string();
    assert!(error.contains("notes.txt"), "{error}");
}

#[test]
fn a_database_of_a_newer_version_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    for refused in [Store::create(&path), Store::open(&path)] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StoreError::Schema { found: 99, .. }));
        let text = refused.to_string().replace(&path.display().to_string(), "DB");
        assert_eq!(
            text,
            "DB: schema version 99, this version of Heaptrial knows 1; use the version that wrote it or a newer one"
        );
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn an_unknown_kind_of_trial_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heaptrial.db");
    let mut store = Store::create(&path).unwrap();
    store.begin_trial(&trial()).unwrap();
    let edit = rusqlite::Connection::open(&path).unwrap();
    edit.execute("UPDATE trial SET kind = 'orbital'", []).unwrap();
    let error = store.trials().unwrap_err();
    assert!(!error.is_passing(), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()) && text.contains("`orbital`"), "{text}");
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
