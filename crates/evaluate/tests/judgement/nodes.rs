//! Blocks that nodes of a cluster carried out, taken into one database: it is as that of a run on one machine, and tells the nodes.

use std::path::{Path, PathBuf};

use heaptrial_evaluate::analysis::FindingKind;
use heaptrial_evaluate::judgement::{Judgement, Options};
use heaptrial_model::{Ending, KnownEvent, LifeKey, Metric, Sample, TrialKind, TrialPlan};
use heaptrial_store::{BlockOf, NewTrial, Store, TickInput};
use serde_json::{Value, json};

use crate::score::{MIB, START_US, identity, noise};

const REPEATS: u32 = 12;
const TICKS: i64 = 30;

fn facts(block: u32) -> Value {
    let old = block % 2 == 1;
    json!({
        "os": "Debian GNU/Linux 12 (bookworm)", "kernel": "6.1.0-28-amd64", "architecture": "x86_64",
        "cpu_count": if old { 16 } else { 64 }, "cpu_model": if old { "Old CPU" } else { "New CPU" },
        // A little less than the others of its kind.
        "ram_bytes": 68_719_476_736_u64 - u64::from(block) * 1_000_000,
        "thp_mode": "madvise", "cgroup_version": "v2", "boot_id": format!("boot-of-n{}", block % 4),
    })
}

fn node(block: u32) -> String {
    format!("n{}", block % 4 + 1)
}

fn trial() -> NewTrial {
    let specs = ["glibc".parse().unwrap(), "jemalloc".parse().unwrap()];
    NewTrial {
        name: "blocks".into(),
        kind: TrialKind::LabCommand,
        boot_id: "boot-of-n0".into(),
        host_facts: facts(0),
        metric: Metric::Rss,
        seed: 7,
        repeats: REPEATS,
        planned_us: TICKS * 1_000_000,
        arms: TrialPlan::from_specs("blocks", &specs).unwrap().arms,
        parameters: json!({"argv": ["x"]}),
        command: "heaptrial lab run".into(),
        tool_version: "0.1.0".into(),
        started_wall_us: START_US,
    }
}

/// Writes some blocks of a run, as a run of just these does. On old nodes the treated need `on_old` of the control, on others half.
fn write(path: &Path, blocks: impl Iterator<Item = u32>, on_old: f64) -> i64 {
    let mut store = Store::create(path).unwrap();
    let mut own = trial();
    let mut sequence = 0;
    let mut begun = None;
    for block in blocks {
        own.started_wall_us = START_US + i64::from(block) * 100_000_000;
        own.host_facts = facts(block);
        own.boot_id = facts(block)["boot_id"].as_str().unwrap().to_owned();
        let (trial_id, arms) = begun.get_or_insert_with(|| store.begin_trial(&own).unwrap()).clone();
        for (arm, arm_id) in arms.iter().enumerate() {
            let position = block * 2 + arm as u32;
            let name = format!("arm{}-repeat{}", arm + 1, block + 1);
            let service = store.add_service(trial_id, *arm_id, &name, block, position).unwrap();
            let key = LifeKey { boot_id: own.boot_id.clone(), pid: 100 + arm as i32, start_ticks: 500 };
            let born = i64::from(block) * 100_000_000 + arm as i64 * 40_000_000;
            let identity = identity(["glibc", "jemalloc"][arm]);
            let life = store.add_life(service, &key, (START_US + born, born), Some(&identity), None).unwrap();
            let effect = if arm == 0 {
                1.0
            } else if block % 2 == 1 {
                on_old
            } else {
                0.5
            };
            for tick in 1..=TICKS {
                let level = 100.0 * effect * (0.02 * noise(u64::from(block), arm as u64, 0)).exp();
                let rss_bytes = (level * MIB) as u64;
                let input = TickInput {
                    sequence,
                    wall_us: START_US + born + tick * 1_000_000,
                    boottime_us: born + tick * 1_000_000,
                    samples: vec![(
                        life,
                        Sample { rss_bytes, anon_bytes: rss_bytes, processes: 1, ..Sample::default() },
                    )],
                    ..TickInput::default()
                };
                store.write_tick(trial_id, &input).unwrap();
                sequence += 1;
            }
            let end = born + (TICKS + 1) * 1_000_000;
            store.end_life(life, (START_US + end, end), &Ending::Planned).unwrap();
            store.add_event(trial_id, Some(service), START_US + end, KnownEvent::Note, &name).unwrap();
        }
        store
            .end_trial(trial_id, START_US + i64::from(block) * 100_000_000 + 90_000_000, "completed")
            .unwrap();
    }
    begun.unwrap().0
}

