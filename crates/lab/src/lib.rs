//! Lab runs: trials over services that Heaptrial starts itself.
//!
//! A [`Workload`] says what is started and what load is put on it; [`run`] owns everything else:
//! order, seeds, repeats, children, identities, samples and the ledger.

mod accounting;
mod clock;
mod command;
mod end;
mod end_watch;
mod ends;
mod errand;
mod error;
mod interrupt;
mod placeholders;
mod plan;
mod program;
mod progress;
mod ready;
mod relay_traffic;
mod runner;
mod sampling;
mod schedule;
mod service;
pub mod slurm;
mod supervisor;
mod tor;
mod userland;
mod work;
mod workload;

pub use accounting::Accounting;
pub use command::{CommandOptions, CommandWorkload};
pub use end::{EndRequest, EndSignal};
pub use error::LabError;
pub use interrupt::Interrupt;
pub use plan::{LabPlan, PreparedArm, RunOutcome};
pub use progress::{Progress, RoundView, ServiceView};
pub use ready::Ready;
pub use runner::run;
pub use schedule::{RoundPlan, Schedule};
pub use supervisor::{SUPERVISOR_COMMAND, run_supervisor};
pub use tor::{TorParameters, TorWorkload};
pub use userland::Userland;
pub use work::{Work, WorkPreset, WorkSource};
pub use workload::{Arrangement, Course, Event, Launch, Round, RoundContext, Slot, SlotState, Workload};
