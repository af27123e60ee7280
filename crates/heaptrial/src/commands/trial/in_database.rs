//! What the database has of a trial of this host.

use std::path::Path;

use heaptrial_change::{Prepared, TrialStage, TrialState};
use heaptrial_fleet::rollout::is_rollout;
use heaptrial_host::Instant;
use heaptrial_store::{Store, StoreError, TrialRecord};

use crate::exit::Failure;

/// What the database has of it.
pub fn recorded(store: &Store, prepared: &Prepared) -> Result<Option<TrialRecord>, StoreError> {
    let plan = &prepared.plan;
    let same = |record: &TrialRecord| record.plan.name == plan.name && record.is_of(&plan.id);
    Ok(store.trials()?.into_iter().rfind(same))
}

/// The same, while it goes on there.
pub fn running(store: &Store, prepared: &Prepared) -> Result<Option<TrialRecord>, StoreError> {
    Ok(recorded(store, prepared)?.filter(|record| record.ended_wall_us.is_none()))
}

/// Ends a trial or a rollout in the database, so that the agent need not sample it any more; whether nothing of it goes on there. One that was
/// reverted before it was recorded has no row.
#[must_use]
pub fn end(database: &Path, prepared: &Prepared) -> bool {
    end_found(database, &prepared.plan.name, |store| running(store, prepared))
}

/// The same of one whose folder is gone.
#[must_use]
pub fn end_named(database: &Path, name: &str) -> bool {
    let is_named = |record: &TrialRecord| record.plan.name == name && record.plan.kind.treats_services();
    end_found(database, name, |store| Ok(store.running_trials()?.into_iter().find(is_named)))
}

/// Whether one that has ended on this host goes on in the database, which could not be written then.
pub fn goes_on(database: &Path, prepared: &Prepared, state: &TrialState) -> bool {
    matches!(state.stage, TrialStage::Stopped | TrialStage::Reverted)
        && Store::open(database)
            .and_then(|store| running(&store, prepared))
            .is_ok_and(|found| found.is_some())
}

fn end_found(
    database: &Path,
    name: &str,
    find: impl FnOnce(&Store) -> Result<Option<TrialRecord>, StoreError>,
) -> bool {
    let ended = Store::open_for_writing(database).and_then(|mut store| match find(&store)? {
        Some(record) => store.end_trial(record.id, Instant::now().wall_us, "completed"),
        None => Ok(()),
    });
    match ended {
        Ok(()) => true,
        Err(StoreError::Missing { path }) => {
            eprintln!(
                "warning: the database {} is gone, and with it the readings of `{name}`",
                path.display()
            );
            true
        }
        // No repetition ends it there.
        Err(error) if !error.is_passing() => {
            eprintln!("warning: {error}; with it are the readings of `{name}`");
            true
        }
        Err(error) => {
            eprintln!(
                "warning: {error}; `{name}` goes on in the database until the same command is repeated"
            );
            false
        }
    }
}

/// The same of a database that may not be there yet.
pub fn find(database: &Path, prepared: &Prepared) -> Result<Option<TrialRecord>, StoreError> {
    match Store::open(database) {
        Ok(store) => recorded(&store, prepared),
        Err(StoreError::Missing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Why nothing goes on with a trial of which the database has no record though it was started.
pub fn unrecorded(database: &Path, prepared: &Prepared, state: &TrialState) -> String {
    let name = &prepared.plan.name;
    let revert = match is_rollout(prepared) {
        true => format!("heaptrial rollout rollback {name}"),
        false => format!("heaptrial trial stop {name} --revert"),
    };
    let is_over = matches!(state.stage, TrialStage::Stopped | TrialStage::Reverted);
    let or = if is_over { String::new() } else { format!(", or put every service back with `{revert}`") };
    format!(
        "`{name}` was started, and {} has no record of it: put the database back from a backup while the agent is stopped{or}",
        database.display()
    )
}

/// Refuses to go on with it where the database has lost its record; it is recorded before the journal's first record.
pub fn refuse_unrecorded(database: &Path, prepared: &Prepared, state: &TrialState) -> Result<(), Failure> {
    match find(database, prepared)? {
        None if state.stage != TrialStage::Planned => {
            Err(Failure::refused(unrecorded(database, prepared, state)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use heaptrial_change::Notification;
    use heaptrial_change::Witness as _;
    use heaptrial_model::{KnownEvent, Metric, TrialKind};
    use heaptrial_store::{NewService, NewTrial};
    use serde_json::json;

    use super::*;
    use crate::commands::trial::on_host::Teller;

    /// What a trial or rollout of a name froze.
    pub(crate) fn frozen(name: &str) -> Prepared {
        let plan = json!({
            "name": name, "id": "0123456789abcdef", "tool_version": "0", "seed": 1, "metric": "rss", "duration": "1d",
            "looks": [], "pace": {}, "arms": [], "builds": {}, "services": []
        });
        let owner = json!({ "kind": "trial", "takes_over": false, "frozen": null });
        let prepared = json!({
            "schema_version": 1, "plan": plan, "host": "alpha", "services": [], "libraries": [], "agent": null,
            "owner": owner
        });
        serde_json::from_value(prepared).unwrap()
    }

    pub(crate) fn row(name: &str, kind: TrialKind, parameters: serde_json::Value) -> NewTrial {
        NewTrial {
            name: name.to_owned(),
            kind,
            boot_id: "boot".to_owned(),
            host_facts: json!({}),
            metric: Metric::Rss,
            seed: 1,
            repeats: 1,
            planned_us: 0,
            arms: vec![serde_json::from_value(json!({ "name": "a", "control": true })).unwrap()],
            parameters,
            command: "test".to_owned(),
            tool_version: "0".to_owned(),
            started_wall_us: 0,
        }
    }

    fn service() -> NewService {
        NewService {
            name: "tor@a.service".to_owned(),
            arm: 0,
            block: 0,
            position: 0,
            attributes: json!(null),
        }
    }

    #[test]
    fn a_trial_writes_into_its_own_row_whatever_else_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let mut store = Store::create(&path).unwrap();
        let (watch, arms) = store.begin_trial(&row("relays", TrialKind::Watch, json!({}))).unwrap();
        store.add_new_service(watch, arms[0], &service()).unwrap();
        let parameters = json!({ "plan": frozen("relays").plan });
        let (own, arms) = store.begin_trial(&row("relays", TrialKind::Field, parameters)).unwrap();
        store.add_new_service(own, arms[0], &service()).unwrap();
        let prepared = frozen("relays");
        let mut teller = Teller::new(&path, &prepared, 1);
        teller.told(&prepared, &Notification::Restarting("tor@a.service".parse().unwrap()));
        assert!(end(&path, &prepared));
        let store = Store::open(&path).unwrap();
        let kinds = |id| -> Vec<_> {
            store
                .events(id)
                .unwrap()
                .into_iter()
                .map(|event| (event.kind, event.service_id.is_some()))
                .collect()
        };
        assert_eq!(kinds(own), [(KnownEvent::RestartPlanned.into(), true)]);
        assert_eq!(kinds(watch), []);
        let going_on: Vec<i64> = store.running_trials().unwrap().iter().map(|record| record.id).collect();
        assert_eq!(going_on, [watch]);
        assert!(end_named(&path, "relays"));
        assert_eq!(
            store.running_trials().unwrap().len(),
            1,
            "a watch has no folder of a trial that could be gone"
        );
    }
}
