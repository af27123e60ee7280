//! Exact statements on counts of services: signs, two groups, shares.

use statrs::function::beta::beta_reg;
use statrs::function::gamma::ln_gamma;

use crate::inverse::beta_quantile;

/// The probability of at most `successes` among `trials` fair coins, by the regularised incomplete beta function.
pub(crate) fn at_most(successes: usize, trials: usize) -> f64 {
    if successes >= trials {
        return 1.0;
    }
    beta_reg((trials - successes) as f64, (successes + 1) as f64, 0.5)
}

/// Two-sided p-value of the exact sign test: as many pluses and minuses or more unequal ones, if both
/// are equally likely (W. J. Conover, "Practical Nonparametric Statistics", 3rd edition (1999),
/// section 3.4). 1 without any.
pub(crate) fn sign_test(plus: usize, minus: usize) -> f64 {
    (2.0 * at_most(plus.min(minus), plus + minus)).min(1.0)
}

/// One-sided p-value of Fisher's exact test: how likely a random assignment of `a.1` and `b.1` services, of which
/// `a.0 + b.0` in all have a property, puts `a.0` or fewer of them into the first group.
///
/// R. A. Fisher, "The Logic of Inductive Inference", Journal of the Royal Statistical Society 98 (1935). 1
/// where a group is empty.
pub fn fisher_fewer(a: (usize, usize), b: (usize, usize)) -> f64 {
    let ((few, of), (other_few, other_of)) = (a, b);
    let with = few.min(of) + other_few.min(other_of);
    if of == 0 || other_of == 0 {
        return 1.0;
    }
    let all = log_choose(of + other_of, with);
    let least = with.saturating_sub(other_of);
    let probability = |count: usize| (log_choose(of, count) + log_choose(other_of, with - count) - all).exp();
    (least..=few.min(of)).map(probability).sum::<f64>().min(1.0)
}

fn log_choose(n: usize, k: usize) -> f64 {
    ln_gamma((n + 1) as f64) - ln_gamma((k + 1) as f64) - ln_gamma((n - k + 1) as f64)
}

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
    fn few_coins_are_counted_by_hand() {
        assert!((at_most(0, 5) - 1.0 / 32.0).abs() < 1e-14);
        assert!((at_most(2, 5) - 0.5).abs() < 1e-14);
        assert!((sign_test(6, 0) - 2.0 / 64.0).abs() < 1e-14);
        assert_eq!((sign_test(0, 0), sign_test(3, 3)), (1.0, 1.0));
    }

    #[test]
    fn small_tables_are_counted_by_hand() {
        assert!((fisher_fewer((0, 6), (5, 6)) - 6.0 / 792.0).abs() < 1e-12);
        assert!((fisher_fewer((0, 2), (2, 2)) - 1.0 / 6.0).abs() < 1e-12);
        assert_eq!(fisher_fewer((0, 0), (5, 6)), 1.0);
        assert!((fisher_fewer((6, 6), (0, 6)) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn no_services_and_all_of_them_are_at_the_ends() {
        assert_eq!(share_interval(0, 0, 0.95), (0.0, 1.0));
        let (low, high) = share_interval(8, 8, 0.95);
        assert!((low - 0.025_f64.powf(1.0 / 8.0)).abs() < 1e-9 && high == 1.0);
    }
}
