//! The client side of the OR protocol, as far as a directory client needs it (tor-spec): TLS, link
//! protocol 4 or 5, one-hop circuits made with CREATE_FAST, and directory streams (BEGIN_DIR).
//!
//! It authenticates nobody: both ends belong to the lab.

mod cell;
mod channel;
mod circuit;

pub(crate) use channel::{Channel, LinkError, tls_connector};
pub(crate) use circuit::Circuit;
