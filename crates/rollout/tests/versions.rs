//! A rollout as version 0.1.0 wrote it is read: a host may be upgraded in the middle of one.

use std::path::{Path, PathBuf};

use heaptrial_change::{TrialState, journal};
use heaptrial_rollout::{Progress, WaveStage, is_rollout, read_plan};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../change/tests/files/0.1.0/rollout")
}

#[test]
fn plan_and_progress_of_0_1_0_are_read() {
    let text = std::fs::read(folder().join("prepared.json")).unwrap();
    let prepared = serde_json::from_slice(&text).unwrap();
    assert!(is_rollout(&prepared));
    let plan = read_plan(&prepared).unwrap();
    assert_eq!((plan.arm.as_str(), plan.waves.len(), plan.measured), ("mimalloc@2.0.9", 3, false));

    let records = journal::read(&folder()).unwrap();
    let progress = Progress::of(&TrialState::of(&records), plan.waves.len()).unwrap();
    assert!(progress.rollback_proved);
    assert_eq!(progress.waves, [WaveStage::Passed, WaveStage::Passed, WaveStage::Passed]);
    assert!(progress.evidence.iter().all(|lines| !lines.is_empty()), "{:?}", progress.evidence);
    assert!(progress.reasons.is_empty());
}

#[test]
fn where_it_stood_before_each_record_is_read_too() {
    let records = journal::read(&folder()).unwrap();
    let stopped = (0..records.len()).any(|end| {
        let progress = Progress::of(&TrialState::of(&records[..end]), 3).unwrap();
        progress.waves[1] == WaveStage::Stopped && progress.reasons[0].what.contains("by itself")
    });
    assert!(stopped);
}
