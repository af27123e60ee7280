//! What the database has of a trial or a rollout of this host.

use heaptrial_change::{Prepared, TrialStage, TrialState};
use heaptrial_host::{HostFacts, HostRoot, Instant};
use heaptrial_inspect::Service;
use heaptrial_model::{Assignment, KnownEvent, TrialKind};
use heaptrial_store::{BY_HAND, NewService, NewTrial, Store, StoreError, TrialRecord};
use serde_json::{Value, json};

use super::Host;
use crate::exit::Failure;
use crate::hint::put_back;

/// The row of this very plan.
pub fn recorded(store: &Store, prepared: &Prepared) -> Result<Option<TrialRecord>, StoreError> {
    let plan = &prepared.plan;
    let is_it = |record: &TrialRecord| record.plan.name == plan.name && record.is_of(&plan.id);
    Ok(store.trials()?.into_iter().rfind(is_it))
}

/// The same, while it goes on there.
pub fn running(store: &Store, prepared: &Prepared) -> Result<Option<TrialRecord>, StoreError> {
    Ok(recorded(store, prepared)?.filter(|record| record.ended_wall_us.is_none()))
}

/// Whether it has ended on this host.
pub fn is_over(state: &TrialState) -> bool {
    matches!(state.stage, TrialStage::Stopped | TrialStage::Reverted)
}

impl Host<'_> {
    /// The row of this very plan, in a database that may not be there yet.
    pub fn record_of(&self, prepared: &Prepared) -> Result<Option<TrialRecord>, StoreError> {
        match Store::open(&self.database) {
            Ok(store) => recorded(&store, prepared),
            Err(StoreError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends it in the database, so that the agent no longer samples it; whether nothing of it goes on there. One that was
    /// reverted before it was recorded has no row.
    #[must_use]
    pub fn end_record(&self, prepared: &Prepared) -> bool {
        let name = &prepared.plan.name;
        let ended =
            Store::open_for_writing(&self.database).and_then(|mut store| match running(&store, prepared)? {
                Some(record) => store.end_trial(record.id, Instant::now().wall_us, "completed"),
                None => Ok(()),
            });
        match ended {
            Ok(()) => true,
            // A repetition would not find it either.
            Err(error) if matches!(error, StoreError::Missing { .. }) || !error.is_passing() => {
                eprintln!("warning: {error}; it has the readings of `{name}`");
                true
            }
            Err(error) => {
                eprintln!("warning: {error}; repeat the command to end `{name}` in the database");
                false
            }
        }
    }

    /// Why nothing continues a trial that was started and of which the database has no record: its row comes before its journal.
    pub fn unrecorded(&self, prepared: &Prepared, state: &TrialState) -> Result<Option<String>, StoreError> {
        if state.stage == TrialStage::Planned || self.record_of(prepared)?.is_some() {
            return Ok(None);
        }
        let name = &prepared.plan.name;
        Ok(Some(format!(
            "{} has no record of `{name}`, which was started: stop the agent and restore the database from a backup, or put \
             the services back with {}",
            self.database.display(),
            put_back(&prepared.owner.kind, name)
        )))
    }

    pub fn require_recorded(&self, prepared: &Prepared, state: &TrialState) -> Result<(), Failure> {
        match self.unrecorded(prepared, state)? {
            Some(why) => Err(Failure::refused(why)),
            None => Ok(()),
        }
    }

    /// Records a trial or rollout before anything is changed. One that is recorded already is continued.
    pub fn record(
        &self,
        prepared: &Prepared,
        services: &[Service],
        kind: TrialKind,
        command: &str,
    ) -> Result<i64, Failure> {
        let mut store = Store::create(&self.database)?;
        if let Some(record) = recorded(&store, prepared)? {
            // A stop that was cut short had ended it.
            if record.ended_wall_us.is_some() {
                store.reopen_trial(record.id)?;
            }
            return Ok(record.id);
        }
        let plan = &prepared.plan;
        let facts = HostFacts::read(&HostRoot::default())?;
        let now = Instant::now();
        let trial = NewTrial {
            name: plan.name.clone(),
            kind,
            boot_id: facts.boot_id.clone(),
            host_facts: json!(facts),
            metric: plan.metric,
            seed: plan.seed,
            repeats: 1,
            planned_us: plan.duration.0.as_micros() as i64,
            arms: plan.arms.clone(),
            parameters: json!({ "plan": plan, "started_boottime_us": now.boottime_us, "host": prepared.host }),
            command: format!("heaptrial {command}"),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_wall_us: now.wall_us,
        };
        let expected = |arm: &str| heaptrial_change::expected_of_arm(prepared, arm).map(|it| json!(it));
        let expected: Vec<Option<Value>> = plan.arms.iter().map(|arm| expected(&arm.name)).collect();
        let id = store.begin_field_trial(&trial, &expected, &rows(prepared, services))?;
        let text = "from here on events say which services have their arm's treatment";
        store.add_event(id, None, now.wall_us, KnownEvent::TreatmentsRecorded, text)?;
        Ok(id)
    }
}

/// The services in the order in which they are restarted.
fn rows(prepared: &Prepared, services: &[Service]) -> Vec<NewService> {
    let plan = &prepared.plan;
    let by_hand = plan.by_hand();
    let row = |(position, treatment): (usize, &heaptrial_change::ServiceTreatment)| {
        // Another host of the plan may have a service of that name.
        let is_own = |found: &&Assignment| found.service == treatment.service && found.host == prepared.host;
        let assignment = plan.services.iter().find(is_own);
        let stratum = assignment.map(|found| found.stratum.as_str());
        let service = services.iter().find(|service| *service.name() == treatment.service);
        let mut attributes =
            service.map_or_else(|| json!({ "stratum": stratum }), |service| service.attributes(stratum));
        if assignment.is_some_and(|own| by_hand.contains(&own)) {
            attributes[BY_HAND] = json!(true);
        }
        NewService {
            name: treatment.service.to_string(),
            arm: plan.arms.iter().position(|arm| arm.name == treatment.arm).unwrap_or(0),
            block: assignment.map_or(0, |assignment| assignment.block),
            position: position as u32,
            attributes,
        }
    };
    prepared.services.iter().enumerate().map(row).collect()
}