/// Takes the blocks of a run in, each from a file of its own, in this order.
fn taken(folder: &Path, order: &[u32], on_old: f64) -> (Store, i64) {
    let mut store = Store::create(&folder.join("all.db")).unwrap();
    let mut trial_id = None;
    for block in order {
        let from: PathBuf = folder.join(format!("{block}.db"));
        write(&from, std::iter::once(*block), on_old);
        Store::create(&from).unwrap().into_one_file().unwrap();
        let (node, facts) = (node(*block), facts(*block));
        let of = BlockOf { run: "token", block: *block, node: &node, facts: &facts, now_us: START_US };
        let id = store.take_block(&from, &of).unwrap();
        assert_eq!(*trial_id.get_or_insert(id), id);
        // Once more changes nothing.
        assert_eq!(store.take_block(&from, &of).unwrap(), id);
    }
    let trial_id = trial_id.unwrap();
    store.end_trial(trial_id, START_US + 2_000_000_000, "completed").unwrap();
    (store, trial_id)
}

#[test]
fn blocks_taken_in_any_order_are_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let order = [3, 0, 11, 5, 1, 2, 4, 10, 6, 9, 7, 8];
    let (store, trial_id) = taken(folder.path(), &order, 0.5);
    let here = folder.path().join("here.db");
    let local_id = write(&here, 0..REPEATS, 0.5);
    let local = Store::open(&here).unwrap();

    assert_eq!(store.blocks(trial_id).unwrap(), (0..REPEATS).collect::<Vec<_>>());
    let services = |store: &Store, id| {
        let services = store.services(id).unwrap().into_iter();
        services.map(|own| (own.name, own.block, own.position)).collect::<Vec<_>>()
    };
    assert_eq!(services(&store, trial_id), services(&local, local_id));
    // Each life with its own readings.
    let series = |store: &Store, id| {
        let lives = store.lives(id).unwrap();
        let mut series: Vec<_> = lives
            .iter()
            .map(|life| (life.started_wall_us, store.series(life, Metric::Rss).unwrap()))
            .collect();
        series.sort_by_key(|(started, _)| *started);
        series
    };
    assert_eq!(series(&store, trial_id), series(&local, local_id));
    assert_eq!(store.tick_summary(trial_id).unwrap().ticks, 2 * u64::from(REPEATS) * TICKS as u64);
    let events = store.events(trial_id).unwrap();
    assert_eq!(events.len(), 2 * REPEATS as usize);
    let of_block_12 = events.iter().find(|event| event.text == "arm1-repeat12").unwrap();
    assert_eq!(of_block_12.host.as_deref(), Some("n4"));
    // The same figures, by the same procedure.
    let ratio = |store: &Store, id| {
        let judgement = Judgement::of(store, id, &Options::default()).unwrap();
        let ratio = judgement.ratio_of(1, 0).unwrap().estimate;
        (ratio.value, ratio.interval())
    };
    assert_eq!(ratio(&store, trial_id), ratio(&local, local_id));
    // The start is that of the first, whenever it came.
    let trials = store.trials().unwrap();
    assert_eq!((trials.len(), trials[0].plan.started_wall_us), (1, START_US));
    assert_eq!(store.parts(trial_id).unwrap().len(), 4);
}

#[test]
fn an_arm_that_does_otherwise_on_another_kind_of_node_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (store, trial_id) = taken(folder.path(), &(0..REPEATS).collect::<Vec<_>>(), 0.7);
    let judgement = Judgement::of(&store, trial_id, &Options::default()).unwrap();
    let hosts: Vec<&str> = judgement.by_host[1].hosts.iter().map(|on| on.host.as_str()).collect();
    assert_eq!(hosts, ["New CPU, 64 processors", "Old CPU, 16 processors"]);
    let found = |judgement: &Judgement| {
        judgement.analysis.findings.iter().any(|finding| finding.kind == FindingKind::DiffersByHost)
    };
    assert!(found(&judgement), "{:?}", judgement.by_host[1]);

    let same = tempfile::tempdir().unwrap();
    let (store, trial_id) = taken(same.path(), &(0..REPEATS).collect::<Vec<_>>(), 0.5);
    let judgement = Judgement::of(&store, trial_id, &Options::default()).unwrap();
    assert!(!found(&judgement), "{:?}", judgement.by_host[1]);
}
