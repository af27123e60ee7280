//! How candidates differ, by what blocks have in common.

use heaptrial_stats::mean;

use crate::tune::matrix::Factor;

/// Standard deviations below this, in proportion to the largest ratio, are of rounding.
const ROUNDING: f64 = 1e-12;

/// Arms compared over blocks by least squares: the logarithm that is measured is a level of the arm plus one of the block plus
/// noise, of the same size in all arms (a two-way layout without interaction, unbalanced; H. Scheffé, "The Analysis of Variance"
/// (1959), chapter 4). Arms that never shared a block are compared by way of those that both met; the control is in every block.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Log ratio to the control.
    means: Vec<f64>,
    /// Of the log ratios, in units of the variance of the noise.
    covariance: Vec<Vec<f64>>,
    /// Blocks in which each arm was measured.
    measured: Vec<usize>,
    variance: Option<f64>,
    freedom: usize,
}

impl Comparison {
    /// Of `arms` candidates. Each block has the control's figure and those of some candidates by their position. `None`
    /// where a candidate is in no block.
    pub fn of(arms: usize, blocks: &[(f64, Vec<(usize, f64)>)]) -> Option<Self> {
        let mut laplacian = vec![vec![0.0; arms]; arms];
        let mut right = vec![0.0; arms];
        let mut measured = vec![0; arms];
        for (control, of) in blocks {
            let count = (of.len() + 1) as f64;
            let mean = (control + of.iter().map(|(_, value)| value).sum::<f64>()) / count;
            for (arm, value) in of {
                laplacian[*arm][*arm] += 1.0;
                right[*arm] += value - mean;
                measured[*arm] += 1;
                for (other, _) in of {
                    laplacian[*arm][*other] -= 1.0 / count;
                }
            }
        }
        let factor = Factor::of(arms, |i, j| laplacian[i][j])?;
        let means = factor.solve(&right);
        let unit = |at: usize| (0..arms).map(|i| f64::from(u8::from(i == at))).collect::<Vec<_>>();
        let covariance = (0..arms).map(|at| factor.solve(&unit(at))).collect();
        let mut squares = 0.0;
        let mut readings = 0;
        for (control, of) in blocks {
            let rests: Vec<f64> =
                std::iter::once(*control).chain(of.iter().map(|(arm, value)| value - means[*arm])).collect();
            let mean = mean(&rests);
            squares += rests.iter().map(|rest| (rest - mean) * (rest - mean)).sum::<f64>();
            readings += rests.len() - 1;
        }
        let freedom = readings - arms;
        let variance = (freedom > 0).then(|| squares / freedom as f64);
        Some(Self { means, covariance, measured, variance, freedom })
    }

    /// The same, where a log is known to have at least this standard deviation. Noise of none is unknown.
    pub fn at_least(mut self, sd: f64) -> Self {
        let rounding = self.means.iter().fold(1.0_f64, |most, mean| most.max(mean.abs())) * ROUNDING;
        self.variance = self
            .variance
            .map(|variance| if variance.sqrt() > rounding { variance } else { 0.0 })
            .map(|variance| variance.max(sd * sd))
            .filter(|variance| *variance > 0.0);
        self
    }

    /// Log ratio of a candidate to the control.
    pub fn to_control(&self, arm: usize) -> f64 {
        self.means[arm]
    }

    /// Blocks in which a candidate was measured.
    pub fn measured(&self, arm: usize) -> usize {
        self.measured[arm]
    }

    /// Standard deviation of a log, and its degrees of freedom; `None` where nothing was measured twice, or where
    /// all that was agrees ([`Self::at_least`]).
    pub fn noise(&self) -> Option<(f64, usize)> {
        Some((self.variance?.sqrt(), self.freedom))
    }

    /// Log ratio of a candidate to another (`None` is the control), with its standard error.
    pub fn difference(&self, arm: usize, other: Option<usize>) -> (f64, Option<f64>) {
        let covariance = |a: usize, b: usize| self.covariance[a][b];
        let (mean, factor) = match other {
            None => (self.means[arm], covariance(arm, arm)),
            Some(other) => (
                self.means[arm] - self.means[other],
                covariance(arm, arm) + covariance(other, other) - 2.0 * covariance(arm, other),
            ),
        };
        (mean, self.variance.map(|variance| (variance * factor.max(0.0)).sqrt()))
    }
}
