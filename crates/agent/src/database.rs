//! The database's file: whether it is still the one that the agent writes into, and what is done where it is not.
//!
//! Where it was deleted, all of it is written back to its path. Where another file took its place, all of it is kept
//! beside and the other one is used. Until that is done the agent goes on with the file that it has open.

use heaptrial_model::KnownEvent;
use heaptrial_store::{Place, Store, StoreError};

use crate::AgentError;
use crate::ledger::Write;
use crate::session::{CACHE_KIB, Session};

const DELETED: &str = "was deleted while the agent had it open";
const REPLACED: &str = "was replaced by another file while the agent had it open";

/// What became of the database's file.
#[derive(Debug, Default)]
pub(crate) struct DatabaseWatch {
    /// How often it was deleted or replaced.
    pub(crate) losses: u64,
    /// Why what it had could not be kept yet.
    trouble: Option<StoreError>,
}

impl Session {
    /// Sees whether the file is still in its place. What fails for now is tried again; an error ends the agent.
    pub(crate) fn look_at_database(&mut self) -> Result<(), AgentError> {
        match self.ledger.store.place() {
            Place::Same => {
                self.database.trouble = None;
                Ok(())
            }
            Place::Gone => self.put_back(),
            Place::Replaced => self.change_over(),
        }
    }

    /// The same before the agent ends, with which a file that was deleted ends as well.
    pub(crate) fn last_look_at_database(&mut self) -> Result<(), AgentError> {
        self.look_at_database()?;
        let Some(source) = self.database.trouble.take().map(Box::new) else { return Ok(()) };
        let path = self.config.database.clone();
        Err(match self.ledger.store.keep_beside() {
            Ok(kept) => AgentError::DatabaseReplaced { path, kept, source },
            Err(error) => AgentError::DatabaseLost { path, source: error.into() },
        })
    }

    fn put_back(&mut self) -> Result<(), AgentError> {
        self.ledger.flush();
        match self.ledger.store.put_back() {
            Ok(store) => {
                self.go_on_with(store)?;
                self.tell_loss(DELETED, "all of it was written back");
            }
            Err(error) => self.trouble(DELETED, error),
        }
        Ok(())
    }

    fn change_over(&mut self) -> Result<(), AgentError> {
        self.ledger.flush();
        let cleared = self.ledger.store.remove_beside();
        let other = match cleared.and_then(|()| Store::create(&self.config.database)) {
            Err(error) if error.is_passing() => {
                self.trouble(REPLACED, error);
                return Ok(());
            }
            other => other,
        };
        let kept = match self.ledger.store.keep_beside() {
            Ok(kept) => kept,
            Err(error) => {
                self.trouble(REPLACED, error);
                return Ok(());
            }
        };
        let what = format!("the earlier one is in {}", kept.display());
        let path = self.config.database.clone();
        let mut other =
            other.map_err(|error| AgentError::DatabaseReplaced { path, kept, source: error.into() })?;
        // Its rows are other ones, also where it is an older copy.
        self.host_id = other.add_host(&self.boot_id, &self.host_facts)?;
        self.trials.clear();
        self.watched.clear();
        self.due.host_us = 0;
        self.go_on_with(other)?;
        self.refresh_trials();
        self.tell_loss(REPLACED, &what);
        Ok(())
    }

    fn go_on_with(&mut self, store: Store) -> Result<(), AgentError> {
        if let Err(error) = store.limit_cache(CACHE_KIB) {
            eprintln!("{error}");
        }
        self.ledger.store = store;
        self.data_version = None;
        self.database.trouble = None;
        // It may have been removed as well, and would keep nobody out then.
        self.lock.renew(&self.config)
    }

    fn tell_loss(&mut self, how: &str, what: &str) {
        self.database.losses += 1;
        let text = format!("the database {} {how}: {what}", self.config.database.display());
        eprintln!("{text}");
        for trial in &self.trials {
            self.ledger.submit(Write::Event {
                trial_id: trial.id,
                service_id: None,
                wall_us: self.clock.now().wall_us,
                kind: KnownEvent::DatabaseLost,
                text: text.clone(),
            });
        }
    }

    /// Says once that what the file had could not be kept yet.
    fn trouble(&mut self, how: &str, error: StoreError) {
        if self.database.trouble.is_none() {
            eprintln!(
                "the database {} {how}, and what it had cannot be kept, which is tried again as long as the agent runs: \
                 {error}",
                self.config.database.display()
            );
        }
        self.database.trouble = Some(error);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use heaptrial_model::TrialKind;

    use super::*;
    use crate::testing::{Fixture, hours_ago};

    /// With a trial and a tick of it.
    fn at_work() -> (Fixture, i64, PathBuf) {
        let mut fixture = Fixture::new();
        let (trial, _) = fixture.begin(TrialKind::Field, None, hours_ago(1));
        fixture.session.refresh_trials();
        fixture.session.tick();
        fixture.session.look_at_database().unwrap();
        let path = fixture.session.config.database.clone();
        (fixture, trial, path)
    }

    fn ticks(path: &std::path::Path, trial: i64) -> u64 {
        Store::open(path).unwrap().tick_summary(trial).unwrap().ticks
    }

    #[test]
    fn with_its_folder_it_is_put_back_and_locked_again() {
        let (mut fixture, trial, path) = at_work();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        fixture.session.tick();
        fixture.session.last_look_at_database().unwrap();
        fixture.session.tick();
        assert_eq!(ticks(&path, trial), 3);
        assert_eq!(fixture.session.database.losses, 1);
        let second = Session::open(fixture.session.config.clone());
        assert!(matches!(second, Err(AgentError::Running { .. })), "{second:?}");
    }

    #[test]
    fn beside_what_is_no_database_it_is_kept_and_the_agent_ends() {
        let (mut fixture, trial, path) = at_work();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "no database at all, but long enough to be looked at as if it were one ".repeat(20))
            .unwrap();
        fixture.session.tick();
        let ended = fixture.session.look_at_database();
        let Err(AgentError::DatabaseReplaced { kept, .. }) = ended else { panic!("{ended:?}") };
        assert_eq!(ticks(&kept, trial), 2);
        assert!(fs::read_to_string(&path).unwrap().starts_with("no database"), "it is left as it is");
    }

    #[test]
    fn what_cannot_be_kept_for_now_is_kept_later_or_at_the_end() {
        let (mut fixture, trial, path) = at_work();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fixture.session.look_at_database().unwrap();
        fixture.session.tick();
        assert_eq!(fixture.session.database.losses, 0);
        let ended = fixture.session.last_look_at_database();
        let Err(AgentError::DatabaseReplaced { kept, .. }) = ended else { panic!("{ended:?}") };
        assert_eq!(ticks(&kept, trial), 2);
        // Had it not ended: the folder goes away.
        fs::remove_dir(&path).unwrap();
        fixture.session.look_at_database().unwrap();
        assert_eq!((ticks(&path, trial), fixture.session.database.losses), (2, 1));
        fixture.session.last_look_at_database().unwrap();
    }
}
