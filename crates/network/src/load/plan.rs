//! What the clients will do, decided before the run from a seed.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};
use serde::{Deserialize, Serialize};

use super::request::Request;

/// Shape of the load on each relay.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadParameters {
    /// New client connections per second in a steady phase.
    pub connections_per_second: f64,
    /// Mean time that a client stays connected after its last request, in seconds; one in ten stays
    /// eight times as long.
    pub hold_seconds: f64,
    /// Phases that repeat in this order.
    pub phases: Vec<Phase>,
}

/// A part of the cycle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// How long it lasts.
    pub seconds: f64,
    /// By what the steady rate of connections is multiplied.
    pub factor: f64,
}

impl LoadParameters {
    /// Steady, burst, idle: a minute in which `burst` times the steady rate lasts a fifth, and almost
    /// nothing happens for another fifth.
    pub fn cycle(burst: f64) -> Vec<Phase> {
        vec![
            Phase { seconds: 36.0, factor: 1.0 },
            Phase { seconds: 12.0, factor: burst },
            Phase { seconds: 12.0, factor: 0.1 },
        ]
    }

    fn factor_at(&self, seconds: f64) -> f64 {
        let cycle: f64 = self.phases.iter().map(|phase| phase.seconds).sum();
        let mut rest = seconds % cycle;
        for phase in &self.phases {
            if rest < phase.seconds {
                return phase.factor;
            }
            rest -= phase.seconds;
        }
        1.0
    }
}

/// One client: when it comes, what it asks, how long it stays.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Client {
    pub(crate) at: Duration,
    pub(crate) seed: u64,
    pub(crate) circuits: Vec<ClientCircuit>,
    pub(crate) gap: Duration,
    pub(crate) hold: Duration,
}

/// One circuit of a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClientCircuit {
    pub(crate) padding_cells: u32,
    pub(crate) requests: Vec<Request>,
    pub(crate) destroyed: bool,
}

/// The clients of a whole run, in order of time. The same parameters and seed give the same plan, and
/// each relay gets all of it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPlan {
    pub(crate) clients: Vec<Client>,
}

impl LoadPlan {
    /// The plan of a run of `duration`.
    pub fn new(parameters: &LoadParameters, duration: Duration, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let highest = parameters.phases.iter().map(|phase| phase.factor).fold(0.0, f64::max);
        let rate = parameters.connections_per_second * highest;
        let mut clients = Vec::new();
        if rate <= 0.0 {
            return Self { clients };
        }
        let mut seconds = 0.0;
        // A Poisson process of the highest rate, thinned to the phase's rate.
        loop {
            let step: f64 = Exp1.sample(&mut random);
            seconds += step / rate;
            if seconds >= duration.as_secs_f64() {
                break;
            }
            if random.random_bool((parameters.factor_at(seconds) / highest).clamp(0.0, 1.0)) {
                clients.push(Client::draw(Duration::from_secs_f64(seconds), parameters, &mut random));
            }
        }
        Self { clients }
    }

    /// How many clients come.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }
}

impl Client {
    fn draw(at: Duration, parameters: &LoadParameters, random: &mut impl Rng) -> Self {
        let circuits = random.random_range(1..=4);
        let mut requests: Vec<Request> =
            (0..random.random_range(0..5)).map(|_| Request::draw(random)).collect();
        let per_circuit = requests.len() / circuits + 1;
        let padding_cells = random.random_range(0..20);
        let stay: f64 = Exp1.sample(random);
        let long = if random.random_bool(0.1) { 8.0 } else { 1.0 };
        Self {
            at,
            seed: random.random(),
            gap: Duration::from_millis(random.random_range(0..300)),
            hold: Duration::from_secs_f64(stay * parameters.hold_seconds * long),
            circuits: (0..circuits)
                .map(|_| ClientCircuit {
                    padding_cells,
                    requests: requests.drain(..per_circuit.min(requests.len())).collect(),
                    destroyed: random.random_bool(0.3),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> LoadParameters {
        LoadParameters {
            connections_per_second: 10.0,
            hold_seconds: 30.0,
            phases: LoadParameters::cycle(3.0),
        }
    }

    #[test]
    fn a_seed_decides_the_plan() {
        let plan = |seed| LoadPlan::new(&parameters(), Duration::from_secs(120), seed);
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    #[test]
    fn phases_have_their_rates() {
        let plan = LoadPlan::new(&parameters(), Duration::from_secs(6_000), 5);
        let rate = |from: f64, to: f64| {
            let inside = |client: &&Client| (from..to).contains(&(client.at.as_secs_f64() % 60.0));
            plan.clients.iter().filter(inside).count() as f64 / 100.0 / (to - from)
        };
        for (found, expected) in [(rate(0.0, 36.0), 10.0), (rate(36.0, 48.0), 30.0), (rate(48.0, 60.0), 1.0)]
        {
            // Five standard deviations of a Poisson count over at least 1,200 seconds.
            let tolerance = 5.0 * (expected / 1_200.0_f64).sqrt();
            assert!((found - expected).abs() < tolerance, "{found} instead of {expected}");
        }
    }
}
