//! A trial on real services: apply, prove, resume, revert.
//!
//! Changing a fleet is a transaction with a [`journal`]: intent on disk, then files, then systemd's own view, then a
//! restart, then health and the identity of the running process, then commit. Each step can be repeated after a crash
//! at any moment; what is on disk is compared with what the journal announced, and anything else is drift and refused.

mod actions;
mod change;
mod files;
mod flight;
mod health;
mod host_files;
pub mod journal;
mod lock;
mod places;
mod preflight;
mod prepare;
mod run;
mod standing;
mod state;
mod steps;
mod takeover;
mod torrc;
mod treatment;
mod trial;

pub use change::ChangeError;
pub use files::{FileError, FileState};
pub use host_files::inherited;
pub use lock::{Lock, LockError};
pub use places::Places;
pub use preflight::preflight;
pub use prepare::{PRELOAD, PrepareError, expected_of_arm, installed_path, prepare, to_unset};
pub use run::{Halt, Outcome};
pub use standing::{Standing, is_as_wanted};
pub use state::{ServiceState, Stage, TrialStage, TrialState};
pub use takeover::{check_takeover, taken_over_by};
pub use treatment::{ServiceTreatment, expected_of};
pub use trial::{
    FieldError, HostUnit, Library, News, Prepared, Trial, Witness, read_prepared, read_state, trials,
};
