//! One synthetic relay and its descriptors.

use ed25519_dalek::{Signer, SigningKey};
use rand::seq::IndexedRandom;
use rand::{Rng, RngCore};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::Flavor;
use super::certificate::{OnionKey, signing_key_certificate};
use super::encode::{base64, fingerprint, object, utc};
use super::keys::RsaKey;
use heaptrial_relay::TorError;

/// Protocol versions that the relays claim.
pub(crate) const PROTOCOLS: &str = "Conflux=1 Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=1-2 Link=1-5 LinkAuth=1,3 Microdesc=1-2 Padding=2 Relay=2-4";

/// Exit policy of the synthetic exits, summarised as the consensus writes it.
pub(crate) const EXIT_SUMMARY: &str = "accept 20-23,43,53,79-81,443";

const EXIT_POLICY: &str = "reject 0.0.0.0/8:*\nreject 10.0.0.0/8:*\nreject 25.0.0.0/8:*\naccept *:20-23\naccept *:43\naccept *:53\naccept *:79-81\naccept *:443\nreject *:*\n";

const PLATFORMS: [&str; 6] = [
    "Tor 0.4.8.16 on Linux",
    "Tor 0.4.8.17 on Linux",
    "Tor 0.4.8.21 on Linux",
    "Tor 0.4.9.5 on Linux",
    "Tor 0.4.9.11 on Linux",
    "Tor 0.4.9.11 on FreeBSD",
];

/// Certificates live this long from the start of the run.
const CERTIFICATE_HOURS: u32 = 24 * 30;

/// A relay that exists only in the directory. Its address is on loopback and nothing listens there.
#[derive(Debug, Clone)]
pub struct SyntheticRelay {
    key: RsaKey,
    tap_certificate: String,
    tap_object: String,
    identity: SigningKey,
    signing: SigningKey,
    certificate: String,
    expires_hour: u32,
    onion: OnionKey,
    nickname: String,
    address: String,
    or_port: u16,
    platform: &'static str,
    contact: String,
    uptime_seconds: u64,
    revision: u64,
    family: Vec<[u8; 20]>,
    /// Whether it is an exit.
    pub(crate) exit: bool,
    /// Measured bandwidth in the consensus.
    pub(crate) bandwidth: u32,
    published: Published,
}

/// The descriptors of a relay as last published.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published {
    pub(crate) descriptor: String,
    pub(crate) descriptor_digest: [u8; 20],
    pub(crate) microdescriptor: String,
    pub(crate) microdescriptor_digest: String,
}

impl SyntheticRelay {
    /// The `index`th relay; `tap` is the old onion key that all synthetic relays share. It
    /// has no descriptors before [`publish`](Self::publish).
    pub(crate) fn new(
        index: usize,
        key: RsaKey,
        tap: &RsaKey,
        now: i64,
        random: &mut impl Rng,
    ) -> Result<Self, TorError> {
        let identity = random_signing_key(random);
        let signing = random_signing_key(random);
        let expires_hour = (now / 3600) as u32 + CERTIFICATE_HOURS;
        let verifying = identity.verifying_key();
        let mut vouched = key.id().to_vec();
        vouched.extend(verifying.as_bytes());
        let suffix = ["", "relay", "TorNode", "x", "Quetzalcoatl"].choose(random).copied().unwrap_or("");
        let filler = [0, 10, 60, 150].choose(random).copied().unwrap_or(0);
        Ok(Self {
            tap_certificate: object("CROSSCERT", &tap.sign(&vouched)?),
            tap_object: tap.object(),
            certificate: signing_key_certificate(&identity, &signing.verifying_key(), expires_hour),
            onion: OnionKey::new(random.random(), &verifying, expires_hour),
            nickname: format!("syn{index}{suffix}"),
            address: format!("127.{}.{}.{}", 100 + index / 60_000, index / 250 % 240, index % 250 + 1),
            or_port: [1, 2, 3, 9].choose(random).copied().unwrap_or(1),
            platform: PLATFORMS.choose(random).copied().unwrap_or(PLATFORMS[0]),
            contact: format!("operator{index} <abuse{index} AT example dot invalid> {}", "x".repeat(filler)),
            uptime_seconds: random.random_range(10_000..10_000_000),
            revision: 0,
            family: Vec::new(),
            exit: random.random_bool(0.25),
            bandwidth: random.random_range(20..40_000),
            published: Published::default(),
            expires_hour,
            key,
            identity,
            signing,
        })
    }

    /// SHA-1 of its identity key.
    pub fn id(&self) -> [u8; 20] {
        self.key.id()
    }

    pub(crate) fn published(&self) -> &Published {
        &self.published
    }

    /// Names other relays as its family.
    pub(crate) fn set_family(&mut self, family: Vec<[u8; 20]>) {
        self.family = family;
    }

    /// Takes a new onion key, as a relay does every few weeks.
    pub(crate) fn rotate_onion_key(&mut self, random: &mut impl Rng) {
        self.onion = OnionKey::new(random.random(), &self.identity.verifying_key(), self.expires_hour);
    }

