//! Writing into the database, also when it cannot be written to for a while.

use std::collections::VecDeque;

use heaptrial_model::{Ending, Identity, KnownEvent};
use heaptrial_store::{Store, StoreError};

use crate::watched::Seat;

#[derive(Debug)]
pub(crate) enum Write {
    Event { trial_id: i64, service_id: i64, wall_us: i64, kind: KnownEvent, text: String },
    EndLife { life_id: i64, at: (i64, i64), ending: Ending },
    Identity { life_id: i64, identity: Option<Box<Identity>>, contamination: Option<String> },
}

impl Write {
    pub(crate) fn event(seat: &Seat, wall_us: i64, kind: KnownEvent, text: String) -> Self {
        Self::Event { trial_id: seat.trial_id, service_id: seat.service_id, wall_us, kind, text }
    }
}

/// The database, with what could not be written yet, in order.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) store: Store,
    pending: VecDeque<Write>,
    said_unwritable: bool,
}

impl Ledger {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, pending: VecDeque::new(), said_unwritable: false }
    }

    /// Writes now, or as soon as that can be done.
    pub(crate) fn submit(&mut self, write: Write) {
        self.pending.push_back(write);
        self.flush();
    }

    pub(crate) fn flush(&mut self) {
        while let Some(write) = self.pending.front() {
            match apply(&mut self.store, write) {
                Err(error) if error.is_passing() => return self.say_unwritable(&error),
                // A trial that was removed meanwhile, say: it will never succeed.
                Err(error) => eprintln!("{write:?} could not be recorded: {error}"),
                Ok(()) => self.written(),
            }
            self.pending.pop_front();
        }
    }

    pub(crate) fn written(&mut self) {
        self.said_unwritable = false;
    }

    pub(crate) fn is_clear(&self) -> bool {
        self.pending.is_empty()
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
            store.add_event(*trial_id, Some(*service_id), *wall_us, *kind, text)
        }
        Write::EndLife { life_id, at, ending } => store.end_life(*life_id, *at, ending),
        Write::Identity { life_id, identity, contamination } => {
            store.set_identity(*life_id, identity.as_deref(), contamination.as_deref())
        }
    }
}
