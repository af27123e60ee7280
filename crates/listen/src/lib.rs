//! The one listener for HTTP: of the dashboard, and of the agent's metrics.
//!
//! A request has little time, its answer a limited one, and whoever holds connections open keeps nobody out: a peer has
//! a limited number of places, and where all are taken, a new connection takes that of an idle one. Handlers find the
//! [`Peer`] in the request's extensions. Only names of this machine are answered, and nothing but GET and HEAD.

mod address;
mod connections;
mod listener;
mod names;

pub use address::{Listen, ListenError};
pub use connections::Peer;
pub use listener::Listener;
pub use names::{Names, refuse_others};
