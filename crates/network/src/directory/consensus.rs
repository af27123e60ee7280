//! The consensus of both flavours, signed by the one authority.

use sha1::Sha1;
use sha2::{Digest, Sha256};
use sha3::Sha3_256;

use super::encode::{fingerprint, object, utc};
use super::keys::RsaKey;
use heaptrial_relay::TorError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// The one that lists descriptors.
    Ns,
    /// The one that lists microdescriptors.
    Microdesc,
}

/// When a consensus counts, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub valid_after: i64,
    pub fresh_until: i64,
    /// Until it must not be used.
    pub valid_until: i64,
    /// How old consensuses may be that relays retain, in hours, where that is not left to them.
    pub retain_hours: Option<u32>,
}

/// What signs a consensus: the authority's signing key and its certificate's names.
#[derive(Debug)]
pub struct ConsensusSigner {
    pub signing_key: RsaKey,
    /// Fingerprint of the identity key, in upper-case hexadecimal (`v3ident`).
    pub identity: String,
    /// `ADDRESS DIRPORT ORPORT` of the authority, as `dir-source` names it.
    pub dir_port: u16,
}

#[derive(Debug, Clone)]
pub struct Consensus {
    pub text: String,
    /// SHA3-256 of its signed part, in upper-case hexadecimal: how a client names the consensus that
    /// it wants a diff from.
    pub signed_digest: String,
}

/// Relays that have an older consensus than this do not name it when they ask; the highest that Tor takes.
const NAMED_HOURS: u32 = 8192;
const REQUIRED: &str = "Cons=2 Desc=2 DirCache=2 HSDir=2 HSIntro=4 HSRend=2 Link=4-5 Microdesc=2 Relay=2-4";

impl Consensus {
    /// The consensus over `relays`: identities and entries.
    pub fn new(
        flavor: Flavor,
        validity: &Validity,
        mut relays: Vec<([u8; 20], String)>,
        signer: &ConsensusSigner,
    ) -> Result<Self, TorError> {
        let microdesc = flavor == Flavor::Microdesc;
        let identity = &signer.identity;
        let parameters = validity.retain_hours.map(|hours| {
            format!(
                "params max-consensus-age-to-cache-for-diff={hours} try-diff-for-consensus-newer-than={NAMED_HOURS}\n"
            )
        });
        let mut text = format!(
            "network-status-version 3{}\nvote-status consensus\nconsensus-method 34\nvalid-after {}\n\
             fresh-until {}\nvalid-until {}\nvoting-delay 2 2\nclient-versions \nserver-versions \n\
             known-flags Authority Exit Fast Guard HSDir Running Stable V2Dir Valid\n\
             recommended-client-protocols {REQUIRED}\nrecommended-relay-protocols {REQUIRED}\n\
             required-client-protocols Link=4\nrequired-relay-protocols Link=4\n{}\
             dir-source lab {identity} 127.0.0.1 127.0.0.1 {} 1\ncontact lab\nvote-digest {}\n",
            if microdesc { " microdesc" } else { "" },
            utc(validity.valid_after),
            utc(validity.fresh_until),
            utc(validity.valid_until),
            parameters.unwrap_or_default(),
            signer.dir_port,
            "A".repeat(40),
        );
        // A consensus lists relays in the order of their identities.
        relays.sort();
        for (_, entry) in &relays {
            text.push_str(entry);
        }
        text.push_str(
            "directory-footer\nbandwidth-weights Wbd=0 Wbe=0 Wbg=4096 Wbm=10000 Wdb=10000 Web=10000 \
             Wed=10000 Wee=10000 Weg=10000 Wem=10000 Wgb=10000 Wgd=0 Wgg=5904 Wgm=5904 Wmb=10000 Wmd=0 \
             Wme=0 Wmg=4096 Wmm=10000\ndirectory-signature ",
        );
        let signed_digest = hex::encode_upper(Sha3_256::digest(&text));
        let signing_key = fingerprint(&signer.signing_key.id());
        let (algorithm, digest) = if microdesc {
            ("sha256 ", Sha256::digest(&text).to_vec())
        } else {
            ("", Sha1::digest(&text).to_vec())
        };
        text.push_str(&format!("{algorithm}{identity} {signing_key}\n"));
        text.push_str(&object("SIGNATURE", &signer.signing_key.sign(&digest)?));
        Ok(Self { text, signed_digest })
    }
}
