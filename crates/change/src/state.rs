//! How far a transaction and each of its services are, by the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use heaptrial_model::{Identity, LifeKey, ServiceName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::ChangeError;
use crate::health::Running;
use crate::journal::{Action, Change, Event, Record};

/// How far a service has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Its files are about to change, or were changed; it is not yet proved.
    Changing,
    /// It runs what its arm wants.
    Committed,
    /// It did not become what its arm wants, and is not yet put back.
    Failed,
    /// It is being put back.
    Reverting,
    Reverted,
    /// It could not be put back.
    RevertFailed,
}

/// What became of a service's process since its files were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    NotRestarted,
    /// It was, or may have been, restarted; if it ended, its treatment may be why.
    Restarted,
    /// It ran as it should. If it is found stopped, somebody else stopped it.
    Settled,
}

/// What the journal says of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    #[serde(skip)]
    pub(crate) since: Since,
    pub why: Option<String>,
    /// When it was committed, microseconds since 1970.
    pub committed_wall_us: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialStage {
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrialState {
    pub stage: TrialStage,
    /// Services in which something was changed.
    pub services: BTreeMap<ServiceName, ServiceState>,
    /// Changed files that belong to no single service, in order.
    #[serde(skip)]
    pub host_changes: Vec<Change>,
    /// Services that a person is taking out, or took out.
    #[serde(skip)]
    pub dropping: BTreeSet<ServiceName>,
    /// Services that a person took out.
    pub dropped: BTreeSet<ServiceName>,
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
        let mut state = Self {
            stage: TrialStage::Planned,
            services: BTreeMap::new(),
            host_changes: Vec::new(),
            dropping: BTreeSet::new(),
            dropped: BTreeSet::new(),
            interrupted: None,
            failures: 0,
            notes: Vec::new(),
            noted_before: 0,
        };
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
            Event::HostIntent { changes } => {
                for change in changes {
                    let known = self.host_changes.iter_mut().find(|known| known.path == change.path);
                    match known {
                        // What was there before the first change is what counts.
                        Some(known) => {
                            known.after = change.after.clone();
                            let new = |folder: &&PathBuf| !known.made_folders.contains(folder);
                            let new: Vec<PathBuf> = change.made_folders.iter().filter(new).cloned().collect();
                            known.made_folders.extend(new);
                        }
                        None => self.host_changes.push(change.clone()),
                    }
                }
            }
            Event::Intent { service, arm, changes, life } => {
                let fresh = ServiceState {
                    arm: arm.clone(),
                    stage: Stage::Changing,
                    changes: changes.clone(),
                    life_before: life.clone(),
                    life: None,
                    identity: None,
                    since: Since::NotRestarted,
                    why: None,
                    committed_wall_us: None,
                };
                self.services.insert(service.clone(), fresh);
            }
            Event::Note { note } => self.notes.push((record.wall_us, note.clone())),
            Event::Restarting { service } => {
                if let Some(found) = self.services.get_mut(service) {
                    found.since = Since::Restarted;
                }
            }
            Event::Committed { service, life, identity } => {
                if let Some(found) = self.services.get_mut(service) {
                    found.stage = Stage::Committed;
                    found.life = Some(life.clone());
                    found.identity = identity.clone();
                    found.committed_wall_us = Some(record.wall_us);
                    found.why = None;
                    found.since = Since::Settled;
                }
            }
            Event::Failed { service, why } => {
                self.failures += 1;
                self.to(service, Stage::Failed);
                self.because(service, why);
            }
            Event::Reverting { service } => self.to(service, Stage::Reverting),
            Event::Reverted { service } => {
                if let Some(found) = self.services.get_mut(service) {
                    found.stage = Stage::Reverted;
                    found.since = Since::Settled;
                }
            }
            Event::Dropping { service } => {
                self.dropping.insert(service.clone());
            }
            Event::Dropped { service, reverted } => {
                self.dropped.insert(service.clone());
                self.to(service, if *reverted { Stage::Reverted } else { Stage::RevertFailed });
            }
            Event::RevertFailed { service, why } => {
                self.to(service, Stage::RevertFailed);
                self.because(service, why);
            }
            Event::Started => self.stage = TrialStage::Running,
            Event::Interrupted { why } => self.interrupted = Some(why.clone()),
            Event::HostReverted => self.host_changes.clear(),
            Event::Ended { reverted } => {
                self.stage = if *reverted { TrialStage::Reverted } else { TrialStage::Stopped };
            }
        }
    }

    /// What was recorded with [`crate::Trial::note`], with times in microseconds since 1970, oldest first.
    pub fn notes<T: DeserializeOwned>(&self) -> Result<Vec<(i64, T)>, ChangeError> {
        let note = |(at, note): &(i64, Value)| {
            Ok((*at, T::deserialize(note).map_err(|source| ChangeError::Note { source })?))
        };
        self.notes.iter().map(note).collect()
    }

    /// How many of its notes are older than its last start or resumption.
    pub fn noted_before(&self) -> usize {
        self.noted_before
    }

    /// Services that are neither committed nor as before: what a crash leaves. Not those that a person
    /// took out.
    pub fn in_flight(&self) -> Vec<ServiceName> {
        let open = |state: &ServiceState| !matches!(state.stage, Stage::Committed | Stage::Reverted);
        let kept = |name: &&ServiceName| !self.dropped.contains(*name);
        let in_flight = self.services.iter().filter(|(_, state)| open(state)).map(|(name, _)| name);
        in_flight.filter(kept).cloned().collect()
    }

    /// Services that run what their arms want, each with the life that was proved.
    pub(crate) fn committed(&self) -> Vec<(ServiceName, LifeKey)> {
        let committed = self.services.iter().filter(|(_, found)| found.stage == Stage::Committed);
        committed.filter_map(|(service, found)| Some((service.clone(), found.life.clone()?))).collect()
    }

    /// Whether a service that does not run stays so: nobody but us or its treatment ends a service that is in the middle.
    pub(crate) fn stays_stopped(&self, service: &ServiceName, running: &Running) -> bool {
        let Running::Stopped { boot_id } = running else { return false };
        let Some(found) = self.services.get(service) else { return true };
        match found.since {
            Since::Settled => true,
            Since::Restarted => false,
            // A boot is a restart too.
            Since::NotRestarted => found.life_before.as_ref().map(|life| &life.boot_id) == boot_id.as_ref(),
        }
    }

    /// Whether a service whose files are as before has to be restarted: what runs may have been started with the treatment,
    /// or nothing runs, and the treatment may be why. One of which no file was changed has none.
    pub(crate) fn may_be_treated(&self, service: &ServiceName, running: &Running) -> bool {
        let Some(found) = self.services.get(service) else { return false };
        match running {
            Running::Life(life) => !found.changes.is_empty() && found.life_before.as_ref() != Some(life),
            Running::Nothing | Running::Stopped { .. } => true,
        }
    }

    /// Services that were given up where they could not be put back.
    pub fn given_up(&self) -> impl Iterator<Item = &ServiceName> {
        let stuck = |name: &&ServiceName| {
            self.services.get(*name).is_some_and(|found| found.stage == Stage::RevertFailed)
        };
        self.dropped.iter().filter(stuck)
    }

    /// How many services stand at a stage.
    pub fn count(&self, stage: Stage) -> usize {
        self.services.values().filter(|state| state.stage == stage).count()
    }

    fn to(&mut self, service: &ServiceName, stage: Stage) {
        if let Some(found) = self.services.get_mut(service) {
            found.stage = stage;
        }
    }

    fn because(&mut self, service: &ServiceName, why: &str) {
        if let Some(found) = self.services.get_mut(service) {
            found.why = Some(why.to_owned());
        }
    }
}
