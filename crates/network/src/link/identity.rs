//! A relay's identity as it is shown on a link: the certificates of tor-spec, "Negotiating channels".

use std::sync::Arc;

use ed25519_dalek::SigningKey;
use rand::Rng;
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use crate::directory::{CertifiedKey, RsaKey, ed25519_certificate};
use heaptrial_relay::TorError;

/// Types of certificates in a CERTS cell (cert-spec).
const RSA_IDENTITY: u8 = 2;
const IDENTITY_V_SIGNING: u8 = 4;
const SIGNING_V_TLS: u8 = 5;
const RSA_V_IDENTITY: u8 = 7;

/// The object identifiers of sha256WithRSAEncryption (RFC 8017) and of a common name (RFC 5280).
const SHA256_WITH_RSA: [u8; 11] = [6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 0x0b];
const COMMON_NAME: [u8; 5] = [6, 3, 0x55, 4, 3];
/// What stands before a SHA-256 digest in a PKCS #1 v1.5 signature (RFC 8017).
const SHA256_INFO: [u8; 19] = [48, 49, 48, 13, 6, 9, 96, 134, 72, 1, 101, 3, 4, 2, 1, 5, 0, 4, 32];

const INTEGER: u8 = 2;
const BITS: u8 = 3;
const NULL: [u8; 2] = [5, 0];
const UTF8: u8 = 12;
const TIME: u8 = 23;
const SEQUENCE: u8 = 48;
const SET: u8 = 49;
const VERSION: u8 = 160;

/// Who a relay of the lab's own is.
#[derive(Clone)]
pub(crate) struct HopIdentity {
    rsa_id: [u8; 20],
    ed25519_id: [u8; 32],
    certificates: Vec<u8>,
    tls: TlsAcceptor,
}

impl HopIdentity {
    /// An identity with an RSA key of 1024 bits and a TLS key of 2048, as relays have; its certificates end
    /// at `expires_hour` (hours since 1970).
    pub(crate) fn new(
        rsa: &RsaKey,
        link: &RsaKey,
        expires_hour: u32,
        random: &mut impl Rng,
    ) -> Result<Self, TorError> {
        let keys = |error: rustls::Error| TorError::Failed(format!("setting up TLS: {error}"));
        let [identity, signing] = [(); 2].map(|()| SigningKey::from_bytes(&random.random()));
        let rsa_certificate = x509(&rsa.subject_public_key_info()?, rsa)?;
        let link_certificate = x509(&link.subject_public_key_info()?, rsa)?;
        let verifying = identity.verifying_key();
        let link_digest: [u8; 32] = Sha256::digest(&link_certificate).into();
        let by_identity = ed25519_certificate(
            IDENTITY_V_SIGNING,
            CertifiedKey::Ed25519(signing.verifying_key()),
            expires_hour,
            &identity,
        );
        let by_signing = ed25519_certificate(
            SIGNING_V_TLS,
            CertifiedKey::Certificate(link_digest),
            expires_hour,
            &signing,
        );
        let mut crossed = verifying.as_bytes().to_vec();
        crossed.extend(expires_hour.to_be_bytes());
        let signed = Sha256::new_with_prefix(b"Tor TLS RSA/Ed25519 cross-certificate").chain_update(&crossed);
        let signature = rsa.sign(&signed.finalize())?;
        crossed.push(signature.len() as u8);
        crossed.extend(signature);
        let all = [
            (RSA_IDENTITY, rsa_certificate),
            (IDENTITY_V_SIGNING, by_identity),
            (SIGNING_V_TLS, by_signing),
            (RSA_V_IDENTITY, crossed),
        ];
        let mut certificates = vec![all.len() as u8];
        for (kind, bytes) in all {
            certificates.push(kind);
            certificates.extend((bytes.len() as u16).to_be_bytes());
            certificates.extend(bytes);
        }
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(keys)?
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(link_certificate)],
                PrivatePkcs8KeyDer::from(link.pkcs8()?).into(),
            )
            .map_err(keys)?;
        let tls = TlsAcceptor::from(Arc::new(config));
        Ok(Self { rsa_id: rsa.id(), ed25519_id: *verifying.as_bytes(), certificates, tls })
    }

    /// SHA-1 of its RSA key.
    pub(crate) fn rsa_id(&self) -> [u8; 20] {
        self.rsa_id
    }

    pub(crate) fn ed25519_id(&self) -> [u8; 32] {
        self.ed25519_id
    }

    pub(super) fn certificates(&self) -> &[u8] {
        &self.certificates
    }

    pub(super) fn tls(&self) -> &TlsAcceptor {
        &self.tls
    }
}

/// A certificate of version 3 for a key, signed by `issuer`. Nobody looks at its names.
fn x509(subject_public_key_info: &[u8], issuer: &RsaKey) -> Result<Vec<u8>, TorError> {
    let algorithm = sequence(&[&SHA256_WITH_RSA, &NULL]);
    let name = sequence(&[&der(SET, &[&sequence(&[&COMMON_NAME, &der(UTF8, &[b"www.example.invalid"])])])]);
    let validity = sequence(&[&der(TIME, &[b"200101000000Z"]), &der(TIME, &[b"491231000000Z"])]);
    let version = der(VERSION, &[&der(INTEGER, &[&[2]])]);
    let serial = der(INTEGER, &[&[1]]);
    let body = sequence(&[&version, &serial, &algorithm, &name, &validity, &name, subject_public_key_info]);
    let digest = Sha256::digest(&body);
    let signature = issuer.sign(&[&SHA256_INFO[..], &digest].concat())?;
    Ok(sequence(&[&body, &algorithm, &der(BITS, &[&[0], &signature])]))
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    der(SEQUENCE, parts)
}

fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec![tag];
    match length {
        0..128 => bytes.push(length as u8),
        128..256 => bytes.extend([0x81, length as u8]),
        _ => {
            bytes.push(0x82);
            bytes.extend((length as u16).to_be_bytes());
        }
    }
    parts.iter().for_each(|part| bytes.extend(*part));
    bytes
}
