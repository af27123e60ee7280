//! Two factors crossed: a version and its settings, each as it is in the good and in the bad.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::inverse::student_quantile;
use crate::moments::{mean, variance};
use crate::ratio::logs;

/// A ratio from a contrast of logs, one value per block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockEffect {
    /// The ratio: geometric mean over blocks.
    pub ratio: f64,
    /// Ends of the interval; `None` where the blocks cannot bound it.
    pub interval: Option<(f64, f64)>,
    /// Two-sided p-value of a ratio of 1, where there is an interval.
    pub p_value: Option<f64>,
    /// Blocks that have every cell that it needs.
    pub blocks: usize,
}

/// A share of the whole difference, on the log scale. Below 0 or above 1 where the two factors pull apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The share.
    pub estimate: f64,
    /// Ends of the interval; `None` where the blocks cannot bound it.
    pub interval: Option<(f64, f64)>,
}

/// One block: a positive number for each cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoByTwo {
    /// The good version with the good setting.
    pub good: f64,
    /// The good version with the bad setting.
    pub good_with_bad_setting: f64,
    /// The bad version with the good setting.
    pub bad_with_good_setting: f64,
    /// The bad version with the bad setting.
    pub bad: f64,
}

/// What of the difference between two versions is the version and what its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factorial {
    /// Bad over good, each with its own setting. The product of [`Factorial::version`] and [`Factorial::setting`].
    pub total: BlockEffect,
    /// Main effect of the version: bad over good, mean over both settings.
    pub version: BlockEffect,
    /// Main effect of the setting: the bad one over the good one, mean over both versions.
    pub setting: BlockEffect,
    /// Effect of the setting in the bad version over that in the good one.
    pub interaction: BlockEffect,
    /// What of the whole difference is the main effect of the setting; the rest is that of the version. `None` where
    /// there is no difference at all.
    pub setting_share: Option<Share>,
}

/// The effect of a contrast: `weights` of the logs of a block's cells, which sum to 0. The blocks are replicates that
/// differ by factors of their own, so that the interval is Student's t over the contrasts of blocks: the analysis of
/// variance of a randomised block design in which each effect is tested against its own interaction with blocks
/// (R. E. Kirk, "Experimental Design", 4th ed. (2013), chapter 10). It assumes that contrasts of logs are normally
/// distributed. Blocks without a cell that has a weight are left out. `None` without blocks, or where a value is not
/// positive.
pub fn block_effect(blocks: &[Vec<Option<f64>>], weights: &[f64], level: f64) -> Option<BlockEffect> {
    let needed = |block: &&Vec<Option<f64>>| {
        weights
            .iter()
            .enumerate()
            .all(|(cell, weight)| *weight == 0.0 || block.get(cell).copied().flatten().is_some())
    };
    let contrasts: Vec<f64> = blocks
        .iter()
        .filter(needed)
        .map(|block| {
            let used = weights.iter().zip(block).filter(|(weight, _)| **weight != 0.0);
            let (weights, values): (Vec<f64>, Vec<f64>) =
                used.filter_map(|(weight, value)| Some((*weight, (*value)?))).unzip();
            Some(logs(&values)?.iter().zip(weights).map(|(log, weight)| log * weight).sum())
        })
        .collect::<Option<_>>()?;
    (!contrasts.is_empty()).then(|| effect(&contrasts, level))
}

/// Analyses the blocks at confidence `level` (0.95). `None` without blocks, or where a value is not positive.
///
/// The main effects on the log scale add up to the whole difference: each is the mean of the two ways to go from good
/// to bad, changing the version first or the setting first.
pub fn factorial(blocks: &[TwoByTwo], level: f64) -> Option<Factorial> {
    let cells: Vec<Vec<Option<f64>>> = blocks
        .iter()
        .map(|block| {
            [block.good, block.good_with_bad_setting, block.bad_with_good_setting, block.bad]
                .map(Some)
                .to_vec()
        })
        .collect();
    let of = |weights: [f64; 4]| block_effect(&cells, &weights, level);
    let (total, setting) = ([-1.0, 0.0, 0.0, 1.0], [-0.5, 0.5, -0.5, 0.5]);
    let contrast = |weights: [f64; 4]| -> Option<Vec<f64>> {
        cells
            .iter()
            .map(|block| Some(block_effect(std::slice::from_ref(block), &weights, level)?.ratio.ln()))
            .collect()
    };
    Some(Factorial {
        total: of(total)?,
        version: of([-0.5, -0.5, 0.5, 0.5])?,
        setting: of(setting)?,
        interaction: of([1.0, -1.0, -1.0, 1.0])?,
        setting_share: share(&contrast(setting)?, &contrast(total)?, level),
    })
}

fn effect(contrasts: &[f64], level: f64) -> BlockEffect {
    let middle = mean(contrasts);
    // Blocks that agree to the byte tell nothing about how far others would be apart.
    let error = standard_error(contrasts).filter(|error| *error > 0.0);
    let student = student(contrasts.len());
    let reach = student
        .zip(error)
        .and_then(|(student, error)| Some(student_quantile(student.freedom(), (1.0 + level) / 2.0)? * error));
    BlockEffect {
        ratio: middle.exp(),
        interval: reach.map(|reach| ((middle - reach).exp(), (middle + reach).exp())),
        p_value: student.zip(error).map(|(student, error)| 2.0 * student.cdf(-(middle / error).abs())),
        blocks: contrasts.len(),
    }
}

