//! The plan of a field trial: random assignment within blocks, order and cost of restarts, looks. Pure: what is known
//! of the services comes in, a plan goes out; the seed decides everything random.
//!
//! [`draw`] makes a [`DrawnPlan`](heaptrial_model::DrawnPlan) of a trial and its [`Candidate`]s;
//! [`balance`] and [`restart_cost`] describe it.

mod balance;
mod blocks;
mod candidate;
mod cost;
mod draw;
mod looks;
mod order;
mod resolution;
mod strata;

pub use balance::{ArmBalance, Balance, Difference, Spread, WORTH_A_WORD, balance};
pub use candidate::Candidate;
pub use cost::{RestartCost, restart_cost};
pub use draw::{DrawRequest, MAX_SEED, PlanError, draw};
pub use looks::{default_looks, last_look_alpha};
pub use resolution::{rounds_per_block, smallest_p_value};
