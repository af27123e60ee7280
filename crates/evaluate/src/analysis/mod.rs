//! The analysis of a trial on a fleet: from readings to findings and verdicts.
//!
//! Pure: no I/O, no clock, no randomness but the fleet's seed. What judges here cannot change anything.

mod age;
mod checks;
mod curve;
mod data;
mod extremes;
mod failures;
mod figures;
mod fleet;
mod forecast;
mod gap;
mod growth;
mod hosts;
mod levels_at;
mod look;
mod objection;
mod off_treatment;
mod outcome;
mod power;
mod procedure;
mod service;
mod shared_load;
mod shares;
mod standing_out;
mod thresholds;
mod usual_work;
mod work;

pub use failures::ArmEvents;
pub use figures::{ratio_of, ratio_of_arms};
pub use fleet::{Clock, Fleet, FleetArm, FleetEvent, FleetLife, FleetService, MemoryLimit};
pub use forecast::{Forecast, LogLevel};
pub(crate) use gap::distances;
pub use gap::longest_distance;
/// Assignments that a permutation test looks at.
pub use heaptrial_stats::ENUMERATED_AT_MOST;
pub use hosts::{ByHost, OnHost, by_host, differing_hosts};
pub use levels_at::{ArmAt, LevelsAt};
pub use look::{Decision, Look, LookArm, LookStanding, look};
pub use objection::{Objection, Reason, objections};
pub use outcome::*;
pub use power::{PowerRequest, PowerRow, PowerTable, TrialLength, power};
pub use procedure::analyse;
pub use standing_out::{Outlier, outliers};
pub(crate) use thresholds::{ENOUGH, SILENT_SHARE};
pub use usual_work::{LEAST_WORK_SECONDS, UsualWork, WorkRatio, Worked};
pub use work::{Counts, Flag, Measure, Spent, Work};
