//! How much memory an arm needs in proportion to the control.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::inverse::student_quantile;
use crate::moments::{mean, variance};
use crate::permutation::{LogBlock, PermutationDistribution};

/// The services of one block: one positive number per service, such as bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Block {
    /// Services that run the control.
    pub control: Vec<f64>,
    /// Under the arm that is compared.
    pub treated: Vec<f64>,
}

/// A ratio of geometric means with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioEstimate {
    /// Geometric mean of the arm over that of the control.
    pub estimate: f64,
    /// Ends of the interval; `None` where the data cannot bound it.
    pub interval: Option<(f64, f64)>,
    /// How the interval was found.
    pub method: IntervalMethod,
    /// Two-sided p-value of no difference by the same method; `None` where there is no test.
    pub p_value: Option<f64>,
}

/// How an interval was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntervalMethod {
    /// Inversion of the permutation test of the assignment within blocks.
    Permutation,
    /// Student's t on logs: too few services for a permutation interval of this level, so normality
    /// of the logs is assumed.
    StudentT,
    /// No interval: one service per arm.
    None,
}

impl IntervalMethod {
    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permutation => "permutation",
            Self::StudentT => "student_t",
            Self::None => "none",
        }
    }
}

/// The geometric mean; `None` for no values or one that is not positive and finite.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs = logs(values)?;
    (!logs.is_empty()).then(|| mean(&logs).exp())
}

/// The ratio of geometric means, arm over control, with the interval of confidence `level` (0.95).
///
/// The effect is a constant factor within blocks. Where the number of possible assignments allows it
/// the interval is the inversion of the permutation test over the assignments within blocks
/// (P. H. Garthwaite, "Confidence Intervals from Randomization Tests", Biometrics 52 (1996)): all of
/// them if there are at most 20,000, else 19,999 drawn from `seed` and the observed one. The difference of
/// mean logs is studentised, and where that matters Student's t has to reject as well, so that the test holds its level also
/// where arms differ in size and in spread; one block of two equal arms, and blocks of pairs, come out as without. Two blocks of
/// one pair each, say, have 4 assignments, and no test on 4 assignments rejects anything at 5%; then
/// Student's t on the logs is used: on the differences of blocks where there are several, else
/// Welch's for two arms in one block. A block without control or without treated services is left
/// out. `None` where nothing can be compared or a value is not positive.
pub fn ratio_to_control(blocks: &[Block], level: f64, seed: u64) -> Option<RatioEstimate> {
    let logs = comparable(blocks)?;
    let treated: usize = logs.iter().map(|block| block.1.len()).sum();
    if treated == 0 {
        return None;
    }
    let shift: f64 = logs.iter().map(|(c, t)| (mean(t) - mean(c)) * t.len() as f64 / treated as f64).sum();
    let estimate = shift.exp();
    let distribution = PermutationDistribution::of(&logs, seed);
    let (interval, method) = match distribution.interval(level) {
        (Some(low), Some(high)) => (Some((low.exp(), high.exp())), IntervalMethod::Permutation),
        _ => match student_interval(&logs, level) {
            Some((low, high)) => (Some((low.exp(), high.exp())), IntervalMethod::StudentT),
            None => (None, IntervalMethod::None),
        },
    };
    let p_value = match method {
        IntervalMethod::Permutation => Some(distribution.p_value()),
        IntervalMethod::StudentT => student(&logs).and_then(student_test),
        IntervalMethod::None => None,
    };
    Some(RatioEstimate { estimate, interval, method, p_value })
}

/// Two-sided p-value of Student's t, as its interval in [`ratio_to_control`]: for comparisons with too few services for
/// a permutation test at the level that is asked for. It assumes that logs are normally distributed. `None` where
/// there is no such interval.
pub fn student_p_value(blocks: &[Block]) -> Option<f64> {
    student_test(student(&comparable(blocks)?)?)
}

/// Logs of the blocks that have services of both arms.
fn comparable(blocks: &[Block]) -> Option<Vec<LogBlock>> {
    let both = blocks.iter().filter(|block| !block.control.is_empty() && !block.treated.is_empty());
    both.map(|block| Some((logs(&block.control)?, logs(&block.treated)?))).collect()
}

/// Whether a two-sided test at `alpha` by the method of [`ratio_to_control`] finds a difference, and which method that is.
/// An interval that is found is not looked for, which makes it fast enough to be simulated.
pub(crate) fn finds_difference(blocks: &[LogBlock], alpha: f64, seed: u64) -> (bool, IntervalMethod) {
    let distribution = PermutationDistribution::of(blocks, seed);
    if distribution.can_reject(alpha) {
        return (distribution.p_value() <= alpha, IntervalMethod::Permutation);
    }
    match student_finds_difference(blocks, alpha) {
        Some(found) => (found, IntervalMethod::StudentT),
        None => (false, IntervalMethod::None),
    }
}

