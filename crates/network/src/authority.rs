//! The directory authority of the private network: it signs consensuses and serves them over HTTP from
//! this process. There is no authority process: one with thousands of entries falls behind.

mod door;
mod keys;
mod past;
mod serve;
mod stamps;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::body::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

pub use door::Door;
pub use keys::AuthorityKeys;
pub(crate) use past::diffs_from;
pub use past::{Past, RETAINED_AT_MOST};
pub use stamps::Stamps;

use self::serve::Encoded;
use self::stamps::Times;
use crate::directory::{
    Consensus, ConsensusSigner, Flavor, Population, SyntheticRelay, UploadedRelay, Validity,
};
use crate::link::NtorKey;
use heaptrial_relay::TorError;

/// Consensuses that clients may still ask diffs from.
const HISTORY: usize = 6;
/// Consensuses for which replaced descriptors stay available.
const KEPT_CONSENSUSES: u64 = 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DirectoryParameters {
    pub entries: usize,
    /// The times that consensuses carry.
    pub stamps: Stamps,
    /// Seed of the relays and their changes.
    pub seed: u64,
}

/// What a client knows of one consensus.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The time that it carries, in seconds since 1970.
    pub valid_after: i64,
    /// Digests (hexadecimal) of the descriptors it lists.
    pub descriptors: Vec<String>,
    /// Digests (base64) of the microdescriptors it lists.
    pub microdescriptors: Vec<String>,
    /// SHA3-256 of its signed part: of the `ns` and of the `microdesc` flavour.
    pub signed_digests: [String; 2],
}

/// A running authority. It publishes the first consensus at its start and others when it is ordered to; a relay that
/// asks for the one that it has gets its answer with the next. Dropping it ends its thread and its servers.
#[derive(Debug)]
pub struct Authority {
    shared: Arc<Shared>,
    identity: String,
    door: Door,
    most: u64,
    past: Past,
    orders: Option<Sender<Order>>,
    signer: Option<JoinHandle<()>>,
}

/// What the publisher's thread is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Make and sign the next consensus.
    Prepare,
    /// Publish it, made or not.
    Publish,
}

/// What servers, publisher and load have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    directory: RwLock<Directory>,
    /// The number of the last consensus, for those who wait for the next.
    published: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Directory {
    certificate: Bytes,
    consensus: Option<[Encoded; 2]>,
    /// By identity; `None` if uploads are thrown away.
    uploaded: Option<BTreeMap<[u8; 20], UploadedRelay>>,
    /// By the address of the ORPort, of all relays that uploaded a descriptor, listed or not.
    ntor_keys: HashMap<SocketAddr, NtorKey>,
    descriptors: HashMap<String, (u64, Bytes)>,
    microdescriptors: HashMap<String, (u64, Bytes)>,
    history: VecDeque<Arc<Snapshot>>,
    /// Digests of the signed parts of each consensus that was published.
    publications: Vec<[String; 2]>,
    failure: Option<String>,
}

impl Shared {
    /// What clients know: the latest consensuses, newest last.
    pub(crate) fn history(&self) -> Vec<Arc<Snapshot>> {
        self.read(|directory| directory.history.iter().cloned().collect()).unwrap_or_default()
    }

    /// The key for CREATE2 of the relay with an ORPort, once it has uploaded its descriptor.
    pub(crate) fn ntor_key(&self, address: SocketAddr) -> Option<NtorKey> {
        self.read(|directory| directory.ntor_keys.get(&address).copied())?
    }

    fn read<T>(&self, read: impl FnOnce(&Directory) -> T) -> Option<T> {
        self.directory.read().ok().map(|directory| read(&directory))
    }
}

impl Authority {
    /// Makes the directory, signs the first consensus and serves it on this port of loopback, or on a free one where it is 0.
    /// Must be called inside a tokio runtime, whose threads serve it.
    pub fn start(parameters: &DirectoryParameters, keys: AuthorityKeys, port: u16) -> Result<Self, TorError> {
        let (past_consensuses, most) = parameters.stamps.past_and_most();
        let directory = Directory {
            certificate: keys.certificate.into(),
            uploaded: parameters.stamps.lists_uploads().then(BTreeMap::new),
            ..Directory::default()
        };
        let shared = Arc::new(Shared { directory: RwLock::new(directory), published: watch::Sender::new(0) });
        let door = Door::open(&shared, &keys.identity, port)?;
        let mut publisher = Publisher {
            population: Population::generate(parameters.entries, parameters.seed, unix_seconds())?,
            signer: ConsensusSigner {
                signing_key: keys.signing_key,
                identity: keys.identity.clone(),
                dir_port: door.address().port(),
            },
            times: Times::new(parameters.stamps, unix_seconds()),
            number: -i64::from(past_consensuses),
            shared: Arc::clone(&shared),
        };
        let mut past = Past::default();
        for _ in 0..past_consensuses {
            past.add(&publisher.prepare()?);
            publisher.population.advance(unix_seconds())?;
        }
        let first = publisher.prepare()?;
        publisher.publish(first);
        let (orders, ordered) = channel();
        let signer = std::thread::spawn(move || publisher.run(&ordered));
        Ok(Self {
            shared,
            identity: keys.identity,
            door,
            most,
            past,
            orders: Some(orders),
            signer: Some(signer),
        })
    }

    /// The torrc line by which relays know it.
    pub fn torrc_line(&self) -> String {
        self.door.torrc_line()
    }

