//! An interval for a mean of few values.

use crate::inverse::student_quantile;
use crate::moments::{ROUNDING, mean, variance};

/// The interval of confidence `level` (0.95) of the mean of `values` by Student's t, which takes them as normal ("Student",
/// "The Probable Error of a Mean", Biometrika 6 (1908)). `None` for fewer than two values, one that is not finite, and values
/// that agree: they show nothing about how far others would be apart.
pub fn student_interval(values: &[f64], level: f64) -> Option<(f64, f64)> {
    student_interval_at_least(values, level, 0.0)
}

/// The same, where values are known to differ by a standard deviation of at least `least`, as readings do that are cut off at
/// whole pages or ticks. Values that agree have an interval then.
pub fn student_interval_at_least(values: &[f64], level: f64, least: f64) -> Option<(f64, f64)> {
    if values.len() < 2 || !(level > 0.0 && level < 1.0) || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let count = values.len() as f64;
    let reach = student_quantile(count - 1.0, (1.0 + level) / 2.0)?;
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    let agree = high - low <= ROUNDING * low.abs().max(high.abs());
    let found = if agree { 0.0 } else { variance(values)?.sqrt() };
    let half = reach * found.max(least) / count.sqrt();
    let middle = mean(values);
    (half > 0.0).then_some((middle - half, middle + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_tables_of_t() {
        // t with 2 degrees of freedom at 97.5% is 4.302653, with 4 it is 2.776445.
        let (low, high) = student_interval(&[1.0, 2.0, 3.0], 0.95).unwrap();
        let half = 4.302_653 / 3f64.sqrt();
        assert!((low - (2.0 - half)).abs() < 1e-5 && (high - (2.0 + half)).abs() < 1e-5, "{low} {high}");
        let (low, high) = student_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).unwrap();
        let half = 2.776_445 * (2.5f64 / 5.0).sqrt();
        assert!((low - (3.0 - half)).abs() < 1e-5 && (high - (3.0 + half)).abs() < 1e-5, "{low} {high}");
        assert_eq!(student_interval(&[1.0], 0.95), None);
        assert_eq!(student_interval(&[1.0, f64::NAN], 0.95), None);
    }

    #[test]
    fn values_that_agree_have_no_interval_unless_it_is_known_how_coarse_they_are() {
        // Of ratios that are the same the logarithms differ by rounding.
        let same: Vec<f64> =
            [0.1_f64, 0.3, 0.7].iter().map(|value| (value * 2.0).ln() - value.ln()).collect();
        for values in [vec![0.0; 3], vec![0.1; 3], vec![-2.0; 5], same.clone()] {
            assert_eq!(student_interval(&values, 0.95), None, "{values:?}");
        }
        let (low, high) = student_interval_at_least(&same, 0.95, 0.01).unwrap();
        assert!((high - low - 2.0 * 4.302_653 * 0.01 / 3f64.sqrt()).abs() < 1e-6, "{low} {high}");
        let apart = [1.0, 2.0, 3.0];
        assert_eq!(student_interval_at_least(&apart, 0.95, 0.5), student_interval(&apart, 0.95));
    }
}
