//! The OR protocol, as far as the lab needs it (tor-spec): TLS and link protocol 4 or 5, as a client and as a relay
//! that others connect to; circuits made by CREATE_FAST with directory streams on them, and circuits made by CREATE2
//! (ntor) that are extended to a second hop.
//!
//! It authenticates nobody: both ends belong to the lab.

mod cell;
mod channel;
mod circuit;
mod identity;
mod ntor;

pub(crate) use cell::{CREATE2, CREATED2, DESTROY, PAYLOAD_BYTES, RELAY, RELAY_EARLY};
pub(crate) use channel::{Channel, LinkError, tls_connector};
pub(crate) use circuit::{Circuit, NextHop, create2};
pub(crate) use identity::HopIdentity;
pub(crate) use ntor::{Handshake, NtorKey, REPLY_BYTES};
