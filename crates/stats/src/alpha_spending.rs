//! Several looks at a running trial, each with its share of the error that is allowed in all.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::inverse::normal_quantile;

/// The error that is accepted: of all looks of a trial together over all its arms, and of each test that a finding rests on.
pub const ALPHA: f64 = 0.05;

/// The two-sided error spent by the time that `fraction` of the information is in, of `alpha` in all.
///
/// The spending function of K. K. G. Lan and D. L. DeMets, "Discrete Sequential Boundaries for Clinical Trials",
/// Biometrika 70 (1983), section 3, which is like the boundaries of P. C. O'Brien and T. R. Fleming, "A Multiple
/// Testing Procedure for Clinical Trials", Biometrics 35 (1979): `2 - 2 Φ(z / √fraction)` with `z` the upper
/// `alpha / 2` quantile of the normal distribution. Next to nothing early, `alpha` at the end. Fractions below 0 count
/// as 0, above 1 as 1; `None` where `alpha` is not between 0 and 1 or `fraction` is not a number.
pub fn spent(fraction: f64, alpha: f64) -> Option<f64> {
    if !(alpha > 0.0 && alpha < 1.0) || fraction.is_nan() {
        return None;
    }
    if fraction <= 0.0 {
        return Some(0.0);
    }
    let normal = Normal::standard();
    let quantile = -normal_quantile(alpha / 2.0)?;
    Some(2.0 * normal.cdf(-quantile / fraction.min(1.0).sqrt()))
}

/// The error of each look: what is spent from one to the next. `fractions` ascend.
///
/// The looks' errors add up to what is spent at the last one, so that the chance of any false rejection is at most
/// that whatever the dependence of the looks (the union bound). The boundaries of a group-sequential design are wider
/// by what their looks have in common, but they need its joint distribution to be known; that of permutation tests
/// over blocks is not. `None` where a fraction is not in (0, 1] or they do not ascend.
pub fn look_alphas(fractions: &[f64], alpha: f64) -> Option<Vec<f64>> {
    let mut before = (0.0, 0.0);
    fractions
        .iter()
        .map(|fraction| {
            if !(*fraction > before.0 && *fraction <= 1.0) {
                return None;
            }
            let now = spent(*fraction, alpha)?;
            let own = now - before.1;
            before = (*fraction, now);
            Some(own)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_spent_before_the_start_and_all_of_it_at_the_end() {
        assert_eq!((spent(0.0, 0.05), spent(-1.0, 0.05)), (Some(0.0), Some(0.0)));
        assert!((spent(1.0, 0.05).unwrap() - 0.05).abs() < 1e-10);
        assert_eq!(spent(2.0, 0.05), spent(1.0, 0.05));
        assert_eq!(look_alphas(&[], 0.05), Some(vec![]));
    }

    #[test]
    fn what_is_no_sequence_of_looks_is_refused() {
        for fractions in [&[0.5, 0.5][..], &[0.8, 0.4], &[0.0, 1.0], &[0.5, 1.1], &[f64::NAN]] {
            assert_eq!(look_alphas(fractions, 0.05), None, "{fractions:?}");
        }
        for alpha in [0.0, 1.0, f64::NAN] {
            assert_eq!(spent(0.5, alpha), None);
        }
    }

    proptest! {
        #[test]
        fn looks_spend_what_there_is_and_never_more(
            mut fractions in prop::collection::vec(0.001f64..1.0, 1..8), alpha in 0.001f64..0.5
        ) {
            fractions.sort_by(f64::total_cmp);
            fractions.dedup();
            fractions.push(1.0);
            let alphas = look_alphas(&fractions, alpha).unwrap();
            prop_assert!(alphas.iter().all(|own| *own >= 0.0));
            prop_assert!((alphas.iter().sum::<f64>() - alpha).abs() < 1e-10);
        }
    }
}
