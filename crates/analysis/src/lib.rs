//! The analysis of a trial on a fleet: from readings to findings and verdicts.
//!
//! Pure: no I/O, no clock, no randomness but the fleet's seed. What judges here cannot change anything.

mod age;
mod checks;
mod common_load;
mod curve;
mod failures;
mod figures;
mod fleet;
mod forecast;
mod growth;
mod level_change;
mod look;
mod outcome;
mod power;
mod procedure;
mod service;
mod strangers;
mod work;

pub use failures::ArmEvents;
pub use fleet::{Fleet, FleetArm, FleetEvent, FleetLife, FleetService, MemoryLimit};
pub use forecast::{Expectation, Forecast, ForecastError, LogLevel};
pub use look::{Decision, Look, LookArm, LookStanding, look};
pub use outcome::*;
pub use power::{PowerRequest, PowerRow, PowerTable, power};
pub use procedure::analyse;
pub use work::{ArmWork, Flag, FlagCount, Work};
