//! How likely a trial is to find a difference, from services as they are.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::ratio::logs;
use crate::small_permutation::SmallPermutation;
use crate::welch::welch_p_value;

/// From this many services per arm on Welch's t stands for the permutation test.
pub(crate) const WELCH_FROM: usize = 10;

/// The power of a planned trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    /// Share of the simulated trials that rejected no difference.
    pub share: f64,
    /// Monte Carlo standard error of the share.
    pub standard_error: f64,
    /// The test that was simulated.
    pub test: PowerTest,
}

/// The test of a simulated trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerTest {
    /// Permutation of the assignment: all assignments with up to 5 services per arm, else 499 drawn.
    Permutation,
    /// Welch's t on logs, from 10 services per arm on.
    Welch,
}

/// The power to find a true `ratio` with `services_per_arm` in each of two arms, in a two-sided test at
/// `alpha`.
///
/// `levels` are positive numbers, one per observed service. Each of the `simulations` draws two arms from
/// them with replacement, multiplies one by `ratio` and tests the difference of mean logs (B. Efron, R. J.
/// Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 25). Below 10 services per arm the test
/// is the permutation test, else Welch's t, which agrees with it there and is faster. Too few services for
/// any rejection (3 per arm have 20 assignments) have power 0. The observed services stand for all there
/// are: with a handful of them the result is rough. `None` below 2 levels, one that is not positive and
/// finite, no services, no simulations or an impossible ratio.
pub fn power_of_ratio(
    levels: &[f64],
    services_per_arm: usize,
    ratio: f64,
    alpha: f64,
    simulations: usize,
    seed: u64,
) -> Option<Power> {
    let test = if services_per_arm < WELCH_FROM { PowerTest::Permutation } else { PowerTest::Welch };
    power_by(test, levels, services_per_arm, ratio, alpha, simulations, seed)
}

fn power_by(
    test: PowerTest,
    levels: &[f64],
    services_per_arm: usize,
    ratio: f64,
    alpha: f64,
    simulations: usize,
    seed: u64,
) -> Option<Power> {
    let logs = logs(levels)?;
    let possible = logs.len() >= 2 && services_per_arm >= 2 && simulations > 0;
    if !possible || ratio <= 0.0 || !ratio.is_finite() {
        return None;
    }
    let shift = ratio.ln();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let permutation = SmallPermutation::of(services_per_arm);
    let mut rejected = 0;
    let (mut control, mut treated) = (vec![0.0; services_per_arm], vec![0.0; services_per_arm]);
    for _ in 0..simulations {
        control.fill_with(|| logs[random.random_range(0..logs.len())]);
        treated.fill_with(|| logs[random.random_range(0..logs.len())] + shift);
        let p_value = match test {
            PowerTest::Permutation => permutation.p_value(&control, &treated, &mut random),
            PowerTest::Welch => welch_p_value(&control, &treated),
        };
        rejected += u32::from(p_value <= alpha);
    }
    let share = f64::from(rejected) / simulations as f64;
    Some(Power { share, standard_error: (share * (1.0 - share) / simulations as f64).sqrt(), test })
}

/// The smallest number of services per arm, from 2 to `at_most`, whose power ([`power_of_ratio`]) is at
/// least `wanted` (0.8): by doubling, then bisection.
///
/// Power rises with the number but for the Monte Carlo error, so the answer may be off by a service or
/// two. `None` if `at_most` is not enough or the power cannot be found.
pub fn services_needed(
    levels: &[f64],
    ratio: f64,
    alpha: f64,
    wanted: f64,
    at_most: usize,
    simulations: usize,
    seed: u64,
) -> Option<usize> {
    let enough = |services: usize| {
        Some(power_of_ratio(levels, services, ratio, alpha, simulations, seed)?.share >= wanted)
    };
    let (mut short, mut long) = (1, 2);
    while !enough(long)? {
        if long >= at_most {
            return None;
        }
        (short, long) = (long, (2 * long).min(at_most));
    }
    while long - short > 1 {
        let middle = short.midpoint(long);
        if enough(middle)? {
            long = middle;
        } else {
            short = middle;
        }
    }
    (long <= at_most).then_some(long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inverse::normal_quantile;

    const SIMULATIONS: usize = if cfg!(debug_assertions) { 400 } else { 4_000 };

    /// 40 quantiles of a lognormal distribution with SD 0.1 of logs.
    fn levels() -> Vec<f64> {
        let quantile = |i: i32| normal_quantile((f64::from(i) + 0.5) / 40.0).unwrap();
        (0..40).map(|i| (22.0 + 0.1 * quantile(i)).exp()).collect()
    }

    #[test]
    fn welch_and_the_permutation_test_agree_from_ten_services_on() {
        for (services, ratio) in [(10, 1.0), (10, 1.1), (12, 1.1), (16, 1.08)] {
            let by = |test| power_by(test, &levels(), services, ratio, 0.05, SIMULATIONS, 5).unwrap();
            let (welch, permutation) = (by(PowerTest::Welch), by(PowerTest::Permutation));
            println!("{services} services, ratio {ratio}: {welch:?} {permutation:?}");
            let error = welch.standard_error.hypot(permutation.standard_error);
            assert!((welch.share - permutation.share).abs() < 4.0 * error, "{welch:?} {permutation:?}");
        }
    }

    #[test]
    fn without_a_difference_the_power_is_alpha_or_less() {
        for services in [4, 5, 7, 20] {
            let power = power_of_ratio(&levels(), services, 1.0, 0.05, SIMULATIONS, 1).unwrap();
            println!("{services} services: {power:?}");
            assert!(power.share < 0.05 + 4.0 * (0.05 * 0.95 / SIMULATIONS as f64).sqrt(), "{power:?}");
        }
        assert_eq!(power_of_ratio(&levels(), 3, 9.0, 0.05, 50, 1).unwrap().share, 0.0);
    }

    /// At SD 0.1 of logs, 20 services per arm find 1.09 with 80% power (normal theory: 79%).
    #[test]
    fn power_is_that_of_normal_theory() {
        let power = power_of_ratio(&levels(), 20, 1.09, 0.05, SIMULATIONS, 2).unwrap();
        assert!((0.70..0.88).contains(&power.share), "{power:?}");
        let needed = services_needed(&levels(), 1.09, 0.05, 0.8, 500, SIMULATIONS, 2).unwrap();
        assert!((17..26).contains(&needed), "{needed}");
        assert_eq!(services_needed(&levels(), 1.001, 0.05, 0.8, 50, 100, 2), None);
        assert_eq!(services_needed(&levels(), 3.0, 0.05, 0.8, 500, 100, 2), Some(4));
    }

    #[test]
    fn power_needs_services_that_can_be_compared() {
        assert_eq!(power_of_ratio(&[1.0], 10, 1.1, 0.05, 10, 1), None);
        assert_eq!(power_of_ratio(&[1.0, 0.0], 10, 1.1, 0.05, 10, 1), None);
        assert_eq!(power_of_ratio(&[1.0, 2.0], 1, 1.1, 0.05, 10, 1), None);
        assert_eq!(power_of_ratio(&[1.0, 2.0], 10, 0.0, 0.05, 10, 1), None);
        assert_eq!(services_needed(&[1.0], 1.1, 0.05, 0.8, 10, 10, 1), None);
    }
}