/// The same by Student's t; `None` where that has no error to go by.
pub(crate) fn student_finds_difference(blocks: &[LogBlock], alpha: f64) -> Option<bool> {
    Some(student_test(student(blocks)?)? <= alpha)
}

fn student_interval(blocks: &[LogBlock], level: f64) -> Option<(f64, f64)> {
    let (shift, error, freedom) = student(blocks)?;
    let reach = student_quantile(freedom, (1.0 + level) / 2.0)? * error;
    Some((shift - reach, shift + reach))
}

fn student_test((shift, error, freedom): (f64, f64, f64)) -> Option<f64> {
    Some(2.0 * StudentsT::new(0.0, 1.0, freedom).ok()?.cdf(-(shift / error).abs()))
}

/// Shift, its standard error and degrees of freedom.
fn student(blocks: &[LogBlock]) -> Option<(f64, f64, f64)> {
    let (shift, error, freedom) = if let [(control, treated)] = blocks {
        let (error, freedom) = welch_error(control, treated)?;
        (mean(treated) - mean(control), error, freedom)
    } else {
        // Weighted as the estimate is; with equal weights this is the variance of a mean.
        let treated: usize = blocks.iter().map(|block| block.1.len()).sum();
        let weighted = blocks.iter().map(|(c, t)| (t.len() as f64 / treated as f64, mean(t) - mean(c)));
        let weighted: Vec<(f64, f64)> = weighted.collect();
        let shift: f64 = weighted.iter().map(|(weight, difference)| weight * difference).sum();
        let squares: f64 = weighted.iter().map(|(weight, own)| (weight * (own - shift)).powi(2)).sum();
        let freedom = weighted.len() as f64 - 1.0;
        (shift, (squares * (freedom + 1.0) / freedom).sqrt(), freedom)
    };
    // Services that agree to the byte show nothing about how far others would be apart.
    (error > 0.0).then_some((shift, error, freedom))
}

/// Standard error of the difference of means and its degrees of freedom.
///
/// B. L. Welch, "The Generalization of 'Student's' Problem when Several Different Population Variances are Involved",
/// Biometrika 34 (1947). `None` below two values a side.
fn welch_error(control: &[f64], treated: &[f64]) -> Option<(f64, f64)> {
    let parts = [variance(control)? / control.len() as f64, variance(treated)? / treated.len() as f64];
    let error = parts[0] + parts[1];
    // Welch-Satterthwaite.
    let freedom = error * error
        / (parts[0] * parts[0] / (control.len() - 1) as f64
            + parts[1] * parts[1] / (treated.len() - 1) as f64);
    Some((error.sqrt(), freedom))
}

