//! How growth goes on in the end.

use crate::theil_sen_slope;

/// Fewer points in a part of the time make no slope, and fewer that two trajectories share no distance.
pub(crate) const FEWEST_POINTS: usize = 3;

/// Growth in the last of several equal parts of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LastPart {
    /// The rise over that part by its slope.
    pub rise: f64,
    /// Its share of the rise over the part before; `None` where that does not rise.
    pub share: Option<f64>,
}

impl LastPart {
    /// The rise that is still to come if each part of the time goes on adding the same share of what the one before it
    /// added: the sum of a geometric series. `None` where the share is not below 1.
    pub fn to_come(self) -> Option<f64> {
        let share = self.share?.max(0.0);
        (share < 1.0).then(|| self.rise.max(0.0) * share / (1.0 - share))
    }
}

/// The slopes of Theil and Sen of the last two of `parts` equal parts of the time of `points` (age, memory), sorted by age.
/// `None` where one of them has fewer than 3 points.
pub fn last_part(points: &[(f64, f64)], parts: u32) -> Option<LastPart> {
    let (first, last) = (points.first()?.0, points.last()?.0);
    let length = (last - first) / f64::from(parts);
    let from = |age: f64| points.partition_point(|point| point.0 < age);
    let (middle, late) = (from(last - 2.0 * length), from(last - length));
    let (before, end) = (&points[middle..late], &points[late..]);
    if before.len() < FEWEST_POINTS || end.len() < FEWEST_POINTS {
        return None;
    }
    let (before, slope) = (theil_sen_slope(before)?, theil_sen_slope(end)?);
    Some(LastPart { rise: slope * length, share: (before > 0.0).then(|| slope / before) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(n: usize, value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..n).map(|i| i as f64).map(|t| (t, value(t) + 0.01 * (t * 12.9898).sin())).collect()
    }

    #[test]
    fn a_curve_has_an_end_and_a_line_has_none() {
        // Each third of 20 adds exp(-20 / 12) of the one before, and 3 exp(-59 / 12) are left.
        let curve = last_part(&series(60, |t| 2.0 + 3.0 * (1.0 - (-t / 12.0).exp())), 3).unwrap();
        assert!((curve.share.unwrap() - (-20.0_f64 / 12.0).exp()).abs() < 0.02, "{curve:?}");
        assert!((curve.to_come().unwrap() - 0.022).abs() < 0.01, "{curve:?}");
        let line = last_part(&series(60, |t| 2.0 + 0.1 * t), 3).unwrap();
        assert!((line.share.unwrap() - 1.0).abs() < 0.02 && (line.rise - 2.0).abs() < 0.05, "{line:?}");
        let faster = last_part(&series(60, |t| (t / 20.0).exp()), 3).unwrap();
        assert_eq!(faster.to_come(), None);
    }

    #[test]
    fn falls_and_too_few_points_say_nothing() {
        assert_eq!(last_part(&series(60, |t| -t), 3).unwrap().share, None);
        assert_eq!(last_part(&series(7, |t| t), 3), None);
        assert_eq!(last_part(&[(1.0, 1.0); 10], 3), None);
    }
}
