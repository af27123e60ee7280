//! A Tor relay of this host: its files, its control socket, its metrics, and edits of its torrc; and how metrics
//! of any service are read.
//!
//! The one way in which agent, trials and preflight look at relays. The lab's private network is another crate, which
//! uses the control connection and the programs of the Tor package from here.

mod control;
mod edit;
mod endpoint;
mod error;
mod facts;
pub mod http;
mod invocation;
pub mod metrics;
mod ports;
mod program;
mod readings;
mod relay_control;
mod reserved;
mod series;
mod settings;
mod torrc;
mod verify;

pub use control::Control;
pub use edit::{TorrcEdit, TorrcRefusal};
pub use endpoint::Endpoint;
pub use error::TorError;
pub use facts::Relay;
pub use program::Program;
pub use readings::RelayReadings;
pub use series::Series;
