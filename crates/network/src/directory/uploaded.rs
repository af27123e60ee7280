//! A real relay as its own descriptor describes it.

use std::net::SocketAddr;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::Flavor;
use super::encode::{base64, unbase64};
use super::relay::Published;
use crate::link::NtorKey;

/// What is listed for each, so that circuits go through real relays and not through synthetic ones.
const BANDWIDTH: u32 = 1_000_000;
/// A `Guard` needs no more than to listen.
const FLAGS: &str = "Fast Guard HSDir Running Stable V2Dir Valid";

/// A relay that uploaded its descriptor. Signatures are not checked here; the relays that fetch it check them.
#[derive(Debug, Clone)]
pub struct UploadedRelay {
    id: [u8; 20],
    nickname: String,
    address: String,
    or_port: u16,
    version: String,
    protocols: String,
    onion_key: [u8; 32],
    published: Published,
}

impl UploadedRelay {
    /// From what a relay posts: its descriptor, and perhaps an extra-info document after it. `None` if a line is
    /// missing that a consensus needs (dir-spec section 2.1.1).
    pub fn parse(posted: &str) -> Option<Self> {
        const SIGNATURE: &str = "\nrouter-signature\n";
        const END: &str = "-----END SIGNATURE-----\n";
        let start = if posted.starts_with("router ") { 0 } else { posted.find("\nrouter ")? + 1 };
        let posted = &posted[start..];
        let signed = posted.find(SIGNATURE)? + SIGNATURE.len();
        let end = signed + posted[signed..].find(END)? + END.len();
        let (descriptor, body) = (&posted[..end], &posted[..signed]);
        let value = |keyword: &str| {
            body.lines().find_map(|line| line.strip_prefix(keyword)?.strip_prefix(' ')).map(str::trim)
        };
        let mut router = value("router")?.split(' ');
        let (nickname, address) = (router.next()?, router.next()?);
        let or_port = router.next()?.parse().ok()?;
        let id = hex::decode(value("fingerprint")?.replace(' ', "")).ok()?.try_into().ok()?;
        let platform = value("platform")?;
        let onion_key = value("ntor-onion-key")?;
        let mut microdescriptor = format!("onion-key\nntor-onion-key {onion_key}\n");
        if let Some(family) = value("family") {
            microdescriptor.push_str(&format!("family {family}\n"));
        }
        microdescriptor.push_str(&format!("id ed25519 {}\n", value("master-key-ed25519")?));
        Some(Self {
            id,
            nickname: nickname.to_owned(),
            address: address.to_owned(),
            or_port,
            version: platform.split_once(" on").map_or(platform, |(version, _)| version).to_owned(),
            protocols: value("proto")?.to_owned(),
            onion_key: unbase64(onion_key)?.try_into().ok()?,
            published: Published {
                descriptor: descriptor.to_owned(),
                descriptor_digest: Sha1::digest(body).into(),
                microdescriptor_digest: base64(&Sha256::digest(&microdescriptor)),
                microdescriptor,
            },
        })
    }

    /// SHA-1 of its identity key.
    pub fn id(&self) -> [u8; 20] {
        self.id
    }

    /// Where it listens for the OR protocol.
    pub(crate) fn or_address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.address.parse().ok()?, self.or_port))
    }

    /// What clients need for CREATE2.
    pub(crate) fn ntor_key(&self) -> NtorKey {
        NtorKey { identity: self.id, onion: self.onion_key }
    }

    pub(crate) fn published(&self) -> &Published {
        &self.published
    }

    /// Its entry in a consensus.
    pub(crate) fn consensus_lines(&self, flavor: Flavor) -> String {
        let Self { nickname, address, or_port, version, protocols, published, .. } = self;
        let id = base64(&self.id);
        let place = format!("2038-01-01 00:00:00 {address} {or_port} 0");
        let (entry, policy) = match flavor {
            Flavor::Microdesc => {
                (format!("r {nickname} {id} {place}\nm {}\n", published.microdescriptor_digest), "")
            }
            Flavor::Ns => {
                let digest = base64(&published.descriptor_digest);
                (format!("r {nickname} {id} {digest} {place}\n"), "p reject 1-65535\n")
            }
        };
        format!("{entry}s {FLAGS}\nv {version}\npr {protocols}\nw Bandwidth={BANDWIDTH}\n{policy}")
    }
}
