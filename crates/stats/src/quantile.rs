//! Quantiles and medians by linear interpolation.

/// The `q`-quantile of `values` by linear interpolation between order statistics: type 7 of Hyndman
/// and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50 (1996), the
/// default of NumPy and R.
///
/// `None` for no values, a value that is not a number, or `q` outside 0..=1.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    if values.is_empty() || !(0.0..=1.0).contains(&q) || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    Some(select(&mut values.to_vec(), q))
}

/// The median of `values`, which are put into another order; `None` where [`quantile`] gives none.
pub(crate) fn median_of(values: &mut [f64]) -> Option<f64> {
    (!values.is_empty() && !values.iter().any(|value| value.is_nan())).then(|| select(values, 0.5))
}

fn select(values: &mut [f64], q: f64) -> f64 {
    let position = q * (values.len() - 1) as f64;
    let below = position.floor() as usize;
    // Selection instead of sorting: Theil-Sen asks for the median of n^2 slopes.
    let (_, low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let low = *low;
    let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    let part = position - below as f64;
    // Equal neighbours, also infinite ones, need no interpolation.
    if part == 0.0 || low == high { low } else { low + (high - low) * part }
}

/// The median of `values`; `None` where [`quantile`] gives none.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_values_have_no_quantile() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
        assert_eq!(quantile(&[1.0], 1.5), None);
    }
}
