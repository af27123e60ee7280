//! The watch after a migration: is what the trial showed still so?
//!
//! What judges ([`WatchState::check`]) is pure: a plan, what was seen, readings and a state go in, the next state with
//! what is to be told comes out. Reading the host and telling are at the edge.

mod alert;
mod begin;
mod claims;
mod error;
mod flags;
mod folder;
mod install;
mod judge;
mod observe;
mod plan;
mod schedule;
mod seen;
mod source;
mod state;
mod tell;
mod transactions;

pub use alert::{Alert, AlertKind, Severity};
pub use begin::{Elsewhere, Proposal, Request, begin, end, propose, timer_faults};
pub use claims::{claims, watches_of};
pub use error::WatchError;
pub use folder::{Folder, names};
pub use install::{HostContent, HostFile};
pub use judge::{LookResult, facts, look};
pub use observe::see;
pub use plan::{Channels, FailuresBefore, Fingerprint, Installed, Limits, WatchPlan, WatchedService};
pub use schedule::{look_days, look_errors};
pub use seen::{DropInSeen, FailureSeen, Seen, ServiceSeen, TransactionSeen};
pub use source::{Source, failures_before};
pub use state::{Channel, Letter, News, Standing, WatchState};
pub use tell::{TellError, check_hook, deliver, write_metrics};

/// Name in the database of the trial that holds the readings of a watch. A trial's own name has no `+`.
pub fn stored_name(name: &str) -> String {
    format!("{name}+watch")
}
