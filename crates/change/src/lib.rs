//! The transaction by which a host's services are changed: apply, prove, resume, revert.
//!
//! Changing a fleet is a transaction with a [`journal`]: intent on disk, then files, then systemd's own view, then a
//! restart, then health and the identity of the running process, then commit. Each step can be repeated after a crash
//! at any moment; what is on disk is compared with what the journal announced, and anything else is drift and refused.
//!
//! Where to look:
//!
//! - `actions`: start, revert and the like as runs between an opening and an ending record.
//! - `run`: a run over services, from the first file to the last proof; `restart` is one service from its restart on.
//! - `service` and `host_files`: what is done to one service, and to the host.
//! - [`TrialState`]: what the journal's records say. Pure.
//! - `ledger`: whose services and files are on this host, by all journals.
//! - [`edges`]: files, systemd, processes and time as narrow traits, and this host behind them.

mod actions;
pub mod edges;
mod edit;
mod error;
mod files;
mod health;
mod host_files;
pub mod journal;
mod ledger;
mod lock;
mod preflight;
mod prepare;
mod prepared;
mod restart;
mod run;
mod service;
mod standing;
mod state;
mod treatment;
mod trial;

pub use error::{ChangeError, ServiceError};
pub use files::{FileError, FileState};
pub use ledger::{Claim, Ledger, Stray, free};
pub use lock::{Holder, Lock};
pub use preflight::preflight;
pub use prepare::{PRELOAD, expected_of_arm, prepare, to_unset};
pub use prepared::{HostUnit, Library, Owner, Prepared};
pub use run::{Halt, Notification, Outcome};
pub use standing::{Standing, changed_files, is_as_wanted, standings};
pub use state::{ServiceState, Stage, TrialStage, TrialState};
pub use treatment::{ServiceTreatment, expected_of};
pub use trial::{Trial, Witness, check_trusted, read_prepared, read_state, trials};
