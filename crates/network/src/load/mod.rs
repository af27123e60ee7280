//! Load on the relays under trial: the same for each relay at the same time. Directory clients come and go by a plan;
//! traffic (held connections, circuits and cells) goes on all the time.

mod driver;
mod far_end;
mod held;
mod plan;
mod request;
mod traffic;

pub use driver::{LoadDriver, LoadTotals};
pub use plan::{LoadParameters, LoadPlan};
pub use traffic::{Traffic, TrafficParameters, TrafficTotals};