/// Natural logarithms; `None` for a value that is not positive and finite.
pub(crate) fn logs(values: &[f64]) -> Option<Vec<f64>> {
    values.iter().map(|value| (*value > 0.0 && value.is_finite()).then(|| value.ln())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(ratios: &[(f64, f64)]) -> Vec<Block> {
        ratios.iter().map(|(c, t)| Block { control: vec![*c], treated: vec![*t] }).collect()
    }

    #[test]
    fn one_service_per_arm_has_no_interval() {
        let ratio = ratio_to_control(&pairs(&[(400.0, 100.0)]), 0.95, 1).unwrap();
        assert!((ratio.estimate - 0.25).abs() < 1e-12);
        assert_eq!((ratio.interval, ratio.method), (None, IntervalMethod::None));
        assert_eq!(ratio.p_value, None);
    }

    #[test]
    fn few_repeats_fall_back_to_student_and_many_do_not() {
        let block = |i: u32| (100.0 + f64::from(i * 7 % 5), 50.0 + f64::from(i * 3 % 4));
        for (repeats, method) in
            [(2, IntervalMethod::StudentT), (5, IntervalMethod::StudentT), (6, IntervalMethod::Permutation)]
        {
            let data: Vec<_> = (0..repeats).map(block).collect();
            let ratio = ratio_to_control(&pairs(&data), 0.95, 1).unwrap();
            assert_eq!(ratio.method, method, "{repeats} repeats");
            let (low, high) = ratio.interval.unwrap();
            assert!(low < ratio.estimate && ratio.estimate < high && high < 0.7, "{ratio:?}");
        }
    }

    #[test]
    fn students_interval_over_unequal_blocks_is_about_the_estimate() {
        let block =
            |control: &[f64], treated: &[f64]| Block { control: control.into(), treated: treated.into() };
        let blocks = [
            block(&[100.0], &[99.0]),
            block(&[100.0], &[100.0]),
            block(&[100.0, 100.0], &[50.0, 51.0, 49.0]),
        ];
        for (blocks, level) in [(&blocks[1..], 0.95), (&blocks[..], 0.99)] {
            let ratio = ratio_to_control(blocks, level, 1).unwrap();
            assert_eq!(ratio.method, IntervalMethod::StudentT);
            let (low, high) = ratio.interval.unwrap();
            assert!(((low * high).sqrt() - ratio.estimate).abs() < 1e-9, "{ratio:?}");
        }
    }

    #[test]
    fn blocks_without_both_arms_and_impossible_values_are_left_out_or_refused() {
        let mut blocks = pairs(&[(1.0, 2.0)]);
        blocks.push(Block { control: vec![5.0], treated: vec![] });
        assert!((ratio_to_control(&blocks, 0.95, 1).unwrap().estimate - 2.0).abs() < 1e-12);
        assert_eq!(ratio_to_control(&blocks[1..], 0.95, 1), None);
        assert_eq!(ratio_to_control(&pairs(&[(0.0, 2.0)]), 0.95, 1), None);
    }

    /// Whether a test of the simulation finds something is what the ratio says of the same blocks, by the same method.
    #[test]
    fn what_is_simulated_is_the_test_of_the_ratio() {
        let (mut found, mut not) = (0, 0);
        for (services, rounds) in [(3, 1), (4, 4), (5, 5), (6, 1), (6, 2), (7, 3), (8, 1), (9, 2)] {
            for (alpha, trial) in [0.05, 0.0336, 0.0084]
                .into_iter()
                .zip(0_u32..)
                .flat_map(|(alpha, place)| (0..40).map(move |trial| (alpha, 40 * place + trial)))
            {
                let value = |index: u32| (f64::from(trial * 31 + index) * 0.618_034).fract();
                let mut index = 0;
                let blocks: Vec<Block> = (0..services)
                    .step_by(rounds)
                    .map(|first| {
                        let mut arm = |shift: f64| -> Vec<f64> {
                            let size = rounds.min(services - first);
                            (0..size)
                                .map(|_| {
                                    index += 1;
                                    (value(index) + shift).exp()
                                })
                                .collect()
                        };
                        Block { control: arm(0.0), treated: arm(f64::from(trial % 7) / 6.0) }
                    })
                    .collect();
                let ratio = ratio_to_control(&blocks, 1.0 - alpha, 7).unwrap();
                let logs: Vec<LogBlock> = blocks
                    .iter()
                    .map(|block| (logs(&block.control).unwrap(), logs(&block.treated).unwrap()))
                    .collect();
                let expected = (ratio.p_value.unwrap() <= alpha, ratio.method);
                assert_eq!(finds_difference(&logs, alpha, 7), expected, "{services} by {rounds}: {ratio:?}");
                if expected.0 { found += 1 } else { not += 1 }
            }
        }
        assert!(found > 100 && not > 100, "{found} {not}");
    }

    proptest! {
        /// A figure that agrees to the byte, as of small services whose memory is a number of pages, has an interval or none, and
        /// either is found: once this never ended.
        #[test]
        fn services_that_agree_to_the_byte_are_no_trap(
            own in prop::collection::vec((1_u32..200_000, 1_u32..200_000), 1..9),
            sizes in (1_usize..7, 1_usize..7),
            odd in prop::option::of(0_u32..3),
        ) {
            let block = |(control, treated): &(u32, u32)| {
                let values = |pages: u32, count: usize| -> Vec<f64> {
                    let of = |index: usize| pages + if index == 0 { odd.unwrap_or(0) } else { 0 };
                    (0..count).map(|index| f64::from(of(index)) * 4096.0).collect()
                };
                Block { control: values(*control, sizes.0), treated: values(*treated, sizes.1) }
            };
            let blocks: Vec<Block> = own.iter().map(block).collect();
            let ratio = ratio_to_control(&blocks, 0.95, 1).unwrap();
            if let Some((low, high)) = ratio.interval {
                prop_assert!(low <= ratio.estimate * (1.0 + 1e-9) && ratio.estimate <= high * (1.0 + 1e-9));
                prop_assert!(low > 0.0 && high.is_finite(), "{low} {high}");
            }
        }
    }
}
