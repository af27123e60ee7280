//! Memory on average over time.

/// The average over time of `points` (seconds, value), sorted by time: the area by the trapezoid rule
/// within stretches without gaps, over the length of those stretches.
///
/// The trapezoid rule is that of any text on numerical analysis (P. J. Davis, P. Rabinowitz, "Methods of
/// Numerical Integration", 2nd edition (1984), section 2.1). Between two readings further apart than
/// `longest_gap` seconds nothing is known and nothing is counted, neither area nor time. `None` where no
/// time was observed, times are out of order or a number is not finite.
pub fn time_average(points: &[(f64, f64)], longest_gap: f64) -> Option<f64> {
    if points.iter().any(|(time, value)| !time.is_finite() || !value.is_finite()) {
        return None;
    }
    let (mut area, mut observed) = (0.0, 0.0);
    for pair in points.windows(2) {
        let length = pair[1].0 - pair[0].0;
        if length < 0.0 {
            return None;
        }
        if length <= longest_gap {
            area += length * (pair[0].1 + pair[1].1) / 2.0;
            observed += length;
        }
    }
    (observed > 0.0).then(|| area / observed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_for_nothing() {
        let points = [(0.0, 2.0), (10.0, 4.0), (1000.0, 100.0), (1010.0, 100.0)];
        assert_eq!(time_average(&points, 10.0), Some(51.5));
        assert_eq!(time_average(&points[..2], 10.0), Some(3.0));
    }

    #[test]
    fn no_observed_time_has_no_average() {
        assert_eq!(time_average(&[], 10.0), None);
        assert_eq!(time_average(&[(5.0, 1.0)], 10.0), None);
        assert_eq!(time_average(&[(0.0, 1.0), (100.0, 1.0)], 10.0), None);
        assert_eq!(time_average(&[(5.0, 1.0), (0.0, 1.0)], 10.0), None);
        assert_eq!(time_average(&[(0.0, 1.0), (1.0, f64::NAN)], 10.0), None);
    }
}
