//! What noise a measurement may have: normal of unknown size, and now and then a jump.

use std::f64::consts::PI;

/// Sizes of the noise of a log ratio that are considered (standard deviations). Repeats of one seed differ by 1% in a run,
/// 1.4% in a ratio of two; the second number is how likely each is at first.
const SIZES: [(f64, f64); 7] =
    [(0.014, 0.2), (0.025, 0.2), (0.045, 0.2), (0.08, 0.18), (0.14, 0.12), (0.25, 0.07), (0.45, 0.03)];
/// How often one of the two runs of a ratio is in another mode than the other, and how likely each is at first.
const JUMPS: [(f64, f64); 2] = [(0.05, 0.8), (0.25, 0.2)];
/// How far such a run is off, in the mean: a factor of two.
const JUMP_SIZE: f64 = 0.7;

/// One hypothesis of the noise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noise {
    /// Standard deviation of a log ratio.
    pub(crate) size: f64,
    /// Share of measurements that are off by much more.
    pub(crate) jumps: f64,
    /// Logarithm of how likely it is beforehand.
    pub(crate) log_prior: f64,
}

impl Noise {
    /// All that are considered. Noise below `least` is not distinguished from it.
    pub(crate) fn all(least: f64) -> Vec<Self> {
        let mut all = Vec::new();
        for (size, likely) in SIZES {
            for (jumps, prior) in JUMPS {
                all.push(Self { size: size.max(least), jumps, log_prior: (prior * likely).ln() });
            }
        }
        all
    }

    /// Logarithm of the density of an error.
    pub(crate) fn log_density(&self, error: f64) -> f64 {
        let wide = self.size.hypot(JUMP_SIZE);
        let usual = (1.0 - self.jumps) * normal(error, self.size);
        (usual + self.jumps * normal(error, wide)).ln()
    }
}

fn normal(error: f64, sd: f64) -> f64 {
    (-0.5 * (error / sd).powi(2)).exp() / (sd * (2.0 * PI).sqrt())
}
