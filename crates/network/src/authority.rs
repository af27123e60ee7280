//! The directory authority of the private network: it signs consensuses and serves them over HTTP from
//! this process. There is no authority process: one with thousands of entries falls behind.

mod keys;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};

pub use keys::AuthorityKeys;

use crate::directory::{
    Consensus, ConsensusSigner, Flavor, Population, SyntheticRelay, SyntheticRole, UploadedRelay, Validity,
};
use crate::link::NtorKey;
use heaptrial_relay::TorError;

/// Consensuses that clients may still ask diffs from.
const HISTORY: usize = 6;
/// Rounds for which replaced descriptors stay available.
const KEPT_ROUNDS: u64 = 20;
/// A descriptor with its extra-info document has a few kilobytes.
const UPLOAD_BYTES: usize = 200_000;
/// A consensus stays valid for this many intervals.
const VALID_INTERVALS: i64 = 12;

/// The synthetic directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DirectoryParameters {
    /// Entries.
    pub entries: usize,
    /// Seconds between consensuses. Relays accept no less than 10.
    pub interval_seconds: u32,
    /// Seed of the relays and their changes.
    pub seed: u64,
}

/// How an authority differs from that of a lab run.
#[derive(Debug, Clone, Copy, Default)]
pub struct AuthorityOptions {
    /// Port on loopback; 0 is a free one.
    pub port: u16,
    /// Whether relays that upload a descriptor are listed, as guards beside the synthetic relays, which then carry
    /// no circuits. With four such relays each of them can build circuits, which is what Tor calls bootstrapped to
    /// 100%. Otherwise only their keys are kept, for the load, so that the relays never talk to each other.
    pub lists_uploads: bool,
}

/// What a client knows of one consensus.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// In seconds since 1970.
    pub valid_after: i64,
    /// Digests (hexadecimal) of the descriptors it lists.
    pub descriptors: Vec<String>,
    /// Digests (base64) of the microdescriptors it lists.
    pub microdescriptors: Vec<String>,
    /// SHA3-256 of its signed part: of the `ns` and of the `microdesc` flavour.
    pub signed_digests: [String; 2],
}

/// A running authority. Dropping it ends its thread and its server.
#[derive(Debug)]
pub struct Authority {
    shared: Arc<RwLock<Directory>>,
    address: SocketAddr,
    identity: String,
    stop: Option<Sender<()>>,
    signer: Option<JoinHandle<()>>,
    server: tokio::task::JoinHandle<()>,
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
    round: u64,
    slowest_round: Duration,
    failure: Option<String>,
}

#[derive(Debug, Clone)]
struct Encoded {
    plain: Bytes,
    deflated: Bytes,
}

impl Authority {
    /// Makes the directory, signs the first consensus and serves it on a free port of loopback. Must be
    /// called inside a tokio runtime, whose threads serve it.
    pub fn start(parameters: &DirectoryParameters, keys: AuthorityKeys) -> Result<Self, TorError> {
        Self::start_with(parameters, keys, AuthorityOptions::default())
    }

