//! What the database has of a trial. Where that is nothing though the journal tells of a start, its readings and looks are lost.

use std::fmt;
use std::path::{Path, PathBuf};

use heaptrial_change::journal::{self, Action, Event};
use heaptrial_change::{Prepared, TrialStage, TrialState, read_prepared, read_state, trials};
use heaptrial_host::Paths;
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

/// What the database has of a trial of this host.
#[derive(Debug)]
pub enum InDatabase {
    /// Its row.
    Recorded(Box<TrialRecord>),
    /// Nothing, and nothing was done yet.
    NotYet,
    /// Nothing, though it was started.
    Lost(Lost),
}

/// Looks for it.
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
