//! An interval for a median that assumes nothing about the distribution.

use crate::counts::at_most;
use crate::median;

/// A median with its exact interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianEstimate {
    /// The median of the values.
    pub median: f64,
    /// Two of the values, symmetric in rank; `None` for too few values (fewer than 6 at 95%).
    pub interval: Option<(f64, f64)>,
}

/// The median of `values` with the interval between two order statistics of confidence `level` (0.95).
///
/// The count of values below the true median is binomial with probability 1/2, so the r-th smallest
/// and the r-th largest value enclose it with probability 1 - 2 P(B <= r - 1); r is the largest for
/// which that is at least `level` (W. J. Conover, "Practical Nonparametric Statistics", 3rd edition
/// (1999), section 3.2; G. J. Hahn, W. Q. Meeker, "Statistical Intervals" (1991), section 5.2).
/// Ties make it wider than its level, never narrower. `None` for no values or one that is not finite.
pub fn median_interval(values: &[f64], level: f64) -> Option<MedianEstimate> {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let median = median(values)?;
    let Some(rank) = rank(values.len(), level) else {
        return Some(MedianEstimate { median, interval: None });
    };
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let interval = (sorted[rank - 1], sorted[sorted.len() - rank]);
    Some(MedianEstimate { median, interval: Some(interval) })
}

/// The largest rank r whose interval has the level.
fn rank(count: usize, level: f64) -> Option<usize> {
    let covers = |rank: usize| 1.0 - 2.0 * at_most(rank - 1, count) >= level - 1e-12;
    if !(0.0..1.0).contains(&level) || count < 2 || !covers(1) {
        return None;
    }
    // Coverage falls with the rank: bisect between one that covers and one that does not.
    let (mut good, mut bad) = (1, count / 2 + 1);
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if covers(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_values_have_no_interval_at_95_percent_and_six_have_all_their_range() {
        let five = median_interval(&[5.0, 1.0, 4.0, 2.0, 3.0], 0.95).unwrap();
        assert_eq!((five.median, five.interval), (3.0, None));
        let six = median_interval(&[5.0, 1.0, 4.0, 2.0, 3.0, 6.0], 0.95).unwrap();
        assert_eq!((six.median, six.interval), (3.5, Some((1.0, 6.0))));
    }

    #[test]
    fn impossible_input_has_no_median() {
        assert_eq!(median_interval(&[], 0.95), None);
        assert_eq!(median_interval(&[1.0, f64::INFINITY], 0.95), None);
        assert_eq!(median_interval(&[1.0; 10], 1.0).unwrap().interval, None);
    }
}