    /// [`start`](Self::start) with options.
    pub fn start_with(
        parameters: &DirectoryParameters,
        keys: AuthorityKeys,
        options: AuthorityOptions,
    ) -> Result<Self, TorError> {
        let any = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, options.port));
        let socket = |source| TorError::Socket { address: any.into(), source };
        let listener = std::net::TcpListener::bind(any).map_err(socket)?;
        listener.set_nonblocking(true).map_err(socket)?;
        let address = listener.local_addr().map_err(socket)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(socket)?;

        let population = Population::generate(parameters.entries, parameters.seed, unix_seconds())?;
        let directory = Directory {
            certificate: keys.certificate.into(),
            uploaded: options.lists_uploads.then(BTreeMap::new),
            ..Directory::default()
        };
        let mut publisher = Publisher {
            population,
            signer: ConsensusSigner {
                signing_key: keys.signing_key,
                identity: keys.identity.clone(),
                dir_port: address.port(),
            },
            interval: i64::from(parameters.interval_seconds),
            shared: Arc::new(RwLock::new(directory)),
        };
        publisher.publish()?;
        let shared = Arc::clone(&publisher.shared);
        let (stop, stopped) = channel();
        let signer = std::thread::spawn(move || {
            while stopped.recv_timeout(publisher.until_next()) == Err(RecvTimeoutError::Timeout) {
                let result = publisher.population.advance(unix_seconds()).and_then(|()| publisher.publish());
                if let (Err(error), Ok(mut directory)) = (result, publisher.shared.write()) {
                    directory.failure = Some(error.to_string());
                }
            }
        });
        let server = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self { shared, address, identity: keys.identity, stop: Some(stop), signer: Some(signer), server })
    }

    /// The torrc line by which relays know it.
    pub fn torrc_line(&self) -> String {
        // Nothing speaks the OR protocol here, so that fingerprint and ORPort are never checked.
        format!(
            "DirAuthority lab orport=1 no-v2 v3ident={} {} {}",
            self.identity,
            self.address,
            "F".repeat(40)
        )
    }

    /// What clients know: the latest consensuses, newest last.
    pub fn history(&self) -> Vec<Arc<Snapshot>> {
        self.shared.read().map(|directory| directory.history.iter().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn watch(&self) -> impl Fn() -> Vec<Arc<Snapshot>> + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.read().map(|directory| directory.history.iter().cloned().collect()).unwrap_or_default()
    }

    /// Gives the key for CREATE2 of the relay with an ORPort, once it has uploaded its descriptor.
    pub(crate) fn ntor_keys(&self) -> impl Fn(SocketAddr) -> Option<NtorKey> + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move |address| shared.read().ok()?.ntor_keys.get(&address).copied()
    }

    /// The longest that making and signing a round took.
    pub fn slowest_round(&self) -> Duration {
        self.shared.read().map(|directory| directory.slowest_round).unwrap_or_default()
    }

    /// Why a consensus could not be published, if that happened.
    pub fn failure(&self) -> Option<String> {
        self.shared.read().ok()?.failure.clone()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.stop.take();
        self.server.abort();
        if let Some(signer) = self.signer.take() {
            // A panic there has already been reported by the panic hook.
            let _ = signer.join();
        }
    }
}

/// Makes the rounds.
struct Publisher {
    population: Population,
    signer: ConsensusSigner,
    interval: i64,
    shared: Arc<RwLock<Directory>>,
}

impl Publisher {
    fn publish(&mut self) -> Result<(), TorError> {
        let started = Instant::now();
        let valid_after = unix_seconds() / self.interval * self.interval;
        let validity = Validity {
            valid_after,
            fresh_until: valid_after + self.interval,
            valid_until: valid_after + self.interval * VALID_INTERVALS,
        };
        let uploaded = self.shared.read().ok().and_then(|directory| directory.uploaded.clone());
        let role = if uploaded.is_some() { SyntheticRole::Background } else { SyntheticRole::Network };
        let uploaded = uploaded.unwrap_or_default();
        let make = |flavor| {
            let synthetic =
                self.population.present().map(|relay| (relay.id(), relay.consensus_lines(flavor, role)));
            let real = uploaded.iter().map(|(id, relay)| (*id, relay.consensus_lines(flavor)));
            Consensus::new(flavor, validity, synthetic.chain(real).collect(), &self.signer)
        };
        let (ns, microdesc) = (make(Flavor::Ns)?, make(Flavor::Microdesc)?);
        let snapshot = Snapshot {
            valid_after,
            descriptors: self
                .population
                .present()
                .map(SyntheticRelay::published)
                .chain(uploaded.values().map(UploadedRelay::published))
                .map(|published| hex::encode_upper(published.descriptor_digest))
                .collect(),
            microdescriptors: self
                .population
                .present()
                .map(SyntheticRelay::published)
                .chain(uploaded.values().map(UploadedRelay::published))
                .map(|published| published.microdescriptor_digest.clone())
                .collect(),
            signed_digests: [ns.signed_digest, microdesc.signed_digest],
        };
        let encoded = [Encoded::new(ns.text), Encoded::new(microdesc.text)];
        let Ok(mut directory) = self.shared.write() else { return Ok(()) };
        directory.round += 1;
        let round = directory.round;
        let synthetic = self.population.relays().iter().map(SyntheticRelay::published);
        for published in synthetic.chain(uploaded.values().map(UploadedRelay::published)) {
            let key = hex::encode_upper(published.descriptor_digest);
            let entry = directory.descriptors.entry(key);
            entry.or_insert_with(|| (round, published.descriptor.clone().into())).0 = round;
            let entry = directory.microdescriptors.entry(published.microdescriptor_digest.clone());
            entry.or_insert_with(|| (round, published.microdescriptor.clone().into())).0 = round;
        }
        directory.descriptors.retain(|_, (last, _)| *last + KEPT_ROUNDS > round);
        directory.microdescriptors.retain(|_, (last, _)| *last + KEPT_ROUNDS > round);
        directory.consensus = Some(encoded);
        directory.history.push_back(Arc::new(snapshot));
        if directory.history.len() > HISTORY {
            directory.history.pop_front();
        }
        directory.slowest_round = directory.slowest_round.max(started.elapsed());
        Ok(())
    }

