//! Robust slopes.

use crate::inverse::normal_quantile;
use crate::quantile::median_of;
use crate::{median, quantile};

/// A line through points by medians.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TheilSen {
    /// Median of the slopes between all pairs of points, in units of y per unit of x.
    pub slope: f64,
    /// Median of y minus `slope` times the median of x.
    pub intercept: f64,
    /// Lower end of the 95% interval of the slope.
    pub low: f64,
    /// Upper end of the 95% interval of the slope.
    pub high: f64,
}

/// The Theil-Sen line through `points` (x, y) with Sen's 95% interval of the slope.
///
/// P. K. Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", Journal of the
/// American Statistical Association 63 (1968). The interval assumes independent points; successive
/// samples of one process are not, so intervals over services must come from the spread between
/// services. Needs n^2/2 slopes: thin long series first. `None` with fewer than two distinct x.
pub fn theil_sen(points: &[(f64, f64)]) -> Option<TheilSen> {
    let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (index, (x, y)) in points.iter().enumerate() {
        for (other_x, other_y) in &points[index + 1..] {
            if other_x != x {
                slopes.push((other_y - y) / (other_x - x));
            }
        }
    }
    let slope = median(&slopes)?;
    let x: Vec<f64> = points.iter().map(|point| point.0).collect();
    let y: Vec<f64> = points.iter().map(|point| point.1).collect();
    let intercept = median(&y)? - slope * median(&x)?;
    let (low, high) = interval(&mut slopes, &x, &y);
    Some(TheilSen { slope, intercept, low, high })
}

/// The slope of [`theil_sen`] alone, by selection instead of sorting, for callers that need no interval.
///
/// `None` with fewer than two distinct x, or a slope that is not a number.
pub fn theil_sen_slope(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (index, (x, y)) in points.iter().enumerate() {
        let later = &points[index + 1..];
        slopes.extend(later.iter().filter(|point| point.0 != *x).map(|point| (point.1 - y) / (point.0 - x)));
    }
    median_of(&mut slopes)
}

fn interval(slopes: &mut [f64], x: &[f64], y: &[f64]) -> (f64, f64) {
    // Sen (1968), equations 2.5 and 2.6, with the variance of Kendall's S under ties.
    let n = x.len() as f64;
    let spread = |k: f64| k * (k - 1.0) * (2.0 * k + 5.0);
    let ties = |values: &[f64]| tie_groups(values).into_iter().map(|k| spread(k as f64)).sum::<f64>();
    let variance = (spread(n) - ties(x) - ties(y)) / 18.0;
    let Some(z) = normal_quantile(0.975) else { return (f64::NEG_INFINITY, f64::INFINITY) };
    let reach = z * variance.max(0.0).sqrt();
    slopes.sort_unstable_by(f64::total_cmp);
    let count = slopes.len() as f64;
    let upper = (((count + reach) / 2.0).round_ties_even() as usize).min(slopes.len() - 1);
    let lower = (((count - reach) / 2.0).round_ties_even() as isize - 1).max(0) as usize;
    (slopes[lower], slopes[upper])
}

fn tie_groups(values: &[f64]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).filter(|length| *length > 1).collect()
}

/// Thins a series to at most `limit` points: medians of equally long runs of points.
pub fn thin(points: &[(f64, f64)], limit: usize) -> Vec<(f64, f64)> {
    if points.len() <= limit || limit == 0 {
        return points.to_vec();
    }
    let run = points.len().div_ceil(limit);
    points
        .chunks(run)
        .filter_map(|chunk| {
            let x: Vec<f64> = chunk.iter().map(|point| point.0).collect();
            let y: Vec<f64> = chunk.iter().map(|point| point.1).collect();
            Some((quantile(&x, 0.5)?, quantile(&y, 0.5)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn outliers_do_not_bend_the_line() {
        let mut points: Vec<(f64, f64)> = (0..30).map(|i| (f64::from(i), 3.0 + 2.0 * f64::from(i))).collect();
        points[5].1 = 1e6;
        points[20].1 = -1e6;
        let line = theil_sen(&points).unwrap();
        assert!((line.slope - 2.0).abs() < 1e-12);
    }

    #[test]
    fn one_moment_has_no_slope() {
        assert_eq!(theil_sen(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(theil_sen(&[]), None);
        assert_eq!(theil_sen_slope(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(theil_sen_slope(&[]), None);
    }

    proptest! {
        #[test]
        fn a_line_is_found_again(slope in -1e3f64..1e3, intercept in -1e3f64..1e3, n in 3usize..60) {
            let points: Vec<(f64, f64)> = (0..n).map(|i| (i as f64, intercept + slope * i as f64)).collect();
            let line = theil_sen(&points).unwrap();
            prop_assert!((line.slope - slope).abs() < 1e-6);
            prop_assert_eq!(theil_sen_slope(&points), Some(line.slope));
            prop_assert!(line.low <= line.slope + 1e-9 && line.slope <= line.high + 1e-9);
            prop_assert!(thin(&points, 10).len() <= 10);
        }
    }
}
