//! The client's side of the ntor handshake (tor-spec, "The ntor handshake").

use curve25519_dalek::MontgomeryPoint;
use curve25519_dalek::constants::X25519_BASEPOINT;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Type of the handshake in CREATE2 and EXTEND2.
pub(crate) const HANDSHAKE_TYPE: u16 = 2;
/// Length of the client's part.
pub(crate) const ONIONSKIN_BYTES: usize = 84;
/// Length of the relay's part.
pub(crate) const REPLY_BYTES: usize = 64;
/// Keys of a circuit: two digest seeds of 20 bytes, then two cipher keys of 16, forward ones first.
pub(crate) const KEY_BYTES: usize = 72;

const PROTOCOL: &[u8] = b"ntor-curve25519-sha256-1";
const MAC_TWEAK: &[u8] = b"ntor-curve25519-sha256-1:mac";
const KEY_TWEAK: &[u8] = b"ntor-curve25519-sha256-1:key_extract";
const VERIFY_TWEAK: &[u8] = b"ntor-curve25519-sha256-1:verify";
const EXPAND_TWEAK: &[u8] = b"ntor-curve25519-sha256-1:key_expand";

/// What a client has to know of a relay to shake hands with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NtorKey {
    /// SHA-1 of the relay's RSA identity key.
    pub(crate) identity: [u8; 20],
    pub(crate) onion: [u8; 32],
}

/// The client's secret, one for all circuits: 8 has the form of every clamped secret, a multiple of 8, and makes of the
/// client's two multiplications a few doublings. The relay sees no difference: it makes a key of its own for each circuit,
/// and its multiplications take the same steps whatever point it was sent. Nothing secret goes through the lab.
const LOAD_SECRET: [bool; 4] = [true, false, false, false];

/// How a client shakes hands with one relay, every time alike.
#[derive(Debug, Clone)]
pub(crate) struct Handshake {
    relay: NtorKey,
    /// From the highest bit on.
    secret: &'static [bool],
    public: MontgomeryPoint,
    /// Of the client's secret and the relay's onion key.
    shared_onion: MontgomeryPoint,
}

impl Handshake {
    pub(crate) fn new(relay: NtorKey) -> Self {
        Self::with_secret(relay, &LOAD_SECRET)
    }

    fn with_secret(relay: NtorKey, secret: &'static [bool]) -> Self {
        let times = |point: MontgomeryPoint| point.mul_bits_be(secret.iter().copied());
        let (public, shared_onion) = (times(X25519_BASEPOINT), times(MontgomeryPoint(relay.onion)));
        Self { relay, secret, public, shared_onion }
    }

    pub(crate) fn onionskin(&self) -> [u8; ONIONSKIN_BYTES] {
        let mut bytes = [0; ONIONSKIN_BYTES];
        bytes[..20].copy_from_slice(&self.relay.identity);
        bytes[20..52].copy_from_slice(&self.relay.onion);
        bytes[52..].copy_from_slice(self.public.as_bytes());
        bytes
    }

    /// The keys that a relay's reply leads to; `None` if the reply is not one of the relay that was asked.
    pub(crate) fn keys(&self, reply: &[u8]) -> Option<[u8; KEY_BYTES]> {
        let (theirs, authenticator) = reply.get(..REPLY_BYTES)?.split_at(32);
        let theirs = MontgomeryPoint(theirs.try_into().ok()?);
        let NtorKey { identity, onion } = &self.relay;
        let shared_ephemeral = theirs.mul_bits_be(self.secret.iter().copied());
        let (shared_ephemeral, shared_onion) = (shared_ephemeral.as_bytes(), self.shared_onion.as_bytes());
        let (ours, theirs) = (self.public.as_bytes(), theirs.as_bytes());
        let input: [&[u8]; 7] = [shared_ephemeral, shared_onion, identity, onion, ours, theirs, PROTOCOL];
        let verify = keyed_hash(VERIFY_TWEAK, &input);
        if keyed_hash(MAC_TWEAK, &[&verify, identity, onion, theirs, ours, PROTOCOL, b"Server"])
            != authenticator
        {
            return None;
        }
        let seed = keyed_hash(KEY_TWEAK, &input);
        // HKDF's expansion (RFC 5869) with the seed as pseudorandom key.
        let mut keys = [0; KEY_BYTES];
        let mut block = Vec::new();
        for (counter, part) in (1_u8..).zip(keys.chunks_mut(32)) {
            block = keyed_hash(&seed, &[&block, EXPAND_TWEAK, &[counter]]).to_vec();
            part.copy_from_slice(&block[..part.len()]);
        }
        Some(keys)
    }
}

fn keyed_hash(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC takes keys of any length.
    let mut hash = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("HMAC takes any key");
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        hex::decode(text).unwrap().try_into().unwrap()
    }

    /// The vector of Tor's own reference implementation (`src/test/ntor_ref.py`), as Arti's tests have it.
    fn vector() -> (Handshake, [u8; REPLY_BYTES]) {
        let secret = bytes("706f6461792069207075742e2e2e2e2e2e2e2e4a454c4c59206f6e2074686973");
        let clamped = curve25519_dalek::scalar::clamp_integer(secret);
        let bits: Vec<bool> = (0..255).rev().map(|bit| clamped[bit / 8] >> (bit % 8) & 1 == 1).collect();
        let relay = NtorKey {
            identity: bytes("69546f6c64596f7541626f75745374616972732e"),
            onion: bytes("ccbc8541904d18af08753eae967874749e6149f873de937f57f8fd903a21c471"),
        };
        let reply = "390480a14362761d6aec1fea840f6e9e928fb2adb7b25c670be1045e35133a37\
                     1cbdf68b89923e1f85e8e18ee6e805ea333fe4849c790ffd2670bd80fec95cc8";
        (Handshake::with_secret(relay, bits.leak()), bytes(reply))
    }

    #[test]
    fn a_published_handshake_gives_its_keys() {
        let (handshake, reply) = vector();
        let onionskin = "69546f6c64596f7541626f75745374616972732e\
                         ccbc8541904d18af08753eae967874749e6149f873de937f57f8fd903a21c471\
                         e65dfdbef8b2635837fe2cebc086a8096eae3213e6830dc407516083d412b078";
        assert_eq!(hex::encode(handshake.onionskin()), onionskin);
        let keys = "0c62dee7f48893370d0ef896758d35729867beef1a5121df80e00f79ed349af39b51cae125719182f19d932a667dae1a\
                    fbf2e336e6910e7822223e763afad0a13342157969dc6b79";
        assert_eq!(hex::encode(handshake.keys(&reply).unwrap()), keys);
    }

    #[test]
    fn a_reply_of_somebody_else_gives_none() {
        let (handshake, reply) = vector();
        for place in [0, 40] {
            let mut changed = reply;
            changed[place] ^= 4;
            assert_eq!(handshake.keys(&changed), None);
        }
        assert_eq!(handshake.keys(&reply[..63]), None);
    }

    #[test]
    fn the_secret_of_the_load_is_a_clamped_one_in_all_but_its_height() {
        let mut eight = [0; 32];
        eight[0] = 8;
        let scalar = curve25519_dalek::Scalar::from_bytes_mod_order(eight);
        let (handshake, _) = vector();
        let load = Handshake::new(handshake.relay);
        assert_eq!(load.public, X25519_BASEPOINT * scalar);
    }
}