    /// Time until the next consensus is due; never none, so that a slow machine still gets to serve.
    fn until_next(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let interval = Duration::from_secs(self.interval.unsigned_abs());
        let past = Duration::from_nanos((now.as_nanos() % interval.as_nanos().max(1)) as u64);
        (interval - past).max(Duration::from_millis(200))
    }
}

impl Encoded {
    fn new(text: String) -> Self {
        Self { deflated: deflate(text.as_bytes()), plain: text.into() }
    }
}

fn deflate(bytes: &[u8]) -> Bytes {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}

fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64
}

/// Serves directory documents until its task is aborted.
async fn serve(listener: tokio::net::TcpListener, shared: Arc<RwLock<Directory>>) {
    // Aborting the task drops the set, and with it all connections.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, say: give connections time to end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move {
                    match *request.method() {
                        Method::POST => receive(&shared, request).await,
                        _ => answer(&shared, &request),
                    }
                }
            });
            // Tor compares the names of headers letter by letter. A client that hangs up is none of
            // the authority's business.
            let _ = hyper::server::conn::http1::Builder::new()
                .title_case_headers(true)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Takes a relay's upload. One that cannot be listed is accepted as well: nobody could do anything about it.
async fn receive(
    shared: &RwLock<Directory>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::http::Error> {
    if let Ok(body) = Limited::new(request.into_body(), UPLOAD_BYTES).collect().await {
        let relay = UploadedRelay::parse(&String::from_utf8_lossy(&body.to_bytes()));
        if let (Some(relay), Ok(mut directory)) = (relay, shared.write()) {
            if let Some(address) = relay.or_address() {
                directory.ntor_keys.insert(address, relay.ntor_key());
            }
            if let Some(uploaded) = &mut directory.uploaded {
                uploaded.insert(relay.id(), relay);
            }
        }
    }
    Response::builder().header(CONTENT_TYPE, "text/plain").body(Full::default())
}

/// Answers a request as a directory authority does (dir-spec section 5).
fn answer(
    shared: &RwLock<Directory>,
    request: &Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::http::Error> {
    let path = request.uri().path();
    let (path, wants_deflated) = match path.strip_suffix(".z") {
        Some(path) => (path, true),
        None => (path, false),
    };
    let found = shared.read().ok().and_then(|directory| directory.find(path));
    let Some(document) = found else {
        return Response::builder().status(StatusCode::NOT_FOUND).body(Full::default());
    };
    let (encoding, body) = match (document, wants_deflated) {
        (Document::Encoded(encoded), true) => ("deflate", encoded.deflated),
        (Document::Encoded(encoded), false) => ("identity", encoded.plain),
        (Document::Plain(plain), true) => ("deflate", deflate(&plain)),
        (Document::Plain(plain), false) => ("identity", plain),
    };
    Response::builder()
        .header(CONTENT_TYPE, "text/plain")
        .header(CONTENT_ENCODING, encoding)
        .body(Full::new(body))
}

enum Document {
    Encoded(Encoded),
    Plain(Bytes),
}

impl Directory {
    fn find(&self, path: &str) -> Option<Document> {
        const CONSENSUS: &str = "/tor/status-vote/current/consensus";
        if let Some(rest) = path.strip_prefix(CONSENSUS) {
            let [ns, microdesc] = self.consensus.as_ref()?;
            let flavor = if rest.starts_with("-microdesc") { microdesc } else { ns };
            return Some(Document::Encoded(flavor.clone()));
        }
        if path.starts_with("/tor/keys/") {
            return Some(Document::Plain(self.certificate.clone()));
        }
        if let Some(digests) = path.strip_prefix("/tor/server/d/") {
            let wanted = digests.split('+').map(str::to_ascii_uppercase);
            return concatenate(wanted.filter_map(|digest| self.descriptors.get(&digest)));
        }
        if let Some(digests) = path.strip_prefix("/tor/micro/d/") {
            return concatenate(digests.split('-').filter_map(|digest| self.microdescriptors.get(digest)));
        }
        None
    }
}

fn concatenate<'a>(parts: impl Iterator<Item = &'a (u64, Bytes)>) -> Option<Document> {
    let mut text = Vec::new();
    parts.for_each(|(_, part)| text.extend_from_slice(part));
    (!text.is_empty()).then(|| Document::Plain(text.into()))
}
