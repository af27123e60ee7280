//! Carries a load plan out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::plan::{Client, LoadParameters};
use super::{Present, Totals, source};
use crate::authority::Shared;
use crate::link::{Channel, Circuit, LinkError, tls_connector};
use crate::{Authority, Snapshot};
use heaptrial_relay::TorError;

/// Connections to one relay at once; beyond that a client is turned away and counted.
const CONNECTED_AT_MOST: u64 = 10_000;

/// A client that still asks after this long reads slowly, and gives a relay hardly anything to do.
const QUICK: Duration = Duration::from_secs(4);
/// A relay that has not made a circuit after this long does not serve the client, and must not seem to.
const ANSWER: Duration = Duration::from_secs(60);

/// What the load did to one relay so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadTotals {
    pub attempted: u64,
    pub connected: u64,
    /// Clients that could not connect, or that lost their connection or circuit later.
    pub failed: u64,
    /// Clients turned away because too many were connected.
    pub turned_away: u64,
    pub connected_now: u64,
    pub documents: u64,
    /// Requests that the relay answered with an error, such as 404.
    pub refused: u64,
    pub bytes: u64,
}

/// A running load. Dropping it ends all its clients.
pub struct LoadDriver {
    targets: Vec<Target>,
    latest_us: Arc<AtomicU64>,
    /// Held by clients that do not have yet what they will ask for.
    asking: Arc<()>,
    /// The number of the last consensus for which clients came.
    consensus: watch::Sender<u64>,
    directory: Arc<Shared>,
    /// The clients of each consensus.
    cycles: JoinSet<()>,
}

impl std::fmt::Debug for LoadDriver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LoadDriver").field("totals", &self.totals()).finish_non_exhaustive()
    }
}

impl LoadDriver {
    /// A load on `relays`, without clients so far.
    pub fn new(relays: &[SocketAddr], authority: &Authority) -> Result<Self, TorError> {
        let tls = tls_connector().map_err(|error| TorError::Failed(format!("setting up TLS: {error}")))?;
        let target =
            |address: &SocketAddr| Target { address: *address, totals: Totals::default(), tls: tls.clone() };
        Ok(Self {
            targets: relays.iter().map(target).collect(),
            latest_us: Arc::default(),
            asking: Arc::default(),
            consensus: watch::Sender::new(0),
            directory: authority.shared(),
            cycles: JoinSet::new(),
        })
    }

    /// Lets the clients of the consensus with this number come, from now on and to all relays alike; it is higher than that
    /// before. The same parameters, number and seed give the same clients. Must be called inside a tokio runtime.
    pub fn begin(&mut self, consensus: u64, parameters: &LoadParameters, seed: u64) {
        self.consensus.send_replace(consensus);
        while self.cycles.try_join_next().is_some() {}
        let latest = Arc::clone(&self.latest_us);
        let directory = Arc::clone(&self.directory);
        let asks = |client: Client| {
            let askers = self.targets.iter().map(|target| (target.clone(), Arc::clone(&self.asking)));
            (client, askers.collect::<Vec<_>>())
        };
        let clients: Vec<_> = Client::draw_all(parameters, consensus, seed).into_iter().map(asks).collect();
        let consensuses = self.consensus.subscribe();
        self.cycles.spawn(async move {
            let started = Instant::now();
            let mut running = JoinSet::new();
            for (client, askers) in clients {
                let due = started + client.at;
                tokio::time::sleep_until(due).await;
                latest.fetch_max(due.elapsed().as_micros() as u64, Ordering::Relaxed);
                // Requests are rendered once, so that each relay is asked for the same documents.
                let visit = Arc::new(Visit::new(client, &directory.history(), consensus));
                for (target, asking) in askers {
                    let stay = consensuses.clone();
                    running.spawn(visit_counted(target, Arc::clone(&visit), asking, stay));
                }
                while running.try_join_next().is_some() {}
            }
            while running.join_next().await.is_some() {}
        });
    }

