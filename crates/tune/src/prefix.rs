//! Whether short runs would have told what whole ones did.

use heaptrial_stats::{kendall, quantile};
use rand::{Rng as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::search::Search;

/// Fewer candidates tell nothing.
const LEAST: usize = 6;
const DRAWS: usize = 500;
/// The seed of the draws: they decide nothing but an interval's ends.
const SEED: u64 = 1;

/// How the order of candidates early in their runs agrees with the order at the end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Candidates that have both.
    pub candidates: usize,
    /// Kendall's tau-b of the two orders.
    pub tau: f64,
    /// It is higher than this with 95%, by drawing candidates with replacement (B. Efron, "Bootstrap Methods", Annals of
    /// Statistics 7 (1979)).
    pub low: f64,
}

/// Of the candidates measured so far. `None` of fewer than six.
pub fn prediction(search: &Search) -> Option<Prediction> {
    let pairs = search.early_and_whole();
    if pairs.len() < LEAST {
        return None;
    }
    let tau = |pairs: &[(f64, f64)]| {
        let (early, whole): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        kendall(&early, &whole)?.tau_b
    };
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut drawn: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let draw: Vec<(f64, f64)> =
                (0..pairs.len()).map(|_| pairs[random.random_range(0..pairs.len())]).collect();
            tau(&draw)
        })
        .collect();
    drawn.sort_by(f64::total_cmp);
    Some(Prediction { candidates: pairs.len(), tau: tau(&pairs)?, low: quantile(&drawn, 0.05)? })
}
