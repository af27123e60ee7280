//! Load on the relays under trial: directory clients that do the same to each relay at the same time.

mod driver;
mod plan;
mod request;

pub use driver::{LoadDriver, LoadTotals};
pub use plan::{LoadParameters, LoadPlan};
