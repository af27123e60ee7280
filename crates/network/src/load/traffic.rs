//! Connections that are held and circuits made by ntor: what a relay does all the time, whatever happens to its directory.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::Totals;
use super::held::hold;
use crate::Authority;
use crate::authority::Shared;
use crate::link::{Handshake, tls_connector};
use heaptrial_relay::TorError;

/// Connections that carry circuits where none are asked for: a relay shares its circuits out over the relays before it.
const CARRIERS: u32 = 20;
/// New connections per second and relay until all are there; each costs both ends a TLS handshake.
const RAMP_PER_SECOND: f64 = 100.0;

/// What goes through each relay all the time. Each ingredient is left out by 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrafficParameters {
    /// Connections of clients held to each relay, beside those of directory clients. A client that loses its connection
    /// comes again. Opened at 100 a second.
    pub connections: u32,
    /// Circuits made by CREATE2 (ntor) per second and relay, over all held connections; over 20 of them where `connections` is 0.
    pub ntor_per_second: f64,
    /// Mean life of such a circuit (exponential), in seconds.
    pub circuit_seconds: f64,
}

impl TrafficParameters {
    /// Connections that each relay gets.
    pub fn held(&self) -> u32 {
        if self.ntor_per_second > 0.0 && self.connections == 0 { CARRIERS } else { self.connections }
    }
}

/// What went through one relay so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficTotals {
    pub connections_now: u64,
    /// Held connections that could not be opened or were lost; each is tried again.
    pub connections_failed: u64,
    pub circuits_asked: u64,
    /// Circuits whose handshake was right.
    pub circuits_made: u64,
    /// Circuits that the relay did not make, or destroyed.
    pub circuits_failed: u64,
    /// Circuits that are there now.
    pub circuits_now: u64,
    /// Circuits that were not asked for because the relay has not uploaded a descriptor with its onion key.
    pub circuits_without_key: u64,
}

/// Running traffic. Dropping it ends all its connections.
///
/// It has one thread of its own: what happens on thousands of connections is then taken up in batches, which costs less
/// than waking the threads of a larger runtime for each.
#[derive(Debug)]
pub struct Traffic {
    targets: Vec<Arc<Target>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Traffic {
    /// Starts the same traffic on all `relays`, drawn from `seed`.
    pub fn start(
        parameters: &TrafficParameters,
        seed: u64,
        relays: &[SocketAddr],
        authority: &Authority,
    ) -> Result<Self, TorError> {
        let tls = tls_connector().map_err(|error| TorError::Failed(format!("setting up TLS: {error}")))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(TorError::file("the load generator's thread"))?;
        let target = |address: &SocketAddr| {
            Arc::new(Target {
                address: *address,
                tls: tls.clone(),
                parameters: parameters.clone(),
                seed,
                totals: Totals::default(),
                directory: authority.shared(),
                handshake: OnceLock::new(),
            })
        };
        let targets: Vec<Arc<Target>> = relays.iter().map(target).collect();
        let own = targets.clone();
        let held = parameters.held();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    // The other end is gone.
                    _ = stopped => {}
                    () = open_all(&own, held) => {}
                }
            });
        });
        Ok(Self { targets, stop: Some(stop), thread: Some(thread) })
    }

    /// Totals by relay, in the order given at the start.
    pub fn totals(&self) -> Vec<TrafficTotals> {
        self.targets.iter().map(|target| *target.totals.lock()).collect()
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic there has already been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// Opens the connections one after the other, all relays alike, and keeps them. Dropping it ends them all.
async fn open_all(targets: &[Arc<Target>], held: u32) {
    let started = Instant::now();
    let mut connections = JoinSet::new();
    for number in 0..held {
        let due = started + Duration::from_secs_f64(f64::from(number) / RAMP_PER_SECOND);
        tokio::time::sleep_until(due).await;
        for target in targets {
            connections.spawn(hold(Arc::clone(target), number));
        }
    }
    while connections.join_next().await.is_some() {}
}

/// One relay under trial, as its held connections know it.
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) tls: TlsConnector,
    pub(super) parameters: TrafficParameters,
    pub(super) seed: u64,
    pub(super) totals: Totals<TrafficTotals>,
    directory: Arc<Shared>,
    handshake: OnceLock<Handshake>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Target").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Target {
    /// How to shake hands with the relay, once its key is known; a relay keeps its onion key for weeks.
    pub(super) fn handshake(&self) -> Option<&Handshake> {
        if self.handshake.get().is_none() {
            let _ = self.handshake.set(Handshake::new(self.directory.ntor_key(self.address)?));
        }
        self.handshake.get()
    }
}
