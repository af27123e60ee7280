//! What the database holds, and what happens now.

use std::collections::HashSet;

use heaptrial_model::TrialKind;
use heaptrial_store::{EventRecord, Store};

use super::{Line, Stage, Trial};
use crate::DashboardError;

/// Trials that are read in full, newest first; of older ones only the name is shown.
const TRIALS: usize = 20;
const DAY_US: i64 = 24 * 3600 * 1_000_000;

#[derive(Debug)]
pub(crate) struct Overview {
    pub(crate) trials: Vec<Trial>,
    pub(crate) further: Vec<(i64, String)>,
}

/// The services of `trials`, each in the first of them that has it.
pub(crate) fn distinct<'a>(trials: &[&'a Trial]) -> Vec<(&'a Trial, &'a Line)> {
    let lines = trials.iter().flat_map(|trial| trial.lines.iter().map(move |line| (*trial, line)));
    let mut known = HashSet::new();
    lines.filter(|(_, line)| known.insert(line.name.as_str())).collect()
}

/// What the memory of services is: one metric, or those of trials that differ.
pub(crate) fn metrics(services: &[(&Trial, &Line)]) -> Vec<&'static str> {
    let mut found: Vec<&str> =
        services.iter().map(|(trial, _)| trial.record.plan.metric.at_once().describe()).collect();
    found.sort_unstable();
    found.dedup();
    found
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
        let running = self.trials.iter().any(|trial| trial.stage == Stage::Running);
        let silent = |trial: &&Trial| trial.stage == Stage::Silent && !trial.record.plan.kind.is_lab();
        let one = self.trials.iter().find(silent).or(self.trials.first()).map(|trial| trial.record.id);
        let is_present = |trial: &&Trial| {
            if running { trial.stage == Stage::Running } else { Some(trial.record.id) == one }
        };
        let mut present: Vec<&Trial> = self.trials.iter().filter(is_present).collect();
        present.sort_by_key(|trial| trial.record.plan.kind == TrialKind::Host);
        present
    }

    /// Events of the last day, newest first.
    pub(crate) fn last_day(&self, now_us: i64) -> Vec<(&Trial, &EventRecord)> {
        let every = self.trials.iter().flat_map(|trial| trial.events.iter().map(move |event| (trial, event)));
        let mut recent: Vec<_> = every.filter(|(_, event)| now_us - event.wall_us <= DAY_US).collect();
        recent.sort_by_key(|(_, event)| std::cmp::Reverse(event.wall_us));
        recent
    }
}
