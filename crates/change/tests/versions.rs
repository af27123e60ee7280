//! What earlier versions left on a host is read: it may be upgraded in the middle of a trial.

use std::path::{Path, PathBuf};

use heaptrial_change::journal::{self, Action, Event};
use heaptrial_change::{Owner, Prepared, Stage, TrialStage, TrialState};
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/0.1.0").join(name)
}

fn prepared(name: &str) -> Prepared {
    serde_json::from_slice(&std::fs::read(folder(name).join("prepared.json")).unwrap()).unwrap()
}

/// The records of an old journal, and where they end.
fn state(name: &str) -> (Vec<Event>, TrialState) {
    let records = journal::read(&folder(name)).unwrap();
    let state = TrialState::of(&records);
    (records.into_iter().map(|record| record.event).collect(), state)
}

#[test]
fn a_trial_of_0_1_0_with_a_failure_a_kill_and_its_recovery_is_read() {
    let prepared = prepared("trial");
    assert_eq!((prepared.owner, prepared.host, prepared.services.len()), (Owner::trial(), None, 5));
    let (events, state) = state("trial");
    assert_eq!(events.len(), 65);
    let actions: Vec<Action> = events
        .iter()
        .filter_map(|event| if let Event::Opened { action, .. } = event { Some(*action) } else { None })
        .collect();
    assert_eq!(actions, [Action::Start, Action::Resume, Action::Recover, Action::Resume, Action::Stop]);
    assert_eq!((state.stage, state.count(Stage::Committed)), (TrialStage::Stopped, 5));
    // The timer by its old name is the transaction's own, to be taken away.
    let old = |path: &PathBuf| path.ends_with("heaptrial-dead-man-five.timer");
    assert!(state.host_changes.iter().any(|change| old(&change.path)));
}

#[test]
fn a_rollout_of_0_1_0_is_read_with_what_it_froze_and_noted() {
    let prepared = prepared("rollout");
    let Owner { kind, takes_over, frozen } = prepared.owner;
    assert_eq!((kind.as_str(), takes_over), ("rollout", true));
    assert_eq!(frozen["waves"].as_array().unwrap().len(), 3);
    let (events, state) = state("rollout");
    assert_eq!(events.len(), 158);
    let notes: Vec<(i64, Value)> = state.notes().unwrap();
    assert_eq!(notes.len(), 17);
    assert_eq!(notes[0].1["kind"], "wave_begun");
    assert!(notes.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    assert_eq!((state.stage, state.count(Stage::Reverted)), (TrialStage::Reverted, 5));
    let failed = |event: &Event| matches!(event, Event::RevertFailed { why, .. } if why.contains("+Environment=MINE=1"));
    assert!(events.iter().any(failed));
}

#[test]
fn what_is_written_now_is_read_again() {
    for name in ["trial", "rollout"] {
        let prepared = prepared(name);
        let written = serde_json::to_vec_pretty(&prepared).unwrap();
        assert_eq!(serde_json::from_slice::<Prepared>(&written).unwrap(), prepared);
        for event in state(name).0 {
            let line = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event, "{line}");
        }
    }
}

#[test]
fn packages_tell_a_rollout_by_these_words() {
    // The maintainer script of the Debian package greps for them.
    let written = serde_json::to_string_pretty(&prepared("rollout")).unwrap();
    assert!(written.lines().any(|line| line.starts_with("    \"kind\": \"rollout\",")), "{written}");
    let written = serde_json::to_string_pretty(&prepared("trial")).unwrap();
    assert!(!written.contains("\"kind\": \"rollout\""));
}
