//! Simulation: how often the interval of the ratio holds the true ratio.

use heaptrial_stats::{Block, IntervalMethod, ratio_to_control};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal};

const TRIALS: u32 = 2_000;

/// Runs trials of `repeats` blocks with one service per arm and a true ratio of 0.5; gives the share
/// of intervals that hold it. The spread between blocks is larger than within, as between lab repeats.
fn coverage(repeats: usize, method: IntervalMethod) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let block_effect = LogNormal::new(5.0, 0.3).unwrap();
    let noise = LogNormal::new(0.0, 0.05).unwrap();
    let mut held = 0;
    for trial in 0..TRIALS {
        let blocks: Vec<Block> = (0..repeats)
            .map(|_| {
                let level = block_effect.sample(&mut random);
                Block {
                    control: vec![level * noise.sample(&mut random)],
                    treated: vec![0.5 * level * noise.sample(&mut random)],
                }
            })
            .collect();
        let ratio = ratio_to_control(&blocks, 0.95, u64::from(trial)).unwrap();
        assert_eq!(ratio.method, method);
        let (low, high) = ratio.interval.unwrap();
        held += u32::from(low <= 0.5 && 0.5 <= high);
    }
    let share = f64::from(held) / f64::from(TRIALS);
    println!("{repeats} repeats, {method:?}: {share}");
    share
}

// The Monte Carlo error of a share of 0.95 over 2,000 trials is 0.0049; the bounds are four of them.

#[test]
fn few_repeats_are_covered_by_student() {
    for repeats in [3, 5] {
        let share = coverage(repeats, IntervalMethod::StudentT);
        assert!((0.930..=0.970).contains(&share), "{share}");
    }
}

/// A permutation interval may be wider than asked for: with 6 blocks its level is 1 - 2/64.
#[test]
fn more_repeats_are_covered_by_permutation() {
    for repeats in [6, 8] {
        let share = coverage(repeats, IntervalMethod::Permutation);
        assert!((0.930..=0.985).contains(&share), "{share}");
    }
}
