//! How far two courses of memory are apart.

use crate::last_part::FEWEST_POINTS;

/// Mean absolute difference of two series of (age, log memory), sorted by age, over the ages that both
/// cover: at each reading of `first`, against `second` interpolated linearly.
///
/// The L1 distance of functional data (J. O. Ramsay, B. W. Silverman, "Functional Data Analysis", 2nd
/// edition (2005)), each reading of `first` with equal weight. On logs, 0.1 means 10% apart
/// on average. `second` is interpolated only between neighbours at most `longest_gap` apart (in the unit of
/// age); readings of `first` beside that are left out. Not symmetric. `None` with fewer than 3 common
/// readings, ages out of order or a number that is not finite.
pub fn trajectory_distance(first: &[(f64, f64)], second: &[(f64, f64)], longest_gap: f64) -> Option<f64> {
    if ![first, second].iter().all(|series| is_series(series)) {
        return None;
    }
    let differences: Vec<f64> = first
        .iter()
        .filter_map(|(age, value)| Some((value - value_at(second, *age, longest_gap)?).abs()))
        .collect();
    (differences.len() >= FEWEST_POINTS).then(|| differences.iter().sum::<f64>() / differences.len() as f64)
}

fn is_series(points: &[(f64, f64)]) -> bool {
    points.iter().all(|(age, value)| age.is_finite() && value.is_finite())
        && points.windows(2).all(|pair| pair[0].0 <= pair[1].0)
}

fn value_at(series: &[(f64, f64)], age: f64, longest_gap: f64) -> Option<f64> {
    let next = series.partition_point(|point| point.0 < age);
    let (right_age, right) = *series.get(next)?;
    if right_age == age {
        return Some(right);
    }
    let (left_age, left) = *series.get(next.checked_sub(1)?)?;
    let gap = right_age - left_age;
    (gap <= longest_gap).then(|| left + (right - left) * (age - left_age) / gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ages: impl IntoIterator<Item = u32>, level: f64) -> Vec<(f64, f64)> {
        ages.into_iter().map(|age| (f64::from(age), level + 0.1 * f64::from(age))).collect()
    }

    #[test]
    fn parallel_lines_are_as_far_apart_as_their_levels() {
        let (a, b) = (line(0..20, 1.0), line((0..20).step_by(3), 1.5));
        assert!((trajectory_distance(&a, &b, 3.0).unwrap() - 0.5).abs() < 1e-12);
        // In steps of 3 nothing lies between neighbours closer than 2: only readings of equal age count.
        assert!((trajectory_distance(&a, &b, 2.0).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(trajectory_distance(&line([1, 2, 4, 5], 1.0), &b, 2.0), None);
    }

    #[test]
    fn series_without_a_common_range_have_no_distance() {
        assert_eq!(trajectory_distance(&line(0..10, 1.0), &line(8..20, 1.0), 5.0), None);
        assert_eq!(trajectory_distance(&[], &line(0..20, 1.0), 5.0), None);
        let reversed: Vec<_> = line(0..10, 1.0).into_iter().rev().collect();
        assert_eq!(trajectory_distance(&reversed, &line(0..10, 1.0), 5.0), None);
    }
}
