//! Fleets of which the truth is known, to see what the analysis makes of them.
//!
//! Shared by the tests and by `bench/src/bin/calibrate_analysis.rs`, each of which uses a part.
#![allow(dead_code, unused_imports, reason = "shared by several programs, each of which uses a part")]

mod fleets;
pub mod measures;
mod oddity;
mod random;
mod rate;
mod scenario;
pub mod trials;

pub use fleets::{Simulated, simulate};
pub use oddity::Oddity;
pub use rate::{Rate, rates, rates_by};
pub use scenario::{Arm, Blocks, Course, Hosts, Load, Scenario, Starts};
