//! How likely a trial is to find a difference, from services as they are.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::permutation::LogBlock;
use crate::ratio::{IntervalMethod, finds_difference, logs, student_finds_difference};

/// From this many pairs on, which have 2,048 assignments, Student's t of their differences stands for their permutation test, for speed,
const STUDENT_FROM_PAIRS: usize = 11;
/// and Welch's for that of one block from this many services per arm on, which have 3,432.
const WELCH_FROM: usize = 7;
/// Up to this many services per arm each number is looked at in turn: blocks of another size make power jump.
const EACH_UP_TO: usize = 16;

/// The trials that are simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedTrials {
    /// The true ratio of the arms.
    pub ratio: f64,
    /// Level of the two-sided test.
    pub alpha: f64,
    /// How many trials are simulated.
    pub simulations: usize,
    /// The seed of everything random.
    pub seed: u64,
}

/// The power of a planned trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    /// Share of the simulated trials that rejected no difference.
    pub share: f64,
    /// Monte Carlo standard error of the share.
    pub standard_error: f64,
    /// The test that such a trial applies.
    pub method: IntervalMethod,
}

/// The power to find a true ratio with `services_per_arm` in each of two arms that were drawn in blocks of `rounds` services
/// of each arm; the last block has what is left.
///
/// `levels` are positive numbers, one per observed service. Each simulated trial draws two arms from them with replacement,
/// multiplies one by the ratio and tests the difference of mean logs (B. Efron, R. J. Tibshirani, "An Introduction to the
/// Bootstrap" (1993), chapter 25) as [`ratio_to_control`](crate::ratio_to_control) does: by permutation within blocks, and by Student's t
/// where there are too few assignments to reject anything. Of 11 and more pairs Student's t of their differences stands for the permutation
/// test, and Welch's for that of one block of 7 and more services per arm: they agree there and are faster. Services of a block are as far apart as any others, so that blocks bring nothing here but
/// their number of assignments. The observed services stand for all there are: with a handful of them the result is rough.
/// `None` below 2 levels, one that is not positive and finite, fewer than 2 services, no rounds, no simulations or an impossible ratio.
pub fn power_of_ratio(
    levels: &[f64],
    services_per_arm: usize,
    rounds: usize,
    trials: &SimulatedTrials,
) -> Option<Power> {
    let student = match rounds {
        1 => services_per_arm >= STUDENT_FROM_PAIRS,
        rounds => rounds >= services_per_arm && services_per_arm >= WELCH_FROM,
    };
    power_by(student, levels, services_per_arm, rounds, trials)
}

fn power_by(
    student: bool,
    levels: &[f64],
    services_per_arm: usize,
    rounds: usize,
    trials: &SimulatedTrials,
) -> Option<Power> {
    let SimulatedTrials { ratio, alpha, simulations, seed } = *trials;
    let logs = logs(levels)?;
    let possible = logs.len() >= 2 && services_per_arm >= 2 && rounds >= 1 && simulations > 0;
    if !possible || ratio <= 0.0 || !ratio.is_finite() {
        return None;
    }
    let shift = ratio.ln();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut blocks: Vec<LogBlock> = (0..services_per_arm)
        .step_by(rounds)
        .map(|first| rounds.min(services_per_arm - first))
        .map(|size| (vec![0.0; size], vec![0.0; size]))
        .collect();
    let (mut rejected, mut method) = (0, IntervalMethod::Permutation);
    for _ in 0..simulations {
        for (control, treated) in &mut blocks {
            control.fill_with(|| logs[random.random_range(0..logs.len())]);
            treated.fill_with(|| logs[random.random_range(0..logs.len())] + shift);
        }
        let found = if student {
            // Of pairs that differ all alike nothing shows the error, and any difference is one.
            student_finds_difference(&blocks, alpha).unwrap_or(shift != 0.0)
        } else {
            let (found, by) = finds_difference(&blocks, alpha, seed);
            method = by;
            found
        };
        rejected += u32::from(found);
    }
    let share = f64::from(rejected) / simulations as f64;
    Some(Power { share, standard_error: (share * (1.0 - share) / simulations as f64).sqrt(), method })
}

