//! Where a rollout stands, by its journal.

use std::fmt;

use heaptrial_change::{ChangeError, TrialState};
use serde::{Deserialize, Serialize};

use crate::rollout::step::{Boot, Reason, RolloutStep};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaveStage {
    Waiting,
    Begun,
    Soaking,
    Passed,
    /// Its gate, or a failure, stopped the rollout, and it was put back.
    Stopped,
    RolledBack,
}

/// How far a rollout of a host has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Course {
    #[serde(rename = "not begun")]
    NotBegun,
    #[serde(rename = "in progress")]
    InProgress,
    #[serde(rename = "paused")]
    Paused,
    #[serde(rename = "stopped")]
    Stopped,
    /// No process works on it, and it neither ended nor is paused.
    #[serde(rename = "cut short")]
    CutShort,
    #[serde(rename = "complete")]
    Complete,
    /// Every wave had passed, and some were put back since.
    #[serde(rename = "complete but for waves that were rolled back")]
    CompleteInPart,
    #[serde(rename = "being rolled back")]
    BeingRolledBack,
    #[serde(rename = "rolled back")]
    RolledBack,
}

/// In the words of `heaptrial rollout status`.
impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Progress {
    pub waves: Vec<WaveStage>,
    pub applied: Vec<Option<Boot>>,
    pub evidence: Vec<Vec<String>>,
    pub reasons: Vec<Reason>,
    /// Whether it stopped since it was begun or resumed last.
    pub stopped_since: bool,
    pub rollback_proved: bool,
}

impl Progress {
    /// Of a rollout of so many waves.
    pub fn of(state: &TrialState, waves: usize) -> Result<Self, ChangeError> {
        let mut progress = Self {
            waves: vec![WaveStage::Waiting; waves],
            applied: vec![None; waves],
            evidence: vec![Vec::new(); waves],
            reasons: Vec::new(),
            stopped_since: false,
            rollback_proved: false,
        };
        for (index, (_, step)) in state.notes()?.iter().enumerate() {
            let is_stop = matches!(step, RolloutStep::Stopped { .. });
            progress.stopped_since |= is_stop && index >= state.noted_before();
            progress.take(step);
        }
        Ok(progress)
    }

    fn take(&mut self, step: &RolloutStep) {
        let mut to = |wave: u32, stage| {
            if let Some(found) = self.waves.get_mut(wave as usize) {
                *found = stage;
            }
        };
        match step {
            RolloutStep::RollbackProved { .. } => self.rollback_proved = true,
            RolloutStep::Paused | RolloutStep::Interrupted => {}
            RolloutStep::WaveBegun { wave } => {
                to(*wave, WaveStage::Begun);
                self.reasons.clear();
            }
            RolloutStep::WaveApplied { wave, boot } => {
                to(*wave, WaveStage::Soaking);
                if let Some(at) = self.applied.get_mut(*wave as usize) {
                    *at = Some(boot.clone());
                }
            }
            RolloutStep::WavePassed { wave, evidence } => {
                to(*wave, WaveStage::Passed);
                if let Some(found) = self.evidence.get_mut(*wave as usize) {
                    found.clone_from(evidence);
                }
            }
            RolloutStep::Stopped { wave, reasons } => {
                to(*wave, WaveStage::Stopped);
                self.reasons.clone_from(reasons);
            }
            RolloutStep::WaveRolledBack { wave } => to(*wave, WaveStage::RolledBack),
        }
    }

    /// The first wave that has not passed.
    pub fn current(&self) -> Option<usize> {
        self.waves.iter().position(|stage| *stage != WaveStage::Passed)
    }
}

#[cfg(test)]
mod tests {
    use heaptrial_change::journal::{Event, Record};

    use super::*;

    fn progress(steps: &[RolloutStep]) -> Progress {
        let record = |(at, step): (usize, &RolloutStep)| Record {
            wall_us: at as i64,
            event: Event::Note { note: serde_json::to_value(step).unwrap() },
        };
        let records: Vec<Record> = steps.iter().enumerate().map(record).collect();
        Progress::of(&TrialState::of(&records), 3).unwrap()
    }

    #[test]
    fn a_rollout_goes_on_at_the_wave_that_has_not_passed() {
        let begun = |wave| RolloutStep::WaveBegun { wave };
        let boot = Boot { id: "now".into(), boottime_us: 1 };
        let applied = |wave| RolloutStep::WaveApplied { wave, boot: boot.clone() };
        let passed = |wave| RolloutStep::WavePassed { wave, evidence: vec!["all well".into()] };
        assert_eq!(progress(&[]).current(), Some(0));
        let mut steps = vec![begun(0), applied(0), passed(0), begun(1), applied(1)];
        let now = progress(&steps);
        assert_eq!(
            (now.current(), now.waves[1], now.applied[1].clone()),
            (Some(1), WaveStage::Soaking, Some(boot.clone()))
        );
        let reason = Reason { service: None, what: "too much".into() };
        steps.push(RolloutStep::Stopped { wave: 1, reasons: vec![reason.clone()] });
        let now = progress(&steps);
        assert_eq!((now.current(), now.waves[1], &now.reasons), (Some(1), WaveStage::Stopped, &vec![reason]));
        steps.extend([begun(1), applied(1), passed(1), begun(2), applied(2), passed(2)]);
        let now = progress(&steps);
        assert_eq!(
            (now.current(), now.reasons.len(), &now.evidence[2]),
            (None, 0, &vec!["all well".to_owned()])
        );
        steps.push(RolloutStep::WaveRolledBack { wave: 2 });
        assert_eq!(progress(&steps).current(), Some(2));
    }
}
