//! The binomial distribution of fair coins.

use statrs::function::beta::beta_reg;

/// The probability of at most `successes` among `trials` fair coins, by the regularised incomplete
/// beta function.
pub(crate) fn at_most(successes: usize, trials: usize) -> f64 {
    if successes >= trials {
        return 1.0;
    }
    beta_reg((trials - successes) as f64, (successes + 1) as f64, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_coins_are_counted_by_hand() {
        assert!((at_most(0, 5) - 1.0 / 32.0).abs() < 1e-14);
        assert!((at_most(2, 5) - 0.5).abs() < 1e-14);
    }
}