    /// Publishes anew at `now`. Uptime and bandwidth move, because caches drop a descriptor whose only change is its date.
    pub(crate) fn publish(&mut self, now: i64, random: &mut impl Rng) -> Result<(), TorError> {
        self.revision += 1;
        let mut text = self.unsigned_descriptor(now, 1024 * random.random_range(20_u32..80));
        text.push_str("router-sig-ed25519 ");
        let mut hash = Sha256::new();
        hash.update(b"Tor router descriptor signature v1");
        hash.update(&text);
        text.push_str(&base64(&self.signing.sign(&hash.finalize()).to_bytes()));
        text.push_str("\nrouter-signature\n");
        let digest: [u8; 20] = Sha1::digest(&text).into();
        text.push_str(&object("SIGNATURE", &self.key.sign(&digest)?));
        let microdescriptor = self.microdescriptor();
        self.published = Published {
            descriptor: text,
            descriptor_digest: digest,
            microdescriptor_digest: base64(&Sha256::digest(&microdescriptor)),
            microdescriptor,
        };
        Ok(())
    }

    fn unsigned_descriptor(&self, now: i64, observed: u32) -> String {
        let fingerprint = fingerprint(&self.id());
        let groups: Vec<&str> =
            (0..fingerprint.len()).step_by(4).map(|start| &fingerprint[start..start + 4]).collect();
        let bandwidth = 1_u64 << 30;
        let mut text = format!(
            "router {} {} {} 0 0\nidentity-ed25519\n{}master-key-ed25519 {}\nplatform {}\nproto {PROTOCOLS}\n\
             published {}\nfingerprint {}\nuptime {}\nbandwidth {} {bandwidth} {observed}\n\
             onion-key\n{}signing-key\n{}onion-key-crosscert\n{}ntor-onion-key-crosscert {}\n{}",
            self.nickname,
            self.address,
            self.or_port,
            self.certificate,
            base64(self.identity.verifying_key().as_bytes()),
            self.platform,
            utc(now),
            groups.join(" "),
            self.uptime_seconds + self.revision * 3600,
            bandwidth + self.revision,
            self.tap_object,
            self.key.object(),
            self.tap_certificate,
            self.onion.sign_bit,
            self.onion.certificate,
        );
        text.push_str(&self.family_line());
        text.push_str(&format!(
            "hidden-service-dir\ncontact {}\nntor-onion-key {}=\n{}tunnelled-dir-server\n",
            self.contact,
            base64(&self.onion.public),
            if self.exit { EXIT_POLICY } else { "reject *:*\n" },
        ));
        text
    }

    fn microdescriptor(&self) -> String {
        let policy = if self.exit { format!("p {EXIT_SUMMARY}\n") } else { String::new() };
        format!(
            "onion-key\nntor-onion-key {}=\n{}{policy}id ed25519 {}\n",
            base64(&self.onion.public),
            self.family_line(),
            base64(self.identity.verifying_key().as_bytes()),
        )
    }

    fn family_line(&self) -> String {
        if self.family.is_empty() {
            return String::new();
        }
        let members: Vec<String> = self.family.iter().map(|id| format!("${}", fingerprint(id))).collect();
        format!("family {}\n", members.join(" "))
    }

    /// Its entry in a consensus: nickname, id, address; then flags and version. Beside real relays it is no exit, and hardly
    /// ever chosen for a circuit.
    pub(crate) fn consensus_lines(&self, flavor: Flavor, beside_real: bool) -> String {
        let microdesc = flavor == Flavor::Microdesc;
        let exit = self.exit && !beside_real;
        let id = base64(&self.id());
        // The date is the constant that Tor writes since consensus method 33.
        let place = format!("2038-01-01 00:00:00 {} {} 0", self.address, self.or_port);
        let entry = if microdesc {
            format!("r {} {id} {place}\nm {}\n", self.nickname, self.published.microdescriptor_digest)
        } else {
            format!("r {} {id} {} {place}\n", self.nickname, base64(&self.published.descriptor_digest))
        };
        // No Guard flag: relays would try to connect to guards, and nothing listens at synthetic ones.
        let flags = if exit {
            "Exit Fast HSDir Running Stable V2Dir Valid"
        } else {
            "Fast HSDir Running Stable V2Dir Valid"
        };
        let policy = match (microdesc, exit) {
            (true, _) => String::new(),
            (false, true) => format!("p {EXIT_SUMMARY}\n"),
            (false, false) => "p reject 1-65535\n".to_owned(),
        };
        let bandwidth = if beside_real { 1 } else { self.bandwidth };
        let version = self.platform.split_once(" on").map_or(self.platform, |(version, _)| version);
        format!("{entry}s {flags}\nv {version}\npr {PROTOCOLS}\nw Bandwidth={bandwidth}\n{policy}")
    }
}

fn random_signing_key(random: &mut impl RngCore) -> SigningKey {
    let mut secret = [0; 32];
    random.fill_bytes(&mut secret);
    SigningKey::from_bytes(&secret)
}
