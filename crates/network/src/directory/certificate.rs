//! Ed25519 certificates and the signature of a key that is really for key exchange.

use curve25519_dalek::{MontgomeryPoint, Scalar};
use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha512};

use super::encode::object;

/// Certifies a relay's signing key by its identity key (cert-spec: CERT_TYPE 4).
const IDENTITY_V_SIGNING: u8 = 4;
/// Certifies a relay's identity by its onion key (CERT_TYPE 10).
const ONION_V_IDENTITY: u8 = 10;

/// The certificate of a relay's signing key, with the identity key that signs it inside.
pub(crate) fn signing_key_certificate(
    identity: &SigningKey,
    signing: &VerifyingKey,
    expires_hour: u32,
) -> String {
    let mut body = certificate_body(IDENTITY_V_SIGNING, signing, expires_hour);
    // One extension: 32 bytes, type 4 (the key that signs), no flags.
    body.extend([1, 0, 32, 4, 0]);
    body.extend(identity.verifying_key().as_bytes());
    let signature = identity.sign(&body).to_bytes();
    body.extend(signature);
    object("ED25519 CERT", &body)
}

/// A certificate of `kind` for an Ed25519 key, up to its extensions; it ends at `expires_hour` (hours since 1970).
fn certificate_body(kind: u8, certified: &VerifyingKey, expires_hour: u32) -> Vec<u8> {
    let mut body = vec![1, kind];
    body.extend(expires_hour.to_be_bytes());
    body.push(1);
    body.extend(certified.as_bytes());
    body
}

/// An ntor onion key with the certificate by which it vouches for the relay's identity.
#[derive(Debug, Clone)]
pub(crate) struct OnionKey {
    pub(crate) public: [u8; 32],
    /// Sign bit of the Ed25519 key that belongs to it (`ntor-onion-key-crosscert BIT`).
    pub(crate) sign_bit: u8,
    pub(crate) certificate: String,
}

impl OnionKey {
    /// From 32 random bytes. The curve25519 key signs as the Ed25519 key that tor-spec's appendix on
    /// converting keys derives from it.
    pub(crate) fn new(mut secret: [u8; 32], identity: &VerifyingKey, expires_hour: u32) -> Self {
        secret[0] &= 248;
        secret[31] = (secret[31] & 127) | 64;
        let mut hash = Sha512::new();
        hash.update(secret);
        hash.update(b"Derive high part of ed25519 key from curve25519 key\0");
        let hashed: [u8; 64] = hash.finalize().into();
        let mut hash_prefix = [0; 32];
        hash_prefix.copy_from_slice(&hashed[..32]);
        let expanded = ExpandedSecretKey { scalar: Scalar::from_bytes_mod_order(secret), hash_prefix };
        let verifying = VerifyingKey::from(&expanded);
        let mut body = certificate_body(ONION_V_IDENTITY, identity, expires_hour);
        body.push(0);
        let signature = raw_sign::<Sha512>(&expanded, &body, &verifying).to_bytes();
        body.extend(signature);
        Self {
            public: MontgomeryPoint::mul_base_clamped(secret).to_bytes(),
            sign_bit: verifying.as_bytes()[31] >> 7,
            certificate: object("ED25519 CERT", &body),
        }
    }
}
