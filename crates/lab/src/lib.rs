//! Lab runs: trials over services that Heaptrial starts itself.
//!
//! A [`Workload`] says what is started and what load is put on it; [`run`] owns everything else:
//! order, seeds, repeats, children, identities, samples and the ledger.

mod accounting;
mod arms;
mod command;
mod end;
mod end_watch;
mod ends;
mod error;
mod interrupt;
mod program;
mod progress;
mod relay_watch;
mod runner;
mod sampling;
mod schedule;
mod service;
mod sharing;
mod supervisor;
mod tor;
mod workload;

pub use accounting::Accounting;
pub use arms::PreparedArm;
pub use command::CommandWorkload;
pub use end::{EndRequest, EndSignal};
pub use error::LabError;
pub use interrupt::Interrupt;
pub use progress::{Progress, RoundView, ServiceView};
pub use runner::{LabPlan, RunOutcome, run};
pub use schedule::{RoundPlan, Schedule};
pub use supervisor::{SUPERVISOR_COMMAND, run_supervisor};
pub use tor::{TorParameters, TorWorkload};
pub use workload::{Arrangement, Event, Launch, Round, RoundContext, Slot, Workload};
