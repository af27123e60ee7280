//! What blocks of so many services of each arm do to power, as `docs/calibration.md` tells it.
//!
//! `cargo run --release -p heaptrial-bench --bin calibrate_power`

use heaptrial_stats::{IntervalMethod, SimulatedTrials, power_of_ratio};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SIMULATIONS: usize = 4_000;

fn main() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    // Services whose logarithms are normal with SD 0.1: the sum of twelve uniform numbers.
    let mut level = || (22.0 + 0.1 * ((0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0)).exp();
    let levels: Vec<f64> = (0..2_000).map(|_| level()).collect();
    for alpha in [0.0336, 0.0084] {
        for services in [4, 5, 6, 7, 8, 10] {
            let cell = |rounds: usize| {
                let trials = SimulatedTrials { ratio: 1.2, alpha, simulations: SIMULATIONS, seed: 3 };
                let power = power_of_ratio(&levels, services, rounds, &trials)?;
                let mark = if power.method == IntervalMethod::StudentT { "*" } else { "" };
                Some(format!("{:.0}%{mark}", 100.0 * power.share))
            };
            let cells: Vec<String> = [1, 2, 3, services].into_iter().filter_map(cell).collect();
            println!("| {:.2}% | {services} | {} |", 100.0 * alpha, cells.join(" | "));
        }
    }
}
