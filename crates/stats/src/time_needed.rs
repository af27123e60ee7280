//! How much longer a trial has to run.

use crate::line::least_squares_slope;
use crate::moments::mean;

/// The half-width of an interval falls at least as the square root of time, as levels do, and at most as
/// its power 1.5, as slopes of independent readings do.
const SLOWEST: f64 = 0.5;
const FASTEST: f64 = 1.5;
/// Further ahead nothing is said.
const DAYS_AT_MOST: f64 = 365.0;

/// Days still needed, after the longest of the `widths`, until an interval around `estimate` is
/// conclusive: inside ±`margin` or without 0 ([`crate::standing`]), whichever comes first.
///
/// `widths` are pairs (days observed, half-width of the interval then) of at least two durations, all in
/// the unit of `estimate`. The half-width is taken as `k d^-e` and k and e are fitted on logarithms by
/// least squares, e kept within 0.5..=1.5; with n readings at equal distance over d days the standard
/// error of a slope falls as d^-1.5 if their errors are independent or hang together for a short time (E.
/// C. Weatherhead et al., Journal of Geophysical Research 103 (1998)) and as d^-0.5 if they are a random
/// walk (S. N. Durlauf, P. C. B. Phillips, Econometrica 56 (1988)). The estimate is taken to stay where
/// it is. 0 if it is conclusive by then; 365 stands for a year or more. `None` where no half-width would
/// do (estimate 0 without a margin), with fewer than two durations or a number that is not positive and finite.
pub fn days_needed(widths: &[(f64, f64)], estimate: f64, margin: f64) -> Option<f64> {
    let positive = |value: f64| value > 0.0 && value.is_finite();
    let usable = widths.iter().all(|(days, width)| positive(*days) && positive(*width));
    if !usable || !estimate.is_finite() || !margin.is_finite() {
        return None;
    }
    let target = estimate.abs().max(margin - estimate.abs());
    let logs: Vec<(f64, f64)> = widths.iter().map(|(days, width)| (days.ln(), width.ln())).collect();
    let exponent = (-least_squares_slope(&logs)?).clamp(SLOWEST, FASTEST);
    let scales: Vec<f64> = logs.iter().map(|(days, width)| width + exponent * days).collect();
    if target <= 0.0 {
        return None;
    }
    let duration = ((mean(&scales) - target.ln()) / exponent).exp();
    let observed = widths.iter().map(|(days, _)| *days).fold(0.0, f64::max);
    Some((duration - observed).clamp(0.0, DAYS_AT_MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_is_extrapolated_to_where_it_is_narrow_enough() {
        // Half-width 4 / d: at estimate 0.1 and margin 0.5 it has to be 0.4, which is at 10 days.
        let widths = [(2.0, 2.0), (4.0, 1.0), (5.0, 0.8)];
        assert!((days_needed(&widths, 0.1, 0.5).unwrap() - 5.0).abs() < 1e-9);
        // Above the margin it has to leave 0 out: half-width 0.8 is there now, 0.2 at 20 days.
        assert!((days_needed(&widths, 0.2, 0.1).unwrap() - 15.0).abs() < 1e-9);
        assert_eq!(days_needed(&widths, 2.0, 0.5), Some(0.0));
        assert_eq!(days_needed(&widths, 1e-3, 1e-3), Some(365.0));
    }

    #[test]
    fn the_exponent_is_bounded() {
        // A width that does not fall at all is taken to fall as a square root: from 1 at 4 days (the
        // geometric mean of the durations is 4) to 0.5 at 16.
        assert!((days_needed(&[(2.0, 1.0), (8.0, 1.0)], 0.0, 0.5).unwrap() - 8.0).abs() < 1e-9);
        // One that collapses is taken to fall with power 1.5.
        let fast = days_needed(&[(1.0, 100.0), (4.0, 1.0)], 0.0, 0.1).unwrap();
        assert!((fast - (2.0 * 100.0_f64.powf(2.0 / 3.0) - 4.0)).abs() < 1e-9);
    }

    #[test]
    fn what_cannot_be_known_is_not_told() {
        assert_eq!(days_needed(&[(2.0, 1.0)], 0.1, 0.5), None);
        assert_eq!(days_needed(&[(2.0, 1.0), (2.0, 1.1)], 0.1, 0.5), None);
        assert_eq!(days_needed(&[(2.0, 1.0), (4.0, 0.0)], 0.1, 0.5), None);
        assert_eq!(days_needed(&[(2.0, 1.0), (4.0, 0.5)], 0.0, 0.0), None);
    }
}
