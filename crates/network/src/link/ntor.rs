//! The client's side of the ntor handshake (tor-spec, "The ntor handshake").

use curve25519_dalek::MontgomeryPoint;
use curve25519_dalek::constants::X25519_BASEPOINT;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Type of the handshake in CREATE2.
pub(crate) const HANDSHAKE_TYPE: u16 = 2;
/// Length of the client's part.
pub(crate) const ONIONSKIN_BYTES: usize = 84;
/// Length of the relay's part.
const REPLY_BYTES: usize = 64;

const PROTOCOL: &[u8] = b"ntor-curve25519-sha256-1";
const MAC_TWEAK: &[u8] = b"ntor-curve25519-sha256-1:mac";
const VERIFY_TWEAK: &[u8] = b"ntor-curve25519-sha256-1:verify";

/// What a client has to know of a relay to shake hands with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NtorKey {
    /// SHA-1 of the relay's RSA identity key.
    pub(crate) identity: [u8; 20],
    pub(crate) onion: [u8; 32],
}

/// The client's secret, one for all circuits: 8 has the form of every clamped secret, a multiple of 8, and makes of the
/// client's two multiplications a few doublings. The relay sees no difference: it makes a key of its own for each circuit,
/// and its multiplications take the same steps whatever point it was sent. Nothing secret goes through the lab. From the highest bit on.
const LOAD_SECRET: [bool; 4] = [true, false, false, false];

/// How a client shakes hands with one relay, every time alike.
#[derive(Debug, Clone)]
pub(crate) struct Handshake {
    relay: NtorKey,
    public: MontgomeryPoint,
    /// Of the client's secret and the relay's onion key.
    shared_onion: MontgomeryPoint,
}

impl Handshake {
    pub(crate) fn new(relay: NtorKey) -> Self {
        Self { relay, public: times(X25519_BASEPOINT), shared_onion: times(MontgomeryPoint(relay.onion)) }
    }

    pub(crate) fn onionskin(&self) -> [u8; ONIONSKIN_BYTES] {
        let mut bytes = [0; ONIONSKIN_BYTES];
        bytes[..20].copy_from_slice(&self.relay.identity);
        bytes[20..52].copy_from_slice(&self.relay.onion);
        bytes[52..].copy_from_slice(self.public.as_bytes());
        bytes
    }

    /// Whether a reply is one of the relay that was asked. Nothing is sent over the circuit, so that its keys are not needed.
    pub(crate) fn is_answered_by(&self, reply: &[u8]) -> bool {
        let Some((theirs, authenticator)) =
            reply.get(..REPLY_BYTES).and_then(|reply| reply.split_first_chunk())
        else {
            return false;
        };
        let NtorKey { identity, onion } = &self.relay;
        let shared_ephemeral = times(MontgomeryPoint(*theirs));
        let (shared_ephemeral, shared_onion) = (shared_ephemeral.as_bytes(), self.shared_onion.as_bytes());
        let ours = self.public.as_bytes();
        let input: [&[u8]; 7] = [shared_ephemeral, shared_onion, identity, onion, ours, theirs, PROTOCOL];
        let verify = keyed_hash(VERIFY_TWEAK, &input);
        keyed_hash(MAC_TWEAK, &[&verify, identity, onion, theirs, ours, PROTOCOL, b"Server"])
            == *authenticator
    }
}

fn times(point: MontgomeryPoint) -> MontgomeryPoint {
    point.mul_bits_be(LOAD_SECRET.into_iter())
}

fn keyed_hash(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC takes keys of any length.
    let mut hash = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("HMAC takes any key");
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into_bytes().into()
}
