//! A private Tor network on loopback: a synthetic directory, an authority that signs and serves it
//! from this process, a load generator that speaks the OR protocol, and the folders and control
//! connections of the real relays under trial.
//!
//! Nothing here starts a process but `tor-gencert`, and nothing leaves loopback.

mod authority;
mod control;
mod directory;
mod error;
mod instance;
mod link;
mod load;

pub use authority::{Authority, AuthorityKeys, DirectoryParameters, Snapshot};
pub use control::Control;
pub use error::TorError;
pub use instance::{RelayInstance, RelayParameters};
pub use load::{LoadDriver, LoadParameters, LoadPlan, LoadTotals, Phase};