fn standard_error(values: &[f64]) -> Option<f64> {
    Some((variance(values)? / values.len() as f64).sqrt())
}

fn student(blocks: usize) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, blocks.checked_sub(1).filter(|freedom| *freedom > 0)? as f64).ok()
}

/// `part` over `whole` with the interval of E. C. Fieller, "Some Problems in Interval Estimation", Journal of the Royal
/// Statistical Society B 16 (1954). Without an interval where the interval of the whole holds 0.
fn share(part: &[f64], whole: &[f64], level: f64) -> Option<Share> {
    let (p, w) = (mean(part), mean(whole));
    let blocks = part.len() as f64;
    let covariance = |a: &[f64], b: &[f64]| {
        let (middle_a, middle_b) = (mean(a), mean(b));
        a.iter().zip(b).map(|(a, b)| (a - middle_a) * (b - middle_b)).sum::<f64>() / (blocks - 1.0) / blocks
    };
    let bounded = |student: StudentsT| {
        let square = student_quantile(student.freedom(), (1.0 + level) / 2.0)?.powi(2);
        let (parts, wholes, both) =
            (covariance(part, part), covariance(whole, whole), covariance(part, whole));
        let (a, b, c) = (w * w - square * wholes, p * w - square * both, p * p - square * parts);
        let root = (b * b - a * c).max(0.0).sqrt();
        (a > 0.0 && wholes > 0.0).then(|| ((b - root) / a, (b + root) / a))
    };
    (w != 0.0).then(|| Share { estimate: p / w, interval: student(part.len()).and_then(bounded) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(cells: [f64; 4]) -> TwoByTwo {
        let [good, good_with_bad_setting, bad_with_good_setting, bad] = cells;
        TwoByTwo { good, good_with_bad_setting, bad_with_good_setting, bad }
    }

    #[test]
    fn a_difference_that_is_all_setting_is_found_to_be() {
        let found = factorial(&[block([100.0, 300.0, 100.0, 300.0])], 0.95).unwrap();
        assert!((found.total.ratio - 3.0).abs() < 1e-12);
        assert!((found.version.ratio - 1.0).abs() < 1e-12 && (found.interaction.ratio - 1.0).abs() < 1e-12);
        assert!((found.setting_share.unwrap().estimate - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_setting_that_acts_in_one_version_alone_is_split_between_both() {
        let found = factorial(&[block([100.0, 100.0, 100.0, 400.0])], 0.95).unwrap();
        assert!((found.interaction.ratio - 4.0).abs() < 1e-12);
        assert!((found.version.ratio - 2.0).abs() < 1e-12 && (found.setting.ratio - 2.0).abs() < 1e-12);
    }

    #[test]
    fn one_block_has_no_interval_and_neither_have_blocks_that_agree_exactly() {
        for blocks in [1, 3] {
            let found = factorial(&vec![block([100.0, 200.0, 150.0, 400.0]); blocks], 0.95).unwrap();
            assert_eq!((found.total.interval, found.total.p_value, found.total.blocks), (None, None, blocks));
            assert_eq!(found.setting_share.unwrap().interval, None);
        }
        assert_eq!(factorial(&[], 0.95), None);
        assert_eq!(factorial(&[block([0.0, 1.0, 1.0, 1.0])], 0.95), None);
    }

    #[test]
    fn blocks_without_a_cell_that_is_needed_are_left_out() {
        let blocks = vec![vec![Some(1.0), Some(2.0), None], vec![Some(10.0), None, Some(40.0)]];
        let effect = |weights: [f64; 3]| block_effect(&blocks, &weights, 0.95);
        let found = effect([-1.0, 1.0, 0.0]).unwrap();
        assert!((found.ratio - 2.0).abs() < 1e-12 && found.blocks == 1, "{found:?}");
        assert_eq!(effect([0.0, -1.0, 1.0]), None);
    }

    proptest! {
        #[test]
        fn the_parts_make_the_whole_and_factors_of_blocks_do_not_matter(
            cells in prop::collection::vec([10.0f64..1000.0, 10.0..1000.0, 10.0..1000.0, 10.0..1000.0], 2..6),
            factor in 0.1f64..10.0
        ) {
            let found = factorial(&cells.iter().copied().map(block).collect::<Vec<_>>(), 0.95).unwrap();
            let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
            prop_assert!(close(found.version.ratio * found.setting.ratio, found.total.ratio));
            let (low, high) = found.total.interval.unwrap();
            prop_assert!(low <= found.total.ratio && found.total.ratio <= high);
            let mut scaled = cells.clone();
            scaled[0] = scaled[0].map(|value| value * factor);
            let scaled = factorial(&scaled.into_iter().map(block).collect::<Vec<_>>(), 0.95).unwrap();
            prop_assert!(close(scaled.setting.ratio, found.setting.ratio));
            prop_assert!(close(scaled.setting.interval.unwrap().1, found.setting.interval.unwrap().1));
        }
    }
}
