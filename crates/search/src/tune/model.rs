//! How settings act, as a guess that says how sure it is.

use heaptrial_stats::mean;

use crate::tune::features::Features;
use crate::tune::matrix::Factor;
use crate::tune::search::LEAST_FREEDOM;
use crate::tune::space::{Candidate, Space};

/// Standard deviations between candidates that are tried, on the log scale.
const SPREADS: [f64; 7] = [0.01, 0.03, 0.08, 0.2, 0.4, 0.8, 1.6];
/// Standard deviations of the noise of one run that are tried where nothing was measured twice.
const NOISES: [f64; 4] = [0.01, 0.03, 0.1, 0.3];
/// The 95% upper end of a noise that was measured with one and with two degrees of freedom, in multiples of it (by chi-squared).
const MOST_NOISE: [f64; 2] = [15.95, 4.415];
/// A noise below this is not believed.
const LEAST_NOISE: f64 = 0.003;

/// A Gaussian process over the candidates of a space (C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine
/// Learning" (2006), chapters 2 and 5) whose covariance is a sum of the parts that a level may have. Its spread is the one
/// that makes what was measured likeliest.
#[derive(Debug, Clone)]
pub struct Model {
    features: Vec<Features>,
    values: Vec<f64>,
    mean: f64,
    spread: f64,
    factor: Factor,
    weights: Vec<f64>,
}

/// What is known of one candidate: its log ratio to the control, and blocks that it is the mean of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Known {
    pub(crate) candidate: Candidate,
    pub(crate) value: f64,
    pub(crate) blocks: usize,
}

impl Known {
    fn variance(&self, noise: f64) -> f64 {
        noise * noise / self.blocks.max(1) as f64
    }
}

/// The standard deviations of one run's log that may be: the measured one, or where that has few degrees of freedom all that are not
/// far above it. Else what was measured twice would count for less than what is guessed of it.
pub(crate) fn noises(measured: Option<(f64, usize)>) -> Vec<f64> {
    let Some((noise, freedom)) = measured else { return NOISES.to_vec() };
    let noise = noise.max(LEAST_NOISE);
    let Some(most) = MOST_NOISE.get(freedom.saturating_sub(1)).filter(|_| freedom < LEAST_FREEDOM) else {
        return vec![noise];
    };
    let within: Vec<f64> = NOISES.into_iter().filter(|tried| *tried <= noise * most).collect();
    if within.is_empty() { vec![noise * most] } else { within }
}

