//! What is stored of a trial.

use std::collections::HashMap;
use std::path::Path;

use crate::analysis::Fleet;
use heaptrial_model::TrialKind;
use heaptrial_store::{
    ArmRecord, EventRecord, ImportSource, LifeRecord, PartRecord, ServiceRecord, Store, StoreError,
    TrialRecord,
};
use jiff::Timestamp;

use crate::judgement::{JudgementError, Options};

/// The rows of a trial but for its samples. Whoever renames anything (for what leaves the house) does it here, before
/// anything is made of them.
#[derive(Debug, Clone)]
pub struct Rows {
    pub trial: TrialRecord,
    /// As it is judged: never a rollout or a watch.
    pub kind: TrialKind,
    pub arms: Vec<ArmRecord>,
    pub services: Vec<ServiceRecord>,
    pub lives: Vec<LifeRecord>,
    /// What happened, also after [`Rows::until_us`]: a contamination is dated by it.
    pub events: Vec<EventRecord>,
    pub sources: Vec<ImportSource>,
    /// Of a trial that was gathered from several hosts: what is here of each.
    pub parts: Vec<PartRecord>,
    /// Nothing that came after is of the trial, in microseconds since 1970.
    pub until_us: i64,
}

impl Rows {
    pub fn read(store: &Store, trial_id: i64) -> Result<Self, JudgementError> {
        let trial = find_trial(store, trial_id)?;
        let kind = judged_as(trial.plan.kind);
        // Services go on after a trial, and the agent may read them for a while.
        let ended = trial.ended_wall_us.filter(|_| kind == TrialKind::Field);
        let mut lives = dated_lives(store, &trial)?;
        lives.retain(|life| ended.is_none_or(|ended| life.started_wall_us <= ended));
        let parts = store.parts(trial.id)?;
        if !kind.is_lab() && !parts.is_empty() {
            // An older copy of a host's database may have been gathered later.
            lives.sort_by_key(|life| life.started_wall_us);
        }
        Ok(Self {
            arms: store.arms(trial.id)?,
            services: store.services(trial.id)?,
            lives,
            events: store.events(trial.id)?,
            sources: store.import_sources(trial.id)?,
            parts,
            until_us: ended.unwrap_or(i64::MAX),
            kind,
            trial,
        })
    }

    /// Leaves out all that came after a time in microseconds since 1970.
    pub fn until(self, until_us: i64) -> Self {
        Self { until_us: until_us.min(self.until_us), ..self }
    }

    /// What happened while the trial ran.
    pub fn events_within(&self) -> impl Iterator<Item = &EventRecord> {
        self.events.iter().filter(|event| event.wall_us <= self.until_us)
    }

    pub fn arm_position(&self, id: i64) -> Option<usize> {
        self.arms.iter().position(|record| record.id == id)
    }
}

/// The kind that a trial is judged and reported as. A rollout has one arm, over services that get its treatment one after the
/// other; a watch compares with no other arm.
fn judged_as(kind: TrialKind) -> TrialKind {
    match kind {
        TrialKind::Rollout => TrialKind::Field,
        TrialKind::Watch => TrialKind::Host,
        other => other,
    }
}

/// The lives of a trial. Those of services are dated by what the wall clock of their boot said for most of it.
pub fn dated_lives(store: &Store, trial: &TrialRecord) -> Result<Vec<LifeRecord>, StoreError> {
    let mut lives = store.lives(trial.id)?;
    if trial.plan.kind.is_on_services() {
        put_right(&mut lives, &store.clock_offsets(trial.id)?);
    }
    Ok(lives)
}

/// A wall clock that is off by less does not matter, and is left as the agent recorded it.
const CLOCK_OFF_US: i64 = 60_000_000;

/// Where the clock was wrong when a life began, as after a boot without a battery of the clock, that one would seem to be of another
/// time, before the trial or after its end.
fn put_right(lives: &mut [LifeRecord], offsets: &HashMap<String, i64>) {
    for life in lives {
        let Some(offset) = life.key.as_ref().and_then(|key| offsets.get(&key.boot_id)) else { continue };
        let started_wall_us = life.started_boottime_us.saturating_add(*offset);
        if started_wall_us.abs_diff(life.started_wall_us) > CLOCK_OFF_US.unsigned_abs() {
            life.started_wall_us = started_wall_us;
        }
    }
}

/// Reads the fleet of a trial: what [`analysis`](crate::analysis) starts from.
pub fn read_fleet(store: &Store, trial_id: i64, options: &Options) -> Result<Fleet, JudgementError> {
    Rows::read(store, trial_id)?.fleet(store, options)
}

pub fn find_trial(store: &Store, trial_id: i64) -> Result<TrialRecord, JudgementError> {
    let mut trials = store.trials()?;
    if let Some(index) = trials.iter().position(|trial| trial.id == trial_id) {
        return Ok(trials.swap_remove(index));
    }
    let known: Vec<String> =
        trials.iter().map(|trial| format!("{} (`{}`)", trial.id, trial.plan.name)).collect();
    let known = if known.is_empty() { "none at all".to_owned() } else { known.join(", ") };
    Err(JudgementError::Failed(format!("{} has no trial {trial_id}; it has {known}", store.path().display())))
}

/// Whole milliseconds: what a reader can use, and stable to compare.
pub(crate) fn rfc3339(
    database: &Path,
    what: &'static str,
    microseconds: i64,
) -> Result<String, JudgementError> {
    Timestamp::from_millisecond(microseconds.div_euclid(1000)).map(|time| time.to_string()).map_err(|_| {
        let path = database.display();
        JudgementError::Failed(format!("{path}: {microseconds} µs since 1970 is not a date ({what})"))
    })
}

#[cfg(test)]
mod tests {
    use heaptrial_model::{LifeKey, LifeStart};

    use super::*;

    #[test]
    fn lives_that_began_under_a_wrong_clock_are_dated_by_what_it_said_later() {
        let hour = 3_600_000_000;
        let life = |boot: &str, started_wall_us, started_boottime_us| LifeRecord {
            id: 1,
            service_id: 1,
            key: Some(LifeKey { boot_id: boot.into(), pid: 7, start_ticks: 1 }),
            start: LifeStart::Observed,
            started_wall_us,
            started_boottime_us,
            identity: None,
            contamination: None,
            failed: false,
            ended_wall_us: None,
            ended_boottime_us: None,
            ending: None,
        };
        let offsets = HashMap::from([("a".to_owned(), 1000 * hour)]);
        let dated = |boot, wall, boottime| {
            let mut lives = [life(boot, wall, boottime)];
            put_right(&mut lives, &offsets);
            lives[0].started_wall_us
        };
        // Years behind, and ahead.
        assert_eq!(
            (dated("a", hour, 5 * hour), dated("a", 9000 * hour, 5 * hour)),
            (1005 * hour, 1005 * hour)
        );
        // What does not matter is left, and so is what no tick shows.
        assert_eq!(dated("a", 1005 * hour + 2_000_000, 5 * hour), 1005 * hour + 2_000_000);
        assert_eq!(dated("b", hour, 5 * hour), hour);
    }
}
