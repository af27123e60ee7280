//! What the database has of a trial. Where that is nothing though the journal tells of a start, its readings and looks are lost.

use std::fmt;
use std::path::{Path, PathBuf};

use heaptrial_change::journal::{self, Action, Event};
use heaptrial_change::{Prepared, TrialStage, TrialState, read_prepared, read_state, trials};
use heaptrial_host::{Instant, Paths};
use heaptrial_rollout::is_rollout;
use heaptrial_store::{Store, StoreError, TrialRecord};

use crate::exit::Failure;

/// What the database has of it.
pub fn recorded(store: &Store, prepared: &Prepared) -> Result<Option<TrialRecord>, StoreError> {
    let plan = &prepared.plan;
    let same = |record: &TrialRecord| {
        record.plan.name == plan.name && record.plan.parameters["plan"]["id"] == plan.id.as_str()
    };
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

/// What the database has of a trial of this host.
#[derive(Debug)]
pub enum InDatabase {
    Recorded(Box<TrialRecord>),
    /// Nothing, and nothing was done yet.
    NotYet,
    /// Nothing, though it was started.
    Lost(Lost),
}

pub fn find(database: &Path, prepared: &Prepared, state: &TrialState) -> Result<InDatabase, StoreError> {
    let found = match Store::open(database) {
        Ok(store) => recorded(&store, prepared)?,
        Err(StoreError::Missing { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(match (found, state.stage) {
        (Some(record), _) => InDatabase::Recorded(Box::new(record)),
        // It is recorded before the journal's first record.
        (None, TrialStage::Planned) => InDatabase::NotYet,
        (None, _) => InDatabase::Lost(Lost::of(database, prepared, state)),
    })
}

/// What is lost, and what can be done.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{name}` was started, as its journal tells, and {database} has nothing of it: its readings and looks are lost{kept}"
)]
pub struct Lost {
    name: String,
    database: PathBuf,
    kept: Kept,
    is_rollout: bool,
    is_over: bool,
}

/// Databases that were kept beside.
#[derive(Debug)]
struct Kept(Vec<PathBuf>);

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, ..] = self.0.as_slice() else { return Ok(()) };
        write!(f, " unless they are in {}", first.display())?;
        self.0.iter().skip(1).try_for_each(|path| write!(f, " or {}", path.display()))
    }
}

impl Lost {
    fn of(database: &Path, prepared: &Prepared, state: &TrialState) -> Self {
        Self {
            name: prepared.plan.name.clone(),
            database: database.to_owned(),
            kept: Kept(Store::kept_beside(database)),
            is_rollout: is_rollout(prepared),
            is_over: matches!(state.stage, TrialStage::Stopped | TrialStage::Reverted),
        }
    }

    /// Whether it has ended, so that nothing more would have been read.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// What whoever reads it can do.
    pub fn advice(&self) -> String {
        let Self { name, database, .. } = self;
        let copy = match self.kept.0.as_slice() {
            [] => "a copy of the database".to_owned(),
            [only] => only.display().to_string(),
            _ => "the copy that has it".to_owned(),
        };
        let back = format!(
            "put {copy} in the place of {} while the agent is stopped, or name the database that has it with --db",
            database.display()
        );
        match self.is_rollout {
            _ if self.is_over => back,
            true => format!("{back}; or `heaptrial rollout rollback {name}` puts everything back"),
            false => format!(
                "{back}; or `heaptrial trial resume {name} --accept-loss` samples on without them, and `heaptrial trial stop {name} --revert` puts everything back"
            ),
        }
    }
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        Self::refused(format!("{lost}; {}", lost.advice()))
    }
}

/// Refuses to go on with it where it is lost.
pub fn refuse_lost(database: &Path, prepared: &Prepared, state: &TrialState) -> Result<(), Failure> {
    match find(database, prepared, state)? {
        InDatabase::Lost(lost) => Err(lost.into()),
        InDatabase::Recorded(_) | InDatabase::NotYet => Ok(()),
    }
}

/// What a trial of this name has lost, where it is one of this host that has not ended.
pub fn lost_of(paths: &Paths, name: &str, database: &Path) -> Option<Lost> {
    let (prepared, state) = (read_prepared(paths, name).ok()?, read_state(paths, name).ok()?);
    match find(database, &prepared, &state) {
        Ok(InDatabase::Lost(lost)) if !lost.is_over() => Some(lost),
        _ => None,
    }
}

/// Tells on standard error which trials of this host have lost their readings.
pub fn tell_lost(paths: &Paths, database: &Path) {
    for lost in trials(paths).unwrap_or_default().iter().filter_map(|name| lost_of(paths, name, database)) {
        eprintln!("{lost}; {}", lost.advice());
    }
}

/// When it was started, by its journal, in microseconds since 1970.
pub fn started_wall_us(paths: &Paths, name: &str) -> Option<i64> {
    let records = journal::read(&paths.trial(name)).ok()?;
    let is_start =
        |event: &Event| matches!(event, Event::Opened { action: Action::Start | Action::Resume, .. });
    records.iter().find(|record| is_start(&record.event)).map(|record| record.wall_us)
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
        serde_json::from_value(json!({ "plan": plan, "services": [], "libraries": [] })).unwrap()
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
        // As it is in databases of before the name of one kept the other from beginning.
        let (adoption, arms) = store.begin_trial(&row("relays", TrialKind::Adoption, json!({}))).unwrap();
        store.add_new_service(adoption, arms[0], &service()).unwrap();
        let parameters = json!({ "plan": { "id": "0123456789abcdef" } });
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
        assert_eq!(kinds(adoption), []);
        let going_on: Vec<i64> = store.running_trials().unwrap().iter().map(|record| record.id).collect();
        assert_eq!(going_on, [adoption]);
        assert!(end_named(&path, "relays"));
        assert_eq!(store.running_trials().unwrap().len(), 1, "an adoption has no folder that could be gone");
    }
}