impl Model {
    /// Of what is known. `noises` are the standard deviations of one run's log that are tried ([`noises`]). `None` without anything.
    pub(crate) fn of(space: &Space, known: &[Known], noises: &[f64]) -> Option<Self> {
        if known.is_empty() {
            return None;
        }
        let features: Vec<Features> =
            known.iter().map(|known| Features::of(space, &known.candidate)).collect();
        let values: Vec<f64> = known.iter().map(|known| known.value).collect();
        let mean = mean(&values);
        let covariance: Vec<Vec<f64>> = (0..features.len())
            .map(|i| (0..=i).map(|j| features[i].covariance(&features[j])).collect())
            .collect();
        let fits = SPREADS.iter().flat_map(|spread| noises.iter().map(move |noise| (*spread, *noise)));
        let fits = fits.filter_map(|(spread, noise)| {
            let factor = Factor::of(features.len(), |i, j| {
                let own = if i == j { known[i].variance(noise) } else { 0.0 };
                spread * spread * covariance[i][j] + own
            })?;
            let rests: Vec<f64> = values.iter().map(|value| value - mean).collect();
            let weights = factor.solve(&rests);
            let fit: f64 = rests.iter().zip(&weights).map(|(rest, weight)| rest * weight).sum();
            Some((fit + factor.log_determinant(), spread, factor, weights))
        });
        let (_, spread, factor, weights) = fits.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Self { features, values, mean, spread, factor, weights })
    }

    fn covariances(&self, of: &Features) -> Vec<f64> {
        let scale = self.spread * self.spread;
        self.features.iter().map(|known| scale * known.covariance(of)).collect()
    }

    /// Log ratio to the control that is believed of a candidate, and the standard deviation of that belief.
    pub fn believed(&self, space: &Space, candidate: &Candidate) -> (f64, f64) {
        self.of_features(&Features::of(space, candidate))
    }

    pub(crate) fn of_features(&self, of: &Features) -> (f64, f64) {
        let (mean, variance) = self.of_sum(&[(1.0, of)]);
        (self.mean + mean, variance.sqrt())
    }

    /// Mean without the overall one, and variance, of a weighted sum over candidates.
    pub(crate) fn of_sum(&self, sum: &[(f64, &Features)]) -> (f64, f64) {
        let mut covariances = vec![0.0; self.features.len()];
        for (weight, of) in sum {
            for (total, value) in covariances.iter_mut().zip(self.covariances(of)) {
                *total += weight * value;
            }
        }
        let mean = covariances.iter().zip(&self.weights).map(|(a, b)| a * b).sum();
        let scale = self.spread * self.spread;
        let prior: f64 =
            sum.iter().flat_map(|(a, x)| sum.iter().map(move |(b, y)| a * b * scale * x.covariance(y))).sum();
        let known: f64 = self.factor.forward(&covariances).iter().map(|value| value * value).sum();
        (mean, (prior - known).max(0.0))
    }

    /// The same as if a candidate had been measured once more and been as believed.
    pub(crate) fn as_if_measured(&mut self, of: &Features, noise: f64) {
        let (believed, _) = self.of_features(of);
        let mut row = self.covariances(of);
        let own = self.spread * self.spread * of.covariance(of) + noise.max(LEAST_NOISE).powi(2);
        row.push(own);
        if self.factor.extend(row).is_some() {
            self.features.push(of.clone());
            self.values.push(believed);
            let rests: Vec<f64> = self.values.iter().map(|value| value - self.mean).collect();
            self.weights = self.factor.solve(&rests);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::tune::space::{Base, Level, Setting};

    /// One allocator, a setting on a scale and one of words.
    pub(crate) fn space() -> Space {
        let scale = (0..=6)
            .map(|at| Level { value: (at > 0).then(|| at.to_string()), position: Some(f64::from(at) / 6.0) });
        let words = ["", "on", "auto"]
            .map(|word| Level { value: (!word.is_empty()).then(|| word.to_owned()), position: None });
        let setting = |name: &str, levels| Setting {
            name: name.to_owned(),
            levels,
            needs: Vec::new(),
            excludes: Vec::new(),
        };
        let settings = vec![setting("delay", scale.collect()), setting("thp", words.to_vec())];
        Space { bases: vec![Base { name: "m".to_owned(), family: "m".to_owned(), settings }] }
    }

    pub(crate) fn at(delay: usize, thp: usize) -> Candidate {
        Candidate { base: 0, levels: vec![delay, thp] }
    }

    fn known(levels: &[(usize, usize, f64)]) -> Vec<Known> {
        levels
            .iter()
            .map(|(delay, thp, value)| Known { candidate: at(*delay, *thp), value: *value, blocks: 3 })
            .collect()
    }

    /// Three values in two blocks each, to a ten-thousandth.
    #[test]
    fn what_was_measured_twice_is_believed_before_the_noise_is_known_well() {
        let space = space();
        for best in [0.58_f64, 0.79, 0.92] {
            let known: Vec<Known> = known(&[(0, 0, 0.0), (6, 0, best.ln()), (3, 0, 1.42_f64.ln())])
                .into_iter()
                .map(|known| Known { blocks: 2, ..known })
                .collect();
            for freedom in [1, 2, 3] {
                let model = Model::of(&space, &known, &noises(Some((1e-4, freedom)))).unwrap();
                for known in &known {
                    let (mean, sd) = model.believed(&space, &known.candidate);
                    assert!(
                        (mean - known.value).abs() < 0.03 && sd < 0.05,
                        "{freedom} {known:?}: {mean} {sd}"
                    );
                }
            }
        }
        assert_eq!(noises(None), NOISES);
        assert_eq!(noises(Some((0.02, 2))), [0.01, 0.03]);
        assert_eq!(noises(Some((0.02, 9))), [0.02]);
    }
}
