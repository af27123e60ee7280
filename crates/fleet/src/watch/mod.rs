//! The watch after a migration: is what the trial showed still so?
//!
//! What judges ([`WatchState::check`]) is pure: a plan, what was seen, readings and a state go in, the next state with
//! what is to be reported comes out. Reading the host and notifying are at the edge.

mod advice;
mod alert;
mod as_found;
mod begin;
mod claims;
mod error;
mod folder;
mod install;
mod judge;
mod notify;
mod observe;
mod plan;
mod schedule;
mod seen;
mod source;
mod state;

pub use advice::advice;
pub use alert::{Alert, AlertKind, Finding, Found};
pub use begin::{begin, end, propose};
pub use claims::{claims, watches_of};
pub use error::WatchError;
pub use folder::{Folder, names};
pub use install::{UnitFile, timer_faults};
pub use judge::{LookResult, facts, look};
pub use notify::{alert_document, check_hook, deliver, write_metrics};
pub use observe::see;
pub use plan::{Channels, FailuresBefore, WatchPlan, WatchedService};
pub use schedule::{look_days, look_errors};
pub use seen::{FailureSeen, Seen, ServiceSeen};
pub use source::Source;
pub use state::{AlertChange, Notification, Standing, WatchState};

/// Name in the database of the trial that holds the readings of a watch. A trial's own name has no `+`.
pub fn stored_name(name: &str) -> String {
    format!("{name}+watch")
}
