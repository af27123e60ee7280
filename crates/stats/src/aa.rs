//! A group against itself: what the test makes of no difference.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::permutation::{Pool, Scale};
use crate::quantile;
use crate::ratio::logs;

/// Fewer services have too few halvings for a share of 5% of them.
const FEWEST: usize = 8;
/// Assignments that a half is compared with, fewer the more services there are to draw.
const REFERENCE: (usize, usize) = (1_999, 19_999);

/// What random halvings of one group show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AaCheck {
    /// Share of the halvings that the permutation test rejects at 5%. At most 5% but for chance, whatever
    /// the values: it checks the procedure, not the group.
    pub rejected: f64,
    /// Monte Carlo standard error of `rejected`.
    pub standard_error: f64,
    /// Halvings that were drawn at random.
    pub halvings: usize,
    /// The ratio of geometric means, as a ratio of 1 or more, that 95% of the halvings stay below: a
    /// smaller one between two arms of half the size is noise.
    pub noise_floor: f64,
}

/// Halves one group's `values` (positive, one per service) `halvings` times at random and compares the
/// halves as a trial would.
///
/// An A/A test (R. Kohavi, D. Tang, Y. Xu, "Trustworthy Online Controlled Experiments" (2020), chapter
/// 19). Each half is compared by the permutation test of the difference of mean logs with 19,999 other
/// halvings (fewer for large groups, 1,999 from 2,001 values on), the same for all. `None`
/// below 8 values, without halvings, or for a value that is not positive and finite.
pub fn aa_check(values: &[f64], halvings: usize, seed: u64) -> Option<AaCheck> {
    let logs = logs(values)?;
    if logs.len() < FEWEST || halvings == 0 {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let half = logs.len() / 2;
    let mut pool = Pool::of(&(logs[half..].to_vec(), logs[..half].to_vec()), 1.0, Scale::Plain);
    let assignments = (4_000_000 / logs.len()).clamp(REFERENCE.0, REFERENCE.1);
    let mut reference: Vec<f64> = (0..assignments).map(|_| pool.draw(&mut random).difference).collect();
    reference.sort_unstable_by(f64::total_cmp);
    let p_value = |difference: f64| {
        let below = reference.partition_point(|other| *other <= difference + 1e-12);
        let above = assignments - reference.partition_point(|other| *other < difference - 1e-12);
        (2.0 * (below.min(above) + 1) as f64 / (assignments + 1) as f64).min(1.0)
    };
    let (mut rejected, mut differences) = (0, Vec::with_capacity(halvings));
    for _ in 0..halvings {
        let difference = pool.draw(&mut random).difference;
        rejected += u32::from(p_value(difference) <= 0.05);
        differences.push(difference.abs());
    }
    let share = |count: u32| f64::from(count) / halvings as f64;
    Some(AaCheck {
        rejected: share(rejected),
        standard_error: (share(rejected) * (1.0 - share(rejected)) / halvings as f64).sqrt(),
        halvings,
        noise_floor: quantile(&differences, 0.95)?.exp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::{Distribution, LogNormal};

    const HALVINGS: usize = 1_000;

    #[test]
    fn a_test_of_nothing_rejects_five_percent() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let normal = LogNormal::new(22.0, 0.1).unwrap();
        for n in [8, 20, 81] {
            let values: Vec<f64> = (0..n).map(|_| normal.sample(&mut random)).collect();
            let check = aa_check(&values, HALVINGS, 1).unwrap();
            println!("{n} values: {check:?}");
            // Four Monte Carlo errors of 0.7 points, and room for those of the reference.
            assert!(check.rejected < 0.09, "{check:?}");
        }
    }

    /// Two halves of 20 values with SD s of logs differ with SD 2 s / sqrt(20).
    #[test]
    fn the_noise_floor_is_that_of_normal_theory() {
        let values: Vec<f64> =
            (0..20).map(|i| if i % 2 == 0 { 0.1_f64.exp() } else { (-0.1_f64).exp() }).collect();
        let floor = aa_check(&values, 4_000, 1).unwrap().noise_floor.ln();
        let expected = 1.96 * 2.0 * 0.1 / 20.0_f64.sqrt();
        // Steps of 0.02 between possible differences.
        assert!((floor - expected).abs() < 0.021, "{floor} {expected}");
    }

    #[test]
    fn few_or_impossible_values_are_not_halved() {
        assert_eq!(aa_check(&[1.0; 7], 10, 1), None);
        assert_eq!(aa_check(&[0.0; 8], 10, 1), None);
        assert_eq!(aa_check(&[1.0; 8], 0, 1), None);
        let equal = aa_check(&[1.0; 8], 10, 1).unwrap();
        assert_eq!((equal.rejected, equal.noise_floor), (0.0, 1.0));
    }
}
