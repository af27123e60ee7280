//! The binomial distribution of fair coins, and the exact sign test.

use statrs::function::beta::beta_reg;

/// The probability of at most `successes` among `trials` fair coins, by the regularised incomplete
/// beta function.
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
}
