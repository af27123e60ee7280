//! What follows from what a check sees. Pure: no I/O and no clock.

mod cause;
mod facts;
mod failures;
mod growth;
mod identity;
mod level;
mod look;
mod memory;
mod reference;
mod transaction;
mod work;

pub use facts::facts;
pub use look::{LookResult, look};
pub(crate) use look::{NO_LOOK, read_last, waiting, waits};
pub(crate) use reference::COMPARED_UP_TO;
