//! The one listener for HTTP: of the dashboard, and of the agent's metrics.
//!
//! A request has little time, and its head a limited length. Only names of this machine are answered, and nothing but GET and HEAD.

mod address;
mod listener;
mod names;

pub use address::{Listen, ListenError};
pub use listener::Listener;
pub use names::{Names, refuse_others};
