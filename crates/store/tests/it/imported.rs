//! Imports are written and read whole.

use heaptrial_model::{Arm, KnownEvent, LifeStart, Metric, Treatment, TrialKind};
use heaptrial_store::{
    ImportSource, ImportedEvent, ImportedLife, ImportedSample, ImportedService, ImportedTrial, NewService,
    NewTrial, Readings, Store,
};

#[path = "../../../exchange/tests/it/support/stored.rs"]
mod stored;

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
    let service = |name: &str, position: usize| ImportedService {
        service: NewService {
            name: name.into(),
            arm: position,
            block: 0,
            position: position as u32,
            attributes: serde_json::json!({ "server": "go" }),
        },
        also_in: vec![position + 1],
        lives: vec![life.clone()],
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
            arms: vec![arm("a", true), arm("b", false), arm("c", false)],
            parameters: serde_json::json!({}),
            command: "heaptrial import torutils memory.csv".into(),
            tool_version: "0.1.0".into(),
            started_wall_us: 0,
        },
        lists: ["a.txt", "b.txt", "c.txt"].map(str::to_owned).to_vec(),
        services: vec![service("one", 0), service("two", 1)],
        events: vec![ImportedEvent {
            wall_us: 700_000,
            service: None,
            arm: Some(1),
            kind: KnownEvent::Restart.into(),
            text: "all of b".into(),
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
        let found = stored::read(&store, "fleet");
        assert_eq!(found.lists, trial.lists);
        assert_eq!(found.events, trial.events);
        assert_eq!(found.sources, trial.sources);
        assert_eq!(found.plan.arms, trial.plan.arms);
        assert_eq!(found.services.len(), 2);
        for (found, written) in found.services.iter().zip(&trial.services) {
            assert_eq!(found.lives, written.lives);
            assert!(found.arms().eq(written.arms()));
            assert_eq!(found.service.attributes["server"], "go");
        }
    }
    let life = &store.lives(trial_id).unwrap()[0];
    let readings = Readings::of_trial(&store, trial_id, Metric::Rss).unwrap();
    let found = readings.of_life(&store, life.id, life.started_boottime_us).unwrap();
    let ages: Vec<(f32, u32)> = found.iter().map(|reading| (reading.age_seconds, reading.kib)).collect();
    assert_eq!(ages, [(0.5, 1), (1.5, 2), (2.5, 8)]);
}
