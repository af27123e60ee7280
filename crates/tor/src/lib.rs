//! A private Tor network on loopback: a synthetic directory, an authority that signs and serves it
//! from this process, a load generator that speaks the OR protocol, and the folders and control
//! connections of the real relays under trial. [`relay`] is about relays that run on this host as services.
//!
//! Nothing here starts a process but `tor-gencert` and `tor --verify-config`, and nothing leaves loopback.

mod authority;
mod control;
mod directory;
mod endpoint;
mod error;
mod instance;
mod link;
mod load;
mod program;
pub mod relay;

pub use authority::{Authority, AuthorityKeys, AuthorityOptions, DirectoryParameters, Snapshot};
pub use control::Control;
pub use endpoint::Endpoint;
pub use error::TorError;
pub use instance::{RelayInstance, RelayParameters};
pub use load::{LoadDriver, LoadParameters, LoadPlan, LoadTotals, Phase};
