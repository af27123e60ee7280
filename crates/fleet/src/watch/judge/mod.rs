//! What follows from what a check sees. Pure: no I/O and no clock.

mod facts;
mod failures;
mod identity;
mod look;
mod memory;
mod work;

pub use facts::facts;
pub(crate) use look::is_read;
pub use look::{LookResult, look};
