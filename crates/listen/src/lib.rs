//! The one listener for HTTP: of the dashboard, and of the agent's metrics.
//!
//! A request has little time, and whoever holds connections open keeps nobody out: where all places are taken, a new
//! connection takes that of an idle one. Only names of this machine are answered, and nothing but GET and HEAD.

mod address;
mod connections;
mod listener;
mod names;

pub use address::{Listen, ListenError};
pub use listener::Listener;
pub use names::{Names, refuse_others};