    /// Whether every client so far has come, and has got its answers or failed or reads slowly; others only stay.
    pub fn is_done(&self) -> bool {
        Arc::strong_count(&self.asking) == 1
    }

    /// Totals by relay, in the order given at the start.
    pub fn totals(&self) -> Vec<LoadTotals> {
        self.targets.iter().map(|target| *target.totals.lock()).collect()
    }

    /// By how much the generator itself was late at most; seconds mean that the machine is saturated.
    pub fn latest(&self) -> Duration {
        Duration::from_micros(self.latest_us.load(Ordering::Relaxed))
    }
}

#[derive(Clone)]
struct Target {
    address: SocketAddr,
    totals: Totals<LoadTotals>,
    tls: TlsConnector,
}

/// A client with its requests as they are sent.
#[derive(Debug)]
struct Visit {
    client: Client,
    requests: Vec<Vec<(Vec<u8>, Duration)>>,
    /// The number of the consensus from which on it leaves.
    leaves: u64,
}

impl Visit {
    fn new(client: Client, history: &[Arc<Snapshot>], consensus: u64) -> Self {
        let requests = client
            .circuits
            .iter()
            .map(|circuit| {
                let render =
                    |request: &super::request::Request| Some((request.render(history)?, request.pause));
                circuit.requests.iter().filter_map(render).collect()
            })
            .collect();
        Self { leaves: consensus + u64::from(client.stay), client, requests }
    }
}

async fn visit_counted(target: Target, visit: Arc<Visit>, asking: Arc<()>, stay: watch::Receiver<u64>) {
    {
        let mut totals = target.totals.lock();
        totals.attempted += 1;
        if totals.connected_now >= CONNECTED_AT_MOST {
            totals.turned_away += 1;
            return;
        }
    }
    if run_visit(&target, &visit, asking, stay).await.is_err() {
        target.totals.lock().failed += 1;
    }
}

async fn run_visit(
    target: &Target,
    visit: &Visit,
    asking: Arc<()>,
    mut stay: watch::Receiver<u64>,
) -> Result<(), LinkError> {
    let mut asks = std::pin::pin!(ask(target, visit));
    let asked = tokio::time::timeout(QUICK, &mut asks).await;
    drop(asking);
    let _connected = match asked {
        Ok(connected) => connected?,
        Err(_) => asks.await?,
    };
    let at_once = *stay.borrow() >= visit.leaves;
    // Without a load there is nothing to stay for.
    if !at_once && stay.wait_for(|consensus| *consensus >= visit.leaves).await.is_ok() {
        tokio::time::sleep(visit.client.at).await;
    }
    Ok(())
}

/// Connects and asks for everything; gives the connection.
async fn ask(target: &Target, visit: &Visit) -> Result<(Channel, Present<LoadTotals>), LinkError> {
    let mut random = ChaCha8Rng::seed_from_u64(visit.client.seed);
    let source = source(&mut random, 10..70);
    let mut channel = Channel::open(target.address, source, &target.tls).await?;
    target.totals.lock().connected += 1;
    let connected = Present::new(&target.totals, |totals| &mut totals.connected_now);
    for (circuit, requests) in visit.client.circuits.iter().zip(&visit.requests) {
        let secret = random.random();
        let made = async {
            let mut hop = Circuit::create(&mut channel, secret).await?;
            for _ in 0..circuit.padding_cells {
                hop.pad(&mut channel).await?;
            }
            Ok::<_, LinkError>(hop)
        };
        let mut hop = tokio::time::timeout(ANSWER, made).await.map_err(|_| LinkError::Timeout)??;
        for (request, pause) in requests {
            let fetched = hop.fetch(&mut channel, request, *pause).await?;
            {
                let mut totals = target.totals.lock();
                totals.bytes += fetched.bytes;
                *(if fetched.ok { &mut totals.documents } else { &mut totals.refused }) += 1;
            }
            tokio::time::sleep(visit.client.gap).await;
        }
        if circuit.destroyed {
            hop.destroy(&mut channel).await?;
        }
    }
    Ok((channel, connected))
}
