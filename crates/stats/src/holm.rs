//! Several tests at once, each adjusted for the others.

/// Adjusted p-values of several tests: rejecting those at most alpha keeps the chance of any false
/// rejection at alpha, whatever the dependence of the tests.
///
/// S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of
/// Statistics 6 (1979): the i-th smallest of m values is multiplied by m - i + 1, kept at least as
/// large as the one before and at most 1. `None` (no test was possible) stays `None` and does not
/// count as a test; nor does a value that is not a number.
pub fn holm(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> = p_values
        .iter()
        .enumerate()
        .filter_map(|(index, p)| p.filter(|p| !p.is_nan()).map(|p| (index, p)))
        .collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut adjusted = vec![None; p_values.len()];
    let mut highest = 0.0_f64;
    for (rank, (index, p)) in order.iter().enumerate() {
        highest = highest.max(p * (order.len() - rank) as f64).min(1.0);
        adjusted[*index] = Some(highest);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_were_not_made_do_not_count() {
        assert_eq!(holm(&[]), vec![]);
        assert_eq!(holm(&[None, Some(0.02), None]), vec![None, Some(0.02), None]);
        assert_eq!(holm(&[Some(0.04), Some(0.01), Some(0.9)]), vec![Some(0.08), Some(0.03), Some(0.9)]);
        assert_eq!(holm(&[Some(f64::NAN), Some(0.5)]), vec![None, Some(0.5)]);
    }
}
