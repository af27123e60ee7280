//! Shares of services.

use crate::inverse::beta_quantile;

/// The exact interval of a share of which `count` of `of` services are seen, at confidence `level` (0.95).
///
/// C. J. Clopper, E. S. Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial",
/// Biometrika 26 (1934): it never holds the truth less often than its level. 0 to 1 of no services.
pub fn share_interval(count: usize, of: usize, level: f64) -> (f64, f64) {
    let count = count.min(of);
    let alpha = (1.0 - level) / 2.0;
    let quantile = |a: usize, b: usize, q: f64| beta_quantile(a as f64, b as f64, q);
    let low = if count == 0 { Some(0.0) } else { quantile(count, of - count + 1, alpha) };
    let high = if count == of { Some(1.0) } else { quantile(count + 1, of - count, 1.0 - alpha) };
    (low.unwrap_or(0.0), high.unwrap_or(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_services_and_all_of_them_are_at_the_ends() {
        assert_eq!(share_interval(0, 0, 0.95), (0.0, 1.0));
        let (low, high) = share_interval(8, 8, 0.95);
        assert!((low - 0.025_f64.powf(1.0 / 8.0)).abs() < 1e-9 && high == 1.0);
    }
}