/// The smallest number of services per arm, from 2 to `at_most`, whose power ([`power_of_ratio`]) is at least `wanted` (0.8), with
/// blocks of `rounds(services per arm)`: one number after the other up to 16, then by doubling and bisection.
///
/// Power rises with the number but for the Monte Carlo error, so a larger answer may be off by a service or
/// two. `None` if `at_most` is not enough or the power cannot be found.
pub fn services_needed(
    levels: &[f64],
    rounds: impl Fn(usize) -> usize,
    trials: &SimulatedTrials,
    wanted: f64,
    at_most: usize,
) -> Option<usize> {
    let enough =
        |services: usize| Some(power_of_ratio(levels, services, rounds(services), trials)?.share >= wanted);
    for services in 2..=EACH_UP_TO.min(at_most) {
        if enough(services)? {
            return Some(services);
        }
    }
    let (mut short, mut long) = (EACH_UP_TO, 2 * EACH_UP_TO);
    while long.min(at_most) > short && !enough(long.min(at_most))? {
        (short, long) = (long, 2 * long);
    }
    long = long.min(at_most);
    if long <= short {
        return None;
    }
    while long - short > 1 {
        let middle = short.midpoint(long);
        if enough(middle)? {
            long = middle;
        } else {
            short = middle;
        }
    }
    Some(long)
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

    fn trials(ratio: f64, alpha: f64, seed: u64) -> SimulatedTrials {
        SimulatedTrials { ratio, alpha, simulations: SIMULATIONS, seed }
    }

    #[test]
    fn student_and_the_permutation_test_agree() {
        let simulations = if cfg!(debug_assertions) { 100 } else { 4_000 };
        for (services, rounds, ratio, alpha) in [
            (7, 7, 1.0, 0.0336),
            (7, 7, 1.2, 0.0336),
            (7, 7, 1.2, 0.0084),
            (8, 8, 1.2, 0.0084),
            (11, 1, 1.0, 0.0336),
            (11, 1, 1.1, 0.0336),
            (12, 1, 1.15, 0.0084),
        ] {
            let trials = SimulatedTrials { simulations, ..trials(ratio, alpha, 5) };
            let by = |student| power_by(student, &levels(), services, rounds, &trials).unwrap();
            let (student, permutation) = (by(true), by(false));
            println!("{services} by {rounds}, ratio {ratio} at {alpha}: {student:?} {permutation:?}");
            let error = student.standard_error.hypot(permutation.standard_error);
            assert!((student.share - permutation.share).abs() < 4.0 * error, "{student:?} {permutation:?}");
        }
    }

    #[test]
    fn without_a_difference_the_power_is_alpha_or_less() {
        for (services, rounds) in [(3, 3), (4, 4), (5, 5), (7, 2), (8, 1), (20, 1)] {
            let power = power_of_ratio(&levels(), services, rounds, &trials(1.0, 0.05, 1)).unwrap();
            println!("{services} services by {rounds}: {power:?}");
            assert!(power.share < 0.05 + 4.0 * (0.05 * 0.95 / SIMULATIONS as f64).sqrt(), "{power:?}");
        }
    }

    /// Six pairs have 64 assignments, of which only the most extreme two can reject at 5%, and none at 3%: then Student's t does. In
    /// one block there are 924.
    #[test]
    fn power_is_that_of_the_blocks_that_are_drawn() {
        let power = |rounds, alpha| power_of_ratio(&levels(), 6, rounds, &trials(1.2, alpha, 3)).unwrap();
        let (pairs, whole) = (power(1, 0.05), power(6, 0.05));
        println!("{pairs:?} {whole:?}");
        assert!(pairs.share + 0.15 < whole.share);
        assert!((0.40..0.68).contains(&pairs.share), "{pairs:?}");
        assert_eq!(
            [pairs.method, power(1, 0.03).method, power(6, 0.03).method],
            [IntervalMethod::Permutation, IntervalMethod::StudentT, IntervalMethod::Permutation]
        );
        assert!(power(6, 0.0168).share + 0.1 < whole.share);
    }

    /// At SD 0.1 of logs, 20 services per arm find 1.09 with 80% power (normal theory: 79%, of pairs 78%).
    #[test]
    fn power_is_that_of_normal_theory() {
        let power = power_of_ratio(&levels(), 20, 1, &trials(1.09, 0.05, 2)).unwrap();
        assert!((0.68..0.87).contains(&power.share), "{power:?}");
        let needed =
            |ratio, at_most| services_needed(&levels(), |_| 1, &trials(ratio, 0.05, 2), 0.8, at_most);
        assert!((17..27).contains(&needed(1.09, 500).unwrap()), "{:?}", needed(1.09, 500));
        assert_eq!(needed(1.001, 50), None);
        assert_eq!(needed(1.001, 10), None);
    }

    #[test]
    fn power_needs_services_that_can_be_compared() {
        let power = |levels: &[f64], services, rounds, ratio| {
            power_of_ratio(
                levels,
                services,
                rounds,
                &SimulatedTrials { simulations: 10, ..trials(ratio, 0.05, 1) },
            )
        };
        assert_eq!(power(&[1.0], 10, 1, 1.1), None);
        assert_eq!(power(&[1.0, 0.0], 10, 1, 1.1), None);
        assert_eq!(power(&[1.0, 2.0], 1, 1, 1.1), None);
        assert_eq!(power(&[1.0, 2.0], 4, 0, 1.1), None);
        assert_eq!(power(&[1.0, 2.0], 10, 1, 0.0), None);
        assert_eq!(services_needed(&[1.0], |_| 1, &trials(1.1, 0.05, 1), 0.8, 10), None);
    }
}
