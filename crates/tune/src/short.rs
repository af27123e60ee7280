//! Whether short runs tell what whole ones do, and what.

use heaptrial_stats::{kendall, quantile};
use rand::{Rng as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

const LEAST: usize = 6;
/// Fewer are told of, and not acted on.
const LEAST_ACTED_ON: usize = 8;
/// Orders that agree at least so far are foretold by short runs.
const SHOWN: f64 = 0.6;
const DRAWS: usize = 500;
/// The seed of the draws: they decide nothing but an interval's ends.
const SEED: u64 = 1;

/// How the figures of candidates early in their runs, or in short runs, agree with those of whole runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    pub candidates: usize,
    /// Kendall's tau-b of the two orders.
    pub tau: f64,
    /// It is higher than this with 95%, by drawing candidates with replacement (B. Efron, "Bootstrap Methods", Annals of
    /// Statistics 7 (1979)).
    pub low: f64,
    /// What the one says of the other; reports of earlier versions do not tell it.
    #[serde(default)]
    pub line: Option<Line>,
}

/// The log ratio to the control in whole runs as a line over that of short ones, by least squares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Candidates that it was drawn through.
    pub candidates: usize,
    pub slope: f64,
    /// Means of both, through which it goes.
    pub means: (f64, f64),
    /// Sum of squares of the short figures about their mean.
    pub squares: f64,
    /// Standard deviation of the whole figures about it.
    pub sd: f64,
}

impl Prediction {
    /// Of candidates' figures, early and whole; `None` of fewer than six.
    pub(crate) fn of(pairs: &[(f64, f64)]) -> Option<Self> {
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
        let (tau, low) = (tau(pairs)?, quantile(&drawn, 0.05)?);
        Some(Self { candidates: pairs.len(), tau, low, line: Line::through(pairs) })
    }

    /// Whether short runs are shown to tell the order.
    pub fn is_shown(&self) -> bool {
        self.low >= SHOWN
    }

    /// The line, where short runs are acted on: they are shown to tell the order, by enough candidates.
    pub(crate) fn acted_on(&self) -> Option<Line> {
        self.line.filter(|_| self.is_shown() && self.candidates >= LEAST_ACTED_ON)
    }
}

impl Line {
    fn through(pairs: &[(f64, f64)]) -> Option<Self> {
        let count = pairs.len() as f64;
        let sum = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        let means = (sum.0 / count, sum.1 / count);
        let squares: f64 = pairs.iter().map(|(early, _)| (early - means.0).powi(2)).sum();
        let products: f64 = pairs.iter().map(|(early, whole)| (early - means.0) * (whole - means.1)).sum();
        let slope = products / squares;
        let off: f64 = pairs.iter().map(|pair| (pair.1 - means.1 - slope * (pair.0 - means.0)).powi(2)).sum();
        let line = Self { candidates: pairs.len(), slope, means, squares, sd: (off / (count - 2.0)).sqrt() };
        (slope.is_finite() && line.sd.is_finite()).then_some(line)
    }

    /// Standard deviation of what it says of the candidates' whole figures.
    pub(crate) fn spread(&self) -> f64 {
        self.slope.abs() * (self.squares / (self.candidates - 1) as f64).sqrt()
    }

    /// Degrees of freedom of its error.
    pub(crate) fn freedom(&self) -> usize {
        self.candidates - 2
    }

    /// What a whole run is foretold to show of a candidate, with the standard error of one that the line was not drawn through
    /// (N. R. Draper and H. Smith, "Applied Regression Analysis" (1998), section 3.1). `own` is that of the short figure: part
    /// of it is in what lies about the line already, so that the error is rather too large.
    pub(crate) fn foretells(&self, short: f64, own: f64) -> (f64, f64) {
        let from = short - self.means.0;
        let spread = 1.0 + 1.0 / self.candidates as f64 + from * from / self.squares;
        (self.means.1 + self.slope * from, (self.sd * self.sd * spread + (self.slope * own).powi(2)).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_foretells_with_the_error_of_a_new_one() {
        let pairs = [(0.0, 0.1), (1.0, 1.9), (2.0, 4.1), (3.0, 5.9)];
        let line = Line::through(&pairs).unwrap();
        // By hand: slope 9.8 / 5, squares about the line 2 (0.04² + 0.12²) with 2 degrees of freedom.
        assert!((line.slope - 1.96).abs() < 1e-12 && (line.sd - 0.016_f64.sqrt()).abs() < 1e-9, "{line:?}");
        let (whole, error) = line.foretells(4.5, 0.1);
        assert!((whole - (3.0 + 1.96 * 3.0)).abs() < 1e-12);
        let by_hand = 0.016 * (1.0 + 0.25 + 9.0 / 5.0) + (1.96 * 0.1_f64).powi(2);
        assert!((error - by_hand.sqrt()).abs() < 1e-9, "{error}");
        assert!(Line::through(&[(1.0, 0.0), (1.0, 1.0), (1.0, 2.0)]).is_none());
    }

    #[test]
    fn few_candidates_are_told_of_and_not_acted_on() {
        let pairs: Vec<(f64, f64)> = (0..8).map(|at| (f64::from(at), f64::from(at * at))).collect();
        assert_eq!(Prediction::of(&pairs[..5]), None);
        let seven = Prediction::of(&pairs[..7]).unwrap();
        assert!(seven.is_shown() && seven.acted_on().is_none());
        assert!(Prediction::of(&pairs).unwrap().acted_on().is_some());
    }
}
