//! A synthetic directory: relays that exist only as descriptors, and the consensus over them.
//!
//! Formats: Tor's dir-spec, cert-spec and tor-spec.

mod certificate;
mod consensus;
mod encode;
mod keys;
mod population;
mod relay;
mod uploaded;

pub use consensus::{Consensus, ConsensusSigner, Flavor, Validity};
pub use keys::RsaKey;
pub use population::Population;
pub use relay::SyntheticRelay;
pub use uploaded::UploadedRelay;
