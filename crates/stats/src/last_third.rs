//! How growth goes on in the end.

use crate::theil_sen_slope;

/// Fewer points in a third of the time make no slope.
const FEWEST_POINTS: usize = 3;

/// Growth in the last third of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LastThird {
    /// The rise over that third by its slope.
    pub rise: f64,
    /// Its share of the rise over the third before; `None` where that does not rise.
    pub share: Option<f64>,
}

impl LastThird {
    /// The rise that is still to come if each third of the time goes on adding the same share of what the one before it
    /// added: the sum of a geometric series. `None` where the share is not below 1.
    pub fn to_come(self) -> Option<f64> {
        let share = self.share?.max(0.0);
        (share < 1.0).then(|| self.rise.max(0.0) * share / (1.0 - share))
    }
}

/// The slopes of Theil and Sen of the last two thirds of the time of `points` (age, memory), sorted by age. Where growth settles
/// and something else goes on, earlier thirds show what has settled. `None` where a third has fewer than 3 points.
pub fn last_third(points: &[(f64, f64)]) -> Option<LastThird> {
    let (first, last) = (points.first()?.0, points.last()?.0);
    let third = (last - first) / 3.0;
    let later = &points[points.partition_point(|point| point.0 < first + third)..];
    let (middle, end) = later.split_at(later.partition_point(|point| point.0 < first + 2.0 * third));
    if middle.len() < FEWEST_POINTS || end.len() < FEWEST_POINTS {
        return None;
    }
    let (before, slope) = (theil_sen_slope(middle)?, theil_sen_slope(end)?);
    Some(LastThird { rise: slope * third, share: (before > 0.0).then(|| slope / before) })
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
        let curve = last_third(&series(60, |t| 2.0 + 3.0 * (1.0 - (-t / 12.0).exp()))).unwrap();
        assert!((curve.share.unwrap() - (-20.0_f64 / 12.0).exp()).abs() < 0.02, "{curve:?}");
        assert!((curve.to_come().unwrap() - 0.022).abs() < 0.01, "{curve:?}");
        let line = last_third(&series(60, |t| 2.0 + 0.1 * t)).unwrap();
        assert!((line.share.unwrap() - 1.0).abs() < 0.02 && (line.rise - 2.0).abs() < 0.05, "{line:?}");
        let faster = last_third(&series(60, |t| (t / 20.0).exp())).unwrap();
        assert_eq!(faster.to_come(), None);
    }

    #[test]
    fn falls_and_too_few_points_say_nothing() {
        assert_eq!(last_third(&series(60, |t| -t)).unwrap().share, None);
        assert_eq!(last_third(&series(7, |t| t)), None);
        assert_eq!(last_third(&[(1.0, 1.0); 10]), None);
    }
}