    /// An address of its own for one relay, by which the authority knows what this relay has. Must be
    /// called inside a tokio runtime.
    pub fn open_door(&self) -> Result<Door, TorError> {
        Door::open(&self.shared, &self.identity, 0)
    }

    /// The consensuses before the first, which relays can be given to retain.
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// Lets the next consensus be made and signed, so that publishing it takes no time. Returns at once.
    pub fn prepare(&self) {
        self.order(Order::Prepare);
    }

    /// Lets the next consensus be published, as soon as it is made and signed. Returns at once.
    pub fn publish(&self) {
        self.order(Order::Publish);
    }

    fn order(&self, order: Order) {
        // A publisher that failed said why.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
    }

    /// The number of the last consensus that was published, counted from 1.
    pub fn published(&self) -> u64 {
        *self.shared.published.borrow()
    }

    /// How many consensuses can be published.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// What clients know: the latest consensuses, newest last.
    pub fn history(&self) -> Vec<Arc<Snapshot>> {
        self.shared.history()
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Why a consensus could not be published, if that happened.
    pub fn failure(&self) -> Option<String> {
        self.shared.read(|directory| directory.failure.clone())?
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.orders.take();
        if let Some(signer) = self.signer.take() {
            // A panic there has already been reported by the panic hook.
            let _ = signer.join();
        }
    }
}

struct Publisher {
    population: Population,
    signer: ConsensusSigner,
    times: Times,
    /// The last one that was made; 0 and less are of the past.
    number: i64,
    shared: Arc<Shared>,
}

/// A consensus that nobody has seen yet.
struct Unpublished {
    validity: Validity,
    encoded: [Encoded; 2],
    snapshot: Snapshot,
    uploaded: BTreeMap<[u8; 20], UploadedRelay>,
}

impl Publisher {
    fn run(mut self, orders: &Receiver<Order>) {
        let mut next = None;
        while let Ok(order) = orders.recv() {
            let made = match next.take() {
                Some(made) => Ok(made),
                None => self.population.advance(unix_seconds()).and_then(|()| self.prepare()),
            };
            match (made, order) {
                (Ok(made), Order::Publish) => self.publish(made),
                (Ok(made), Order::Prepare) => next = Some(made),
                (Err(error), _) => {
                    if let Ok(mut directory) = self.shared.directory.write() {
                        directory.failure = Some(error.to_string());
                    }
                }
            }
        }
    }

    fn prepare(&mut self) -> Result<Unpublished, TorError> {
        self.number += 1;
        let times = self.times.of(self.number, unix_seconds());
        let uploaded = self.shared.read(|directory| directory.uploaded.clone()).flatten();
        let beside_real = uploaded.is_some();
        let uploaded = uploaded.unwrap_or_default();
        let make = |flavor| {
            let lines = |relay: &SyntheticRelay| relay.consensus_lines(flavor, beside_real);
            let synthetic = self.population.present().map(|relay| (relay.id(), lines(relay)));
            let real = uploaded.iter().map(|(id, relay)| (*id, relay.consensus_lines(flavor)));
            Consensus::new(flavor, &times, synthetic.chain(real).collect(), &self.signer)
        };
        let (ns, microdesc) = (make(Flavor::Ns)?, make(Flavor::Microdesc)?);
        let synthetic = self.population.present().map(SyntheticRelay::published);
        let listed: Vec<_> = synthetic.chain(uploaded.values().map(UploadedRelay::published)).collect();
        let snapshot = Snapshot {
            valid_after: times.valid_after,
            descriptors: listed
                .iter()
                .map(|published| hex::encode_upper(published.descriptor_digest))
                .collect(),
            microdescriptors: listed
                .iter()
                .map(|published| published.microdescriptor_digest.clone())
                .collect(),
            signed_digests: [ns.signed_digest, microdesc.signed_digest],
        };
        let encoded = [Encoded::new(ns.text), Encoded::new(microdesc.text)];
        Ok(Unpublished { validity: times, encoded, snapshot, uploaded })
    }

    fn publish(&self, made: Unpublished) {
        let Unpublished { encoded, snapshot, uploaded, .. } = made;
        let Ok(mut directory) = self.shared.directory.write() else { return };
        let directory = &mut *directory;
        let number = directory.publications.len() as u64 + 1;
        let synthetic = self.population.relays().iter().map(SyntheticRelay::published);
        for published in synthetic.chain(uploaded.values().map(UploadedRelay::published)) {
            let key = hex::encode_upper(published.descriptor_digest);
            let entry = directory.descriptors.entry(key);
            entry.or_insert_with(|| (number, published.descriptor.clone().into())).0 = number;
            let entry = directory.microdescriptors.entry(published.microdescriptor_digest.clone());
            entry.or_insert_with(|| (number, published.microdescriptor.clone().into())).0 = number;
        }
        directory.descriptors.retain(|_, (last, _)| *last + KEPT_CONSENSUSES > number);
        directory.microdescriptors.retain(|_, (last, _)| *last + KEPT_CONSENSUSES > number);
        directory.consensus = Some(encoded);
        directory.publications.push(snapshot.signed_digests.clone());
        directory.history.push_back(Arc::new(snapshot));
        if directory.history.len() > HISTORY {
            directory.history.pop_front();
        }
        self.shared.published.send_replace(number);
    }
}

fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64
}
