//! From when on a trial's duration and looks count.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::KnownEvent;
use heaptrial_store::{Store, StoreError, TrialRecord};

/// How far a trial has begun. Its duration and looks count from when the last of its services had its treatment for the first
/// time: then no service is younger than the look. Of several hosts that is the last service of all that are in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// When the last service so far had it, in microseconds since 1970; the trial's start where none had, or where nothing says so.
    pub at_us: i64,
    /// Services that have not had it yet, and were neither put back nor taken out.
    pub open: Vec<String>,
}

impl Begun {
    pub fn read(store: &Store, trial: &TrialRecord) -> Result<Self, StoreError> {
        let first = |kind| -> Result<BTreeMap<Option<i64>, i64>, StoreError> {
            Ok(store.first_events(trial.id, kind)?.into_iter().collect())
        };
        if first(KnownEvent::TreatmentsRecorded)?.is_empty() {
            return Ok(Self { at_us: trial.plan.started_wall_us, open: Vec::new() });
        }
        let committed = first(KnownEvent::TreatmentCommitted)?;
        let mut done: BTreeSet<Option<i64>> = committed.keys().copied().collect();
        for kind in [
            KnownEvent::TreatmentFailed,
            KnownEvent::TreatmentReverted,
            KnownEvent::RevertFailed,
            KnownEvent::Dropped,
        ] {
            done.extend(first(kind)?.into_keys());
        }
        let open = store.services(trial.id)?.into_iter().filter(|service| !done.contains(&Some(service.id)));
        Ok(Self {
            at_us: committed.into_values().max().unwrap_or(trial.plan.started_wall_us),
            open: open.map(|service| service.name).collect(),
        })
    }
}
