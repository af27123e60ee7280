//! What is measured next: where most is expected to be gained.

use std::collections::BTreeSet;

use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

use crate::tune::features::Features;
use crate::tune::model::Model;
use crate::tune::space::{Candidate, Space};

/// Spaces up to this size are looked at whole.
const WHOLE: usize = 3000;
/// Of larger ones so many candidates are drawn, beside the neighbours of the best.
const DRAWN: usize = 1500;

/// What is chosen from, and by what.
pub(crate) struct Choice<'a> {
    pub(crate) space: &'a Space,
    /// Of the goal; `None` before anything is measured.
    pub(crate) model: Option<Model>,
    /// Of each limit: what is believed of its figure, and the most that it may be.
    pub(crate) bounds: Vec<(Model, f64)>,
    pub(crate) best: Option<f64>,
    /// Whose neighbours are looked at.
    pub(crate) near: Vec<Candidate>,
    pub(crate) out: &'a BTreeSet<Candidate>,
    pub(crate) noise: f64,
}

impl Choice<'_> {
    /// At most `count` candidates, the most promising first. Each is chosen as if those before it had been measured and were
    /// as believed, so that they are not all alike.
    pub(crate) fn choose(mut self, count: usize, random: &mut ChaCha8Rng) -> Vec<Candidate> {
        let mut pool = self.pool(random);
        let Some(mut model) = self.model.take() else {
            return pool.choose_multiple(random, count).cloned().collect();
        };
        let mut features: Vec<Features> =
            pool.iter().map(|candidate| Features::of(self.space, candidate)).collect();
        let mut chosen = Vec::new();
        while chosen.len() < count && !pool.is_empty() {
            let gains = features.iter().map(|of| self.gain(&model, of)).enumerate();
            let Some((at, _)) = gains.max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            model.as_if_measured(&features[at], self.noise);
            chosen.push(pool.swap_remove(at));
            features.swap_remove(at);
        }
        chosen
    }

    fn pool(&self, random: &mut ChaCha8Rng) -> Vec<Candidate> {
        let candidates: BTreeSet<Candidate> = match self.space.all(WHOLE) {
            Some(all) => all.into_iter().collect(),
            None => {
                let drawn = (0..DRAWN).filter_map(|_| self.space.random(random));
                let near = self.near.iter().flat_map(|candidate| self.space.neighbours(candidate));
                drawn.chain(near).chain(self.near.iter().cloned()).collect()
            }
        };
        candidates.into_iter().filter(|candidate| !self.out.contains(candidate)).collect()
    }

    /// Expected improvement over the leader (J. Močkus 1974; D. R. Jones, M. Schonlau and W. J. Welch, "Efficient Global
    /// Optimization of Expensive Black-Box Functions", Journal of Global Optimization 13 (1998)), times the probability that
    /// limits are kept (M. Schonlau, W. J. Welch and D. R. Jones 1998).
    fn gain(&self, model: &Model, of: &Features) -> f64 {
        let normal = Normal::standard();
        let (mean, sd) = model.of_features(of);
        let gain = match self.best {
            _ if sd <= 0.0 => 0.0,
            Some(best) => {
                let z = (best - mean) / sd;
                sd * (z * normal.cdf(z) + normal.pdf(z))
            }
            None => sd,
        };
        let kept = self.bounds.iter().map(|(model, most)| match model.of_features(of) {
            (mean, sd) if sd > 0.0 => normal.cdf((most - mean) / sd),
            (mean, _) => f64::from(u8::from(mean <= *most)),
        });
        gain * kept.product::<f64>()
    }
}
