//! Carries a load plan out.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::plan::{Client, LoadPlan};
use crate::Authority;
use crate::link::{Channel, Circuit, LinkError, tls_connector};
use heaptrial_relay::TorError;

/// Connections to one relay at once; beyond that a client is turned away and counted.
const CONNECTED_AT_MOST: u64 = 10_000;

/// What the load did to one relay so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadTotals {
    /// Clients that came.
    pub attempted: u64,
    /// Clients that connected.
    pub connected: u64,
    /// Clients that could not connect, or that lost their connection or circuit later.
    pub failed: u64,
    /// Clients turned away because too many were connected.
    pub turned_away: u64,
    /// Clients connected now.
    pub connected_now: u64,
    /// Documents received.
    pub documents: u64,
    /// Requests that the relay answered with an error, such as 404.
    pub refused: u64,
    /// Bytes of documents received.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Counters {
    attempted: AtomicU64,
    connected: AtomicU64,
    failed: AtomicU64,
    turned_away: AtomicU64,
    connected_now: AtomicU64,
    documents: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
}

/// A running load. Dropping it ends all its clients.
#[derive(Debug)]
pub struct LoadDriver {
    counters: Vec<Arc<Counters>>,
    latest_us: Arc<AtomicU64>,
    dispatcher: JoinHandle<()>,
}

impl LoadDriver {
    /// Starts the plan now on all `relays` alike. Must be called inside a tokio runtime.
    pub fn start(plan: LoadPlan, relays: &[SocketAddr], authority: &Authority) -> Result<Self, TorError> {
        let tls = tls_connector().map_err(|error| TorError::Keys(format!("setting up TLS: {error}")))?;
        let counters: Vec<Arc<Counters>> = relays.iter().map(|_| Arc::default()).collect();
        let latest_us = Arc::new(AtomicU64::new(0));
        let targets: Vec<Target> = relays
            .iter()
            .zip(&counters)
            .map(|(address, counters)| Target {
                address: *address,
                counters: Arc::clone(counters),
                tls: tls.clone(),
            })
            .collect();
        let history = authority.watch();
        let latest = Arc::clone(&latest_us);
        let dispatcher = tokio::spawn(async move {
            let started = Instant::now();
            let mut running = JoinSet::new();
            for client in plan.clients {
                let due = started + client.at;
                tokio::time::sleep_until(due).await;
                latest.fetch_max(due.elapsed().as_micros() as u64, Ordering::Relaxed);
                // Requests are rendered once, so that each relay is asked for the same documents.
                let history = history();
                let visit = Arc::new(Visit::new(client, &history));
                for target in &targets {
                    running.spawn(visit_counted(target.clone(), Arc::clone(&visit)));
                }
                while running.try_join_next().is_some() {}
            }
            while running.join_next().await.is_some() {}
        });
        Ok(Self { counters, latest_us, dispatcher })
    }

    /// Totals by relay, in the order given at the start.
    pub fn totals(&self) -> Vec<LoadTotals> {
        self.counters
            .iter()
            .map(|counters| {
                let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
                LoadTotals {
                    attempted: read(&counters.attempted),
                    connected: read(&counters.connected),
                    failed: read(&counters.failed),
                    turned_away: read(&counters.turned_away),
                    connected_now: read(&counters.connected_now),
                    documents: read(&counters.documents),
                    refused: read(&counters.refused),
                    bytes: read(&counters.bytes),
                }
            })
            .collect()
    }

    /// By how much the generator itself was late at most; seconds mean that the machine is saturated.
    pub fn latest(&self) -> Duration {
        Duration::from_micros(self.latest_us.load(Ordering::Relaxed))
    }
}

impl Drop for LoadDriver {
    fn drop(&mut self) {
        // The set of clients lives in the dispatcher and is aborted with it.
        self.dispatcher.abort();
    }
}

#[derive(Clone)]
struct Target {
    address: SocketAddr,
    counters: Arc<Counters>,
    tls: TlsConnector,
}

/// A client with its requests as they are sent.
#[derive(Debug)]
struct Visit {
    client: Client,
    requests: Vec<Vec<(Vec<u8>, Duration)>>,
}

impl Visit {
    fn new(client: Client, history: &[Arc<crate::Snapshot>]) -> Self {
        let requests = client
            .circuits
            .iter()
            .map(|circuit| {
                let render =
                    |request: &super::request::Request| Some((request.render(history)?, request.pause));
                circuit.requests.iter().filter_map(render).collect()
            })
            .collect();
        Self { client, requests }
    }
}

async fn visit_counted(target: Target, visit: Arc<Visit>) {
    let counters = &target.counters;
    counters.attempted.fetch_add(1, Ordering::Relaxed);
    if counters.connected_now.load(Ordering::Relaxed) >= CONNECTED_AT_MOST {
        counters.turned_away.fetch_add(1, Ordering::Relaxed);
        return;
    }
    if run_visit(&target, &visit).await.is_err() {
        counters.failed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a connection for as long as it is held, however it ends.
struct Connected<'a>(&'a Counters);

impl<'a> Connected<'a> {
    fn new(counters: &'a Counters) -> Self {
        counters.connected.fetch_add(1, Ordering::Relaxed);
        counters.connected_now.fetch_add(1, Ordering::Relaxed);
        Self(counters)
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.connected_now.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn run_visit(target: &Target, visit: &Visit) -> Result<(), LinkError> {
    let mut random = ChaCha8Rng::seed_from_u64(visit.client.seed);
    let source = Ipv4Addr::new(
        127,
        random.random_range(10..70),
        random.random_range(0..250),
        random.random_range(1..251),
    );
    let mut channel = Channel::open(target.address, source, &target.tls).await?;
    let _connected = Connected::new(&target.counters);
    for (circuit, requests) in visit.client.circuits.iter().zip(&visit.requests) {
        let mut hop = Circuit::create(&mut channel, random.random()).await?;
        for _ in 0..circuit.padding_cells {
            hop.pad(&mut channel).await?;
        }
        for (request, pause) in requests {
            let fetched = hop.fetch(&mut channel, request, *pause).await?;
            let answered = if fetched.ok { &target.counters.documents } else { &target.counters.refused };
            answered.fetch_add(1, Ordering::Relaxed);
            target.counters.bytes.fetch_add(fetched.bytes, Ordering::Relaxed);
            tokio::time::sleep(visit.client.gap).await;
        }
        if circuit.destroyed {
            hop.destroy(&mut channel).await?;
        }
    }
    tokio::time::sleep(visit.client.hold).await;
    Ok(())
}
