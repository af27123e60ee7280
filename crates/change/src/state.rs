//! How far a transaction and each of its services are, by the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use heaptrial_model::{Identity, LifeKey, ServiceName};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ChangeError;
use crate::health::Running;
use crate::journal::{Action, Change, Event, Record};

/// How far a service has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Its files are about to change, or were changed; it is not yet proved.
    #[default]
    Changing,
    /// It runs what its arm wants.
    Committed,
    /// It is being put back, perhaps because it did not become what its arm wants.
    Reverting,
    Reverted,
    /// It could not be put back.
    RevertFailed,
}

/// What the journal says of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ServiceState {
    pub arm: String,
    pub stage: Stage,
    #[serde(skip)]
    pub changes: Vec<Change>,
    /// The life that ran before the change.
    pub life_before: Option<LifeKey>,
    /// The life that was proved.
    pub life: Option<LifeKey>,
    pub identity: Option<Identity>,
    /// Whether it ran as it should after its last restart: if it is found stopped, somebody else stopped it.
    #[serde(skip)]
    pub(crate) is_settled: bool,
    pub why: Option<String>,
    /// When it was committed, microseconds since 1970.
    pub committed_wall_us: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialStage {
    #[default]
    Planned,
    /// Being started, or interrupted while it was.
    Starting,
    Running,
    /// Being reverted, or interrupted while it was.
    Reverting,
    /// Ended; services keep what they run.
    Stopped,
    /// Ended; everything is as before.
    Reverted,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TrialState {
    pub stage: TrialStage,
    /// Services in which something was changed.
    pub services: BTreeMap<ServiceName, ServiceState>,
    /// Changed files that belong to no single service, in order.
    #[serde(skip)]
    pub host_changes: Vec<Change>,
    /// Services that a person took out, or is taking out.
    pub dropped: BTreeSet<ServiceName>,
    /// Those of them that were given up where they could not be put back.
    pub given_up: BTreeSet<ServiceName>,
    /// Why the last process stopped before everything was done.
    pub interrupted: Option<String>,
    /// Services that failed, over the whole run.
    pub failures: u32,
    /// What the crate above recorded, with times in microseconds since 1970.
    #[serde(skip)]
    notes: Vec<(i64, Value)>,
    /// How many of these there were when it was begun or resumed last.
    #[serde(skip)]
    noted_before: usize,
}

impl TrialState {
    pub fn of(records: &[Record]) -> Self {
        let mut state = Self::default();
        records.iter().for_each(|record| state.apply(record));
        state
    }

    /// Takes in one more record.
    pub fn apply(&mut self, record: &Record) {
        match &record.event {
            Event::Opened { action, .. } => {
                self.interrupted = None;
                match action {
                    Action::Start | Action::Resume => {
                        self.stage = TrialStage::Starting;
                        // Each attempt has its own budget.
                        self.failures = 0;
                        self.noted_before = self.notes.len();
                    }
                    Action::Revert => self.stage = TrialStage::Reverting,
                    Action::Recover | Action::Drop | Action::Stop => {}
                }
            }
            Event::Intent { service: None, changes, .. } => {
                for change in changes {
                    let known = self.host_changes.iter_mut().find(|known| known.path == change.path);
                    let Some(known) = known else {
                        self.host_changes.push(change.clone());
                        continue;
                    };
                    // What was there before the first change is what counts.
                    known.after = change.after.clone();
                    let new = |folder: &&PathBuf| !known.made_folders.contains(folder);
                    let new: Vec<PathBuf> = change.made_folders.iter().filter(new).cloned().collect();
                    known.made_folders.extend(new);
                }
            }
            Event::Intent { service: Some(service), arm, changes, life } => {
                let (arm, changes) = (arm.clone().unwrap_or_default(), changes.clone());
                let fresh = ServiceState { arm, changes, life_before: life.clone(), ..Default::default() };
                self.services.insert(service.clone(), fresh);
            }
            Event::Note { note } => self.notes.push((record.wall_us, note.clone())),
            Event::Committed { service, life, identity } => {
                if let Some(found) = self.services.get_mut(service) {
                    found.stage = Stage::Committed;
                    found.life = Some(life.clone());
                    found.identity = identity.clone();
                    found.committed_wall_us = Some(record.wall_us);
                    found.why = None;
                    found.is_settled = true;
                }
            }
            Event::Revert { service, stage, why } => {
                self.failures += u32::from(*stage == Stage::Reverting && why.is_some());
                if let Some(found) = self.services.get_mut(service) {
                    found.stage = *stage;
                    found.why = why.clone().or(found.why.take());
                    found.is_settled |= *stage == Stage::Reverted;
                }
            }
            Event::Dropped { service, given_up } => {
                self.dropped.insert(service.clone());
                if *given_up {
                    self.given_up.insert(service.clone());
                }
            }
            Event::Ended { stage, why } => {
                self.stage = *stage;
                self.interrupted.clone_from(why);
                if *stage == TrialStage::Reverted {
                    self.host_changes.clear();
                }
            }
        }
    }

    /// What was recorded with [`crate::Trial::note`], with times in microseconds since 1970, oldest first.
    pub fn notes<T: DeserializeOwned>(&self) -> Result<Vec<(i64, T)>, ChangeError> {
        let note = |(at, note): &(i64, Value)| Ok((*at, T::deserialize(note).map_err(ChangeError::note)?));
        self.notes.iter().map(note).collect()
    }

    /// How many of its notes are older than its last start or resumption.
    pub fn noted_before(&self) -> usize {
        self.noted_before
    }

    /// Services that are neither committed nor as before: what a crash leaves. Not those that were given up.
    pub fn in_flight(&self) -> Vec<ServiceName> {
        let open = |state: &ServiceState| !matches!(state.stage, Stage::Committed | Stage::Reverted);
        let in_flight =
            self.services.iter().filter(|(name, state)| open(state) && !self.given_up.contains(*name));
        in_flight.map(|(name, _)| name.clone()).collect()
    }

    /// How far a service has come; `None` of one that was not changed yet.
    pub fn stage_of(&self, service: &ServiceName) -> Option<Stage> {
        Some(self.services.get(service)?.stage)
    }

    /// Whether something of a service was changed, and it is not as before again.
    pub fn is_changed(&self, service: &ServiceName) -> bool {
        self.stage_of(service).is_some_and(|stage| stage != Stage::Reverted)
    }

    /// Whether a revert comes to a service: it is changed, and nobody gave it up.
    pub(crate) fn is_to_revert(&self, service: &ServiceName) -> bool {
        self.is_changed(service) && !self.given_up.contains(service)
    }

    /// Whether a service was stopped by somebody else, and stays so: of one in the middle its treatment may be why.
    pub(crate) fn stays_stopped(&self, service: &ServiceName, running: &Running) -> bool {
        let is_settled = self.services.get(service).is_none_or(|found| found.is_settled);
        *running == Running::Stopped && is_settled
    }

    /// Whether a service whose files are as before has to be restarted: what runs may have been started with the treatment,
    /// or nothing runs, and the treatment may be why. One of which no file was changed has none.
    pub(crate) fn may_be_treated(&self, service: &ServiceName, running: &Running) -> bool {
        let Some(found) = self.services.get(service) else { return false };
        match running {
            Running::Life(life) => !found.changes.is_empty() && found.life_before.as_ref() != Some(life),
            Running::Nothing | Running::Stopped => true,
        }
    }

    /// Whether a service has its treatment.
    pub fn is_committed(&self, service: &ServiceName) -> bool {
        self.stage_of(service) == Some(Stage::Committed)
    }

    /// How many services are at a stage.
    pub fn count(&self, stage: Stage) -> usize {
        self.services.values().filter(|state| state.stage == stage).count()
    }
}
