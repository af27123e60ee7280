//! A relay that runs on this host: its files, its control socket, its metrics, and edits of its torrc.

mod control;
mod cost;
mod edit;
mod facts;
mod invocation;
pub mod metrics;
mod ports;
mod readings;
mod reserved;
mod settings;
mod torrc;
mod verify;

pub use control::RelayControl;
pub use cost::{CostFact, RestartCost};
pub use edit::{TorrcEdit, TorrcRefusal};
pub use facts::Relay;
pub use readings::RelayReadings;

pub(crate) use settings::read_small;
pub(crate) use torrc::unquote;
