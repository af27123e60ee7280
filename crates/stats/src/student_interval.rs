//! An interval for a mean of few values.

use crate::inverse::student_quantile;
use crate::moments::{mean, variance};

/// The interval of confidence `level` (0.95) of the mean of `values` by Student's t, which takes them as normal ("Student",
/// "The Probable Error of a Mean", Biometrika 6 (1908)). `None` for fewer than two values, or one that is not finite.
pub fn student_interval(values: &[f64], level: f64) -> Option<(f64, f64)> {
    if values.len() < 2 || !(level > 0.0 && level < 1.0) || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let count = values.len() as f64;
    let reach = student_quantile(count - 1.0, (1.0 + level) / 2.0)?;
    let half = reach * (variance(values)? / count).sqrt();
    let middle = mean(values);
    Some((middle - half, middle + half))
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
}
