//! The OR protocol, as far as the lab's clients need it (tor-spec): TLS and link protocol 4 or 5; circuits made by CREATE_FAST
//! with directory streams on them, and circuits made by CREATE2 (ntor).
//!
//! It authenticates nobody: both ends belong to the lab.

mod cell;
mod channel;
mod circuit;
mod ntor;

pub(crate) use cell::{CREATE2, CREATED2, DESTROY};
pub(crate) use channel::{Channel, LinkError, tls_connector};
pub(crate) use circuit::{Circuit, create2};
pub(crate) use ntor::{Handshake, NtorKey};
