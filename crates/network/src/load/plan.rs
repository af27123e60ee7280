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
    /// Clients that come to each relay for each consensus.
    pub clients: u32,
    /// Seconds from the publication of a consensus within which they come, at moments drawn evenly.
    pub arrival_seconds: f64,
    /// For how many consensuses more a client stays connected when it has what it asked for, in the mean; one in
    /// ten stays eight times as long.
    pub stay_consensuses: f64,
}

/// One client: when it comes, what it asks, how long it stays.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Client {
    pub(crate) at: Duration,
    pub(crate) seed: u64,
    pub(crate) circuits: Vec<ClientCircuit>,
    pub(crate) gap: Duration,
    /// Leaves that many consensuses after the one for which it came.
    pub(crate) stay: u32,
}

/// One circuit of a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClientCircuit {
    pub(crate) padding_cells: u32,
    pub(crate) requests: Vec<Request>,
    pub(crate) destroyed: bool,
}

impl Client {
    /// The clients of the consensus with this number, in order of time: each relay gets all of them.
    pub(super) fn draw_all(parameters: &LoadParameters, consensus: u64, seed: u64) -> Vec<Self> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(consensus);
        let draw = |_| Self::draw(parameters, &mut random);
        let mut clients: Vec<Self> = (0..parameters.clients).map(draw).collect();
        clients.sort_by_key(|client| client.at);
        clients
    }

    fn draw(parameters: &LoadParameters, random: &mut impl Rng) -> Self {
        let circuits = random.random_range(1..=4);
        let mut requests: Vec<Request> =
            (0..random.random_range(0..5)).map(|_| Request::draw(random)).collect();
        let per_circuit = requests.len() / circuits + 1;
        let padding_cells = random.random_range(0..20);
        let stay: f64 = Exp1.sample(random);
        let long = if random.random_bool(0.1) { 8.0 } else { 1.0 };
        Self {
            at: Duration::from_secs_f64(random.random::<f64>() * parameters.arrival_seconds),
            seed: random.random(),
            gap: Duration::from_millis(random.random_range(0..300)),
            stay: (stay * parameters.stay_consensuses * long) as u32,
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

    const PARAMETERS: LoadParameters =
        LoadParameters { clients: 4_000, arrival_seconds: 10.0, stay_consensuses: 2.0 };

    #[test]
    fn seed_and_consensus_decide_the_plan() {
        let plan = |consensus, seed| Client::draw_all(&PARAMETERS, consensus, seed);
        assert_eq!(plan(1, 1), plan(1, 1));
        assert_ne!(plan(1, 1), plan(1, 2));
        assert_ne!(plan(1, 1), plan(2, 1));
    }

    #[test]
    fn clients_come_evenly_and_stay_as_long_as_asked_for() {
        let clients = Client::draw_all(&PARAMETERS, 1, 5);
        assert_eq!(clients.len(), 4_000);
        assert!(clients.is_sorted_by_key(|client| client.at));
        let early = clients.iter().filter(|client| client.at < Duration::from_secs(5)).count() as f64;
        // Five standard deviations of a binomial count.
        assert!((early - 2_000.0).abs() < 5.0 * 1_000_f64.sqrt(), "{early}");
        assert!(clients.last().is_some_and(|client| client.at < Duration::from_secs(10)));
        // A mean of 2.0, of which whole consensuses count, and one in ten with eight times that.
        let mean = clients.iter().map(|client| f64::from(client.stay)).sum::<f64>() / 4_000.0;
        assert!((2.4..3.8).contains(&mean), "{mean}");
    }
}
