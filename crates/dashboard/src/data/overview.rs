//! What the database holds, and what happens now.

use heaptrial_model::TrialKind;
use heaptrial_store::{EventRecord, Store};

use super::{Stage, Trial};
use crate::DashboardError;

/// Trials that are read in full, newest first; of older ones only the name is told.
const TRIALS: usize = 20;
const DAY_US: i64 = 24 * 3600 * 1_000_000;

/// All trials.
#[derive(Debug)]
pub(crate) struct Overview {
    /// Newest first.
    pub(crate) trials: Vec<Trial>,
    /// Trials that are older than those.
    pub(crate) further: Vec<(i64, String)>,
}

/// An event and the trial that it is of.
pub(crate) struct TrialEvent<'a> {
    pub(crate) trial: &'a Trial,
    pub(crate) event: &'a EventRecord,
}

impl Overview {
    pub(crate) fn read(store: &Store, now_us: i64) -> Result<Self, DashboardError> {
        let mut records = store.trials()?;
        // What runs comes before what ran, however old it is.
        records.sort_by_key(|record| (record.ended_wall_us.is_none(), record.id));
        let older = records.len().saturating_sub(TRIALS);
        let further = records.drain(..older).rev().map(|record| (record.id, record.plan.name)).collect();
        let trials: Result<_, _> =
            records.into_iter().rev().map(|record| Trial::read(store, record, now_us)).collect();
        Ok(Self { trials: trials?, further })
    }

    /// The trials whose services are shown: those that have not ended, or the newest. What samples the host comes last,
    /// because its services may be in a trial.
    pub(crate) fn present(&self) -> Vec<&Trial> {
        let is_present = self.presence();
        let mut present: Vec<&Trial> = self.trials.iter().filter(|trial| is_present(trial)).collect();
        present.sort_by_key(|trial| trial.record.plan.kind == TrialKind::Host);
        present
    }

    /// The same in any order.
    pub(crate) fn present_mut(&mut self) -> impl Iterator<Item = &mut Trial> {
        let is_present = self.presence();
        self.trials.iter_mut().filter(move |trial| is_present(trial))
    }

    fn presence(&self) -> impl Fn(&Trial) -> bool + use<> {
        let running = self.trials.iter().any(|trial| trial.stage == Stage::Running);
        let silent = |trial: &&Trial| trial.stage == Stage::Silent && !trial.is_lab();
        let one = self.trials.iter().find(silent).or(self.trials.first()).map(|trial| trial.record.id);
        move |trial| if running { trial.stage == Stage::Running } else { Some(trial.record.id) == one }
    }

    /// Events of the last day, newest first.
    pub(crate) fn last_day(&self, now_us: i64) -> Vec<TrialEvent<'_>> {
        let every = self
            .trials
            .iter()
            .flat_map(|trial| trial.events.iter().map(move |event| TrialEvent { trial, event }));
        let mut recent: Vec<TrialEvent<'_>> =
            every.filter(|of| now_us - of.event.wall_us <= DAY_US).collect();
        recent.sort_by_key(|of| std::cmp::Reverse(of.event.wall_us));
        recent
    }
}
