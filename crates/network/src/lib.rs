//! A private Tor network on loopback: a synthetic directory, an authority that signs and serves it
//! from this process, a load generator that speaks the OR protocol, and the folders of the real relays under trial.
//!
//! Nothing here starts a process but `tor-gencert` and `tor --verify-config`, and nothing leaves loopback.

mod authority;
mod directory;
mod instance;
mod link;
mod load;

pub use authority::{
    Authority, AuthorityKeys, DirectoryParameters, Door, Past, RETAINED_AT_MOST, Snapshot, Stamps,
};
pub use instance::{RelayInstance, RelayParameters};
pub use load::{LoadDriver, LoadParameters, LoadTotals, Traffic, TrafficParameters, TrafficTotals};
