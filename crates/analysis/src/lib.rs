//! The analysis of a trial on a fleet: from readings to findings and verdicts.
//!
//! Pure: no I/O, no clock, no randomness but the fleet's seed. What judges here cannot change anything.

mod age;
mod checks;
mod common_load;
mod curve;
mod figures;
mod fleet;
mod growth;
mod level_change;
mod outcome;
mod power;
mod procedure;
mod service;
mod strangers;

pub use fleet::{Fleet, FleetArm, FleetEvent, FleetLife, FleetService, MemoryLimit};
pub use outcome::*;
pub use power::{PowerRequest, PowerRow, PowerTable, power};
pub use procedure::analyse;
