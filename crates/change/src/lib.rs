//! The transaction by which a host's services are changed: apply, prove, resume, revert.
//!
//! Changing a fleet is a transaction with a [`journal`]: intent on disk, then files, then systemd's own view, then a
//! restart, then health and the identity of the running process, then commit. Each step can be repeated after a crash
//! at any moment; what is on disk is compared with what the journal announced, and anything else is drift and refused.
//!
//! Where to look:
//!
//! - [`machine`]: which step is next, and what is true after it. Pure.
//! - [`TrialState`]: what the journal's records tell. Pure.
//! - [`edges`]: files, systemd, processes and time as narrow traits, and this host behind them.
//! - `run`: the loop that asks the machine, writes the journal and acts; `service` and `host_files` are what it does.
//! - `actions`: start, revert and the like as runs between an opening and an ending record.

mod actions;
mod claims;
pub mod edges;
mod edit;
mod error;
mod files;
mod health;
mod host_files;
pub mod journal;
mod lock;
pub mod machine;
mod preflight;
mod prepare;
mod prepared;
mod run;
mod service;
mod standing;
mod state;
mod stray;
mod takeover;
mod treatment;
mod trial;

pub use claims::{Claim, claims, free};
pub use edit::EditError;
pub use error::{ChangeError, ProofError, ServiceError};
pub use files::{FileError, FileState};
pub use health::Health;
pub use host_files::{inherited, made_folders};
pub use lock::{Holder, Lock, LockError};
pub use machine::{Notification, Outcome};
pub use preflight::preflight;
pub use prepare::{PRELOAD, PrepareError, expected_of_arm, prepare, to_unset};
pub use prepared::{HostUnit, Library, Owner, Prepared};
pub use run::Halt;
pub use standing::{Standing, changed_files, is_as_wanted, standings};
pub use state::{ServiceState, Stage, TrialStage, TrialState};
pub use stray::{Stray, refuse_strays, strays};
pub use takeover::{check_takeover, taken_over_by};
pub use treatment::{ServiceTreatment, expected_of};
pub use trial::{Trial, Witness, check_trusted, read_prepared, read_state, trials};
