//! Writing into the database, also when it cannot be written to for a while.

use std::collections::VecDeque;

use heaptrial_model::{Ending, Identity, KnownEvent};
use heaptrial_store::{Store, StoreError};

use crate::watched::Seat;

/// What waits for a database that cannot be written to, at most; later ones are dropped and counted.
const PENDING_MOST: usize = 10_000;

/// A small write that can wait.
#[derive(Debug)]
pub(crate) enum Write {
    Event {
        trial_id: i64,
        service_id: Option<i64>,
        wall_us: i64,
        kind: KnownEvent,
        text: String,
    },
    /// The end of a life.
    EndLife {
        life_id: i64,
        at: (i64, i64),
        ending: Ending,
    },
    /// What was found of a life.
    Identity {
        life_id: i64,
        identity: Option<Box<Identity>>,
        contamination: Option<String>,
    },
}

impl Write {
    /// An event of a service.
    pub(crate) fn event(seat: &Seat, wall_us: i64, kind: KnownEvent, text: String) -> Self {
        Self::Event { trial_id: seat.trial_id, service_id: Some(seat.service_id), wall_us, kind, text }
    }
}

/// The database, with what could not be written yet, in order.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) store: Store,
    pending: VecDeque<Write>,
    dropped: u64,
    said_unwritable: bool,
}

impl Ledger {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, pending: VecDeque::new(), dropped: 0, said_unwritable: false }
    }

    /// Writes now, or as soon as that can be done.
    pub(crate) fn submit(&mut self, write: Write) {
        if self.pending.len() < PENDING_MOST {
            self.pending.push_back(write);
        } else {
            self.dropped += 1;
        }
        self.flush();
    }

    pub(crate) fn flush(&mut self) {
        if self.is_clear() {
            return;
        }
        while let Some(write) = self.pending.front() {
            match apply(&mut self.store, write) {
                Err(error) if error.is_passing() => return self.say_unwritable(&error),
                // A trial that was removed meanwhile, say: it will never succeed.
                Err(error) => eprintln!("{write:?} could not be recorded: {error}"),
                Ok(()) => {}
            }
            self.pending.pop_front();
        }
        if self.dropped > 0 {
            eprintln!("{} events were lost while the database could not be written to", self.dropped);
            self.dropped = 0;
        }
        self.written();
    }

    /// The database can be written to.
    pub(crate) fn written(&mut self) {
        self.said_unwritable = false;
    }

    pub(crate) fn is_clear(&self) -> bool {
        self.pending.is_empty() && self.dropped == 0
    }

    /// Says what was never written, each in a line; how many that are.
    pub(crate) fn say_unwritten(&self) -> u64 {
        for write in &self.pending {
            eprintln!("lost, as the database could not be written to: {write:?}");
        }
        self.pending.len() as u64 + self.dropped
    }

    /// Says once that the database cannot be written to.
    pub(crate) fn say_unwritable(&mut self, error: &StoreError) {
        if !self.said_unwritable {
            eprintln!("the database cannot be written to, which is tried again: {error}");
            self.said_unwritable = true;
        }
    }
}

fn apply(store: &mut Store, write: &Write) -> Result<(), StoreError> {
    match write {
        Write::Event { trial_id, service_id, wall_us, kind, text } => {
            store.add_event(*trial_id, *service_id, *wall_us, *kind, text)
        }
        Write::EndLife { life_id, at, ending } => store.end_life(*life_id, *at, ending),
        Write::Identity { life_id, identity, contamination } => {
            store.set_identity(*life_id, identity.as_deref(), contamination.as_deref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_once_is_said_again_only_after_a_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        let mut ledger = Ledger::new(Store::create(&path).unwrap());
        ledger.say_unwritable(&StoreError::DiskFull { path: path.clone() });
        ledger.flush();
        assert!(ledger.said_unwritable, "nothing was written");
        // What can never be written is no obstacle.
        let event = Write::Event {
            trial_id: 7,
            service_id: None,
            wall_us: 0,
            kind: KnownEvent::Crash,
            text: String::new(),
        };
        ledger.submit(event);
        assert!(ledger.is_clear() && !ledger.said_unwritable);
        assert_eq!(ledger.say_unwritten(), 0);
    }
}
