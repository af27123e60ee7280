//! What is drawn.

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, StudentT};

/// A number with mean 0 and variance 1: normal, or Student's t with 3 degrees of freedom.
pub fn standard(random: &mut ChaCha8Rng, tails: bool) -> f64 {
    if tails {
        StudentT::new(3.0).expect("3 degrees of freedom are possible").sample(random) / 3.0_f64.sqrt()
    } else {
        StandardNormal.sample(random)
    }
}

/// A stationary AR(1) process with variance 1 at equal distances.
pub struct Wandering {
    now: f64,
    keep: f64,
    tails: bool,
}

impl Wandering {
    pub fn start(random: &mut ChaCha8Rng, correlation_per_hour: f64, hours: f64, tails: bool) -> Self {
        Self { now: standard(random, false), keep: correlation_per_hour.powf(hours), tails }
    }

    pub fn step(&mut self, random: &mut ChaCha8Rng) -> f64 {
        self.now = self.keep * self.now + (1.0 - self.keep * self.keep).sqrt() * standard(random, self.tails);
        self.now
    }
}
