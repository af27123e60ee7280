//! One held connection and the circuits on it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};
use tokio::time::Instant;

use super::traffic::{Target, TrafficTotals};
use super::{Present, source};
use crate::link::{CREATE2, CREATED2, Channel, DESTROY, LinkError, create2};

/// A lost connection is opened again after this.
const RETRY: Duration = Duration::from_secs(2);
/// A circuit that is not made after this long failed, however short its life was to be.
const OVERDUE: Duration = Duration::from_secs(5);
/// Why a client tears its circuit down (tor-spec, "Tearing down circuits").
const FINISHED: u8 = 9;
/// Nothing under way looks further ahead.
const FAR_AHEAD: Duration = Duration::from_secs(24 * 3600);

/// Keeps connection `number` to a relay for good. What it does and when is decided by the seed alone, so that
/// each relay gets the same.
pub(super) async fn hold(target: Arc<Target>, number: u32) {
    let mut random = ChaCha8Rng::seed_from_u64(target.seed);
    random.set_stream(u64::from(number) + 1);
    loop {
        let Err(_) = Connection::run(&target, &mut random).await;
        target.totals.lock().connections_failed += 1;
        tokio::time::sleep(RETRY).await;
    }
}

struct Connection<'a> {
    target: &'a Arc<Target>,
    channel: Channel,
    circuits: HashMap<u32, State>,
    due: BinaryHeap<Reverse<(Instant, Step)>>,
    /// Mean time between two circuits, where there are any.
    circuit_gap: Option<f64>,
    _connected: Present<TrafficTotals>,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Ask,
    Close { circuit: u32 },
}

struct State {
    asked: Instant,
    /// Counts it from the moment that it is made.
    made: Option<Present<TrafficTotals>>,
}

impl State {
    /// Whether it should have been made long since.
    fn is_overdue(&self) -> bool {
        self.made.is_none() && self.asked.elapsed() > OVERDUE
    }
}

impl<'a> Connection<'a> {
    async fn run(target: &'a Arc<Target>, random: &mut ChaCha8Rng) -> Result<Infallible, LinkError> {
        let source = source(random, 70..100);
        let channel = Channel::open(target.address, source, &target.tls).await?;
        let parameters = &target.parameters;
        let rate = parameters.ntor_per_second / f64::from(parameters.held().max(1));
        let mut connection = Self {
            target,
            channel,
            circuits: HashMap::new(),
            due: BinaryHeap::new(),
            circuit_gap: (rate > 0.0).then(|| 1.0 / rate),
            _connected: Present::new(&target.totals, |totals| &mut totals.connections_now),
        };
        connection.plan_circuit(Instant::now(), random);
        let Err(lost) = connection.go_on(random).await;
        let unmade = connection.circuits.values().filter(|state| state.made.is_none());
        target.totals.lock().circuits_failed += unmade.count() as u64;
        Err(lost)
    }

    async fn go_on(&mut self, random: &mut ChaCha8Rng) -> Result<Infallible, LinkError> {
        loop {
            let now = Instant::now();
            let next = self.due.peek().map_or(now + FAR_AHEAD, |Reverse((at, _))| *at);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(next) => {
                    if let Some(Reverse((at, step))) = self.due.pop() {
                        self.take(at, step, random);
                    }
                }
                received = self.channel.receive() => {
                    let mut next = Some(received?);
                    while let Some(cell) = next {
                        self.hear(cell.circuit, cell.command, cell.payload);
                        next = self.channel.received();
                    }
                }
            }
            self.channel.flush().await?;
        }
    }

    fn plan_circuit(&mut self, after: Instant, random: &mut ChaCha8Rng) {
        if let Some(gap) = self.circuit_gap {
            let wait: f64 = Exp1.sample(random);
            self.plan(after + seconds(wait * gap), Step::Ask);
        }
    }

    fn plan(&mut self, at: Instant, step: Step) {
        self.due.push(Reverse((at, step)));
    }

    fn take(&mut self, at: Instant, step: Step, random: &mut ChaCha8Rng) {
        match step {
            Step::Ask => {
                self.plan_circuit(at, random);
                self.ask(at, random);
            }
            Step::Close { circuit } => {
                if let Some(state) = self.circuits.remove(&circuit) {
                    if state.is_overdue() {
                        self.target.totals.lock().circuits_failed += 1;
                    }
                    self.channel.queue(circuit, DESTROY, &[FINISHED]);
                }
            }
        }
    }

    fn ask(&mut self, at: Instant, random: &mut ChaCha8Rng) {
        let parameters = &self.target.parameters;
        let life: f64 = Exp1.sample(random);
        let life = life * parameters.circuit_seconds;
        let Some(handshake) = self.target.handshake() else {
            self.target.totals.lock().circuits_without_key += 1;
            return;
        };
        let circuit = self.channel.next_circuit();
        self.channel.queue(circuit, CREATE2, &create2(handshake));
        self.target.totals.lock().circuits_asked += 1;
        self.circuits.insert(circuit, State { asked: Instant::now(), made: None });
        self.plan(at + seconds(life), Step::Close { circuit });
    }

    fn hear(&mut self, circuit: u32, command: u8, payload: Vec<u8>) {
        // Cells may still come on a circuit that was closed.
        let Some(state) = self.circuits.get_mut(&circuit) else { return };
        match command {
            CREATED2 if state.made.is_none() => {
                let handshake = self.target.handshake();
                if !handshake.is_some_and(|handshake| handshake.is_answered_by(&payload[2..])) {
                    return self.fail(circuit);
                }
                self.target.totals.lock().circuits_made += 1;
                state.made = Some(Present::new(&self.target.totals, |totals| &mut totals.circuits_now));
            }
            DESTROY => {
                self.circuits.remove(&circuit);
                self.target.totals.lock().circuits_failed += 1;
            }
            _ => {}
        }
    }

    fn fail(&mut self, circuit: u32) {
        self.circuits.remove(&circuit);
        self.channel.queue(circuit, DESTROY, &[FINISHED]);
        self.target.totals.lock().circuits_failed += 1;
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}
