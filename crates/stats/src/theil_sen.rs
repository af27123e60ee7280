//! Robust slopes by medians of pairs.

use crate::quantile::median_of;

/// The median of the slopes between all pairs of `points` (x, y), in units of y per unit of x: the Theil-Sen slope.
///
/// P. K. Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", Journal of the
/// American Statistical Association 63 (1968). His interval assumes independent points; successive
/// samples of one process are not, so intervals over services must come from the spread between
/// services. Needs n^2/2 slopes: thin long series first. `None` with fewer than two distinct x, or a slope
/// that is not a number.
pub fn theil_sen_slope(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (index, (x, y)) in points.iter().enumerate() {
        let later = &points[index + 1..];
        slopes.extend(later.iter().filter(|point| point.0 != *x).map(|point| (point.1 - y) / (point.0 - x)));
    }
    median_of(&mut slopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_do_not_bend_the_line() {
        let mut points: Vec<(f64, f64)> = (0..30).map(|i| (f64::from(i), 3.0 + 2.0 * f64::from(i))).collect();
        points[5].1 = 1e6;
        points[20].1 = -1e6;
        assert!((theil_sen_slope(&points).unwrap() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn one_moment_has_no_slope() {
        assert_eq!(theil_sen_slope(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(theil_sen_slope(&[]), None);
    }
}
