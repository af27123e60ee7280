//! How small a p-value the assignments within blocks allow.

use std::collections::BTreeMap;

use heaptrial_model::DrawnPlan;

/// Of all assignments at least so many at either end are to be findings: a test in which only the most extreme one is has little power.
const FINDINGS: f64 = 3.0;
/// Services whose memory before the trial is so far apart (standard deviation of logs) hide effects in one block, and mostly keep their
/// differences: the most extreme assignment of pairs that are alike is worth more (`docs/calibration.md`).
const FAR_APART: f64 = 0.15;

/// The smallest two-sided p-value that the permutation test of an arm against the control can give with the blocks of
/// this plan, before the adjustment for several arms: 2 over the number of ways to deal the two labels within blocks
/// (M. D. Ernst, "Permutation Methods: A Basis for Exact Inference", Statistical Science 19 (2004)). A block without
/// both arms adds nothing. `None` for an arm that does not exist or is the control.
pub fn smallest_p_value(plan: &DrawnPlan, arm: &str) -> Option<f64> {
    let control = plan.arms.iter().find(|known| known.control && known.name != arm)?;
    plan.arms.iter().find(|known| known.name == arm)?;
    let mut blocks: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for assignment in &plan.services {
        let block = blocks.entry(assignment.block).or_default();
        if assignment.arm == control.name {
            block.0 += 1;
        } else if assignment.arm == arm {
            block.1 += 1;
        }
    }
    let ways: f64 = blocks.values().map(|(control, treated)| choose(control + treated, *treated)).product();
    Some((2.0 / ways).min(1.0))
}

/// How often every arm comes in a block of a plan with `services_per_arm`, whose last look may err with `alpha` over all arms:
/// once where that leaves enough assignments for several of them to be findings after Holm's adjustment, or for one where memory before
/// the trial (`spread`, the standard deviation of its logs) is far apart; else as often as there are services, in one block.
///
/// Blocks of one service per arm are the closest matches, but n of them have only 2^n assignments: six allow no
/// p-value below 2/64, however large the effect, and only if every pair points the same way. One block has the most assignments; blocks
/// of two or three of each arm have enough of them too, and a test with little power, since the error by which their difference is
/// divided has few degrees of freedom (`docs/calibration.md`).
pub fn rounds_per_block(services_per_arm: usize, arms: usize, alpha: f64, spread: Option<f64>) -> usize {
    let comparisons = arms.saturating_sub(1).max(1) as f64;
    let pairs = 2.0_f64.powi(services_per_arm as i32);
    let findings = if spread.is_some_and(|spread| spread >= FAR_APART) { 1.0 } else { FINDINGS };
    if 2.0 * findings * comparisons / alpha <= pairs { 1 } else { services_per_arm.max(1) }
}

fn choose(n: u32, k: u32) -> f64 {
    (0..k).map(|i| f64::from(n - i) / f64::from(i + 1)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of three equally spaced looks the last may err with 3.36%: 2/256 is below a third of that, 2/128 is not.
    #[test]
    fn blocks_are_pairs_where_several_of_their_assignments_are_findings() {
        let of = |arms| -> Vec<usize> {
            (2..=11).map(|services| rounds_per_block(services, arms, 0.0336, Some(0.1))).collect()
        };
        assert_eq!(of(2), [2, 3, 4, 5, 6, 7, 1, 1, 1, 1]);
        assert_eq!(of(5), [2, 3, 4, 5, 6, 7, 8, 9, 1, 1]);
        assert_eq!(rounds_per_block(7, 2, 0.05, None), 1);
        assert_eq!((rounds_per_block(0, 2, 0.05, None), rounds_per_block(1, 2, 0.05, None)), (1, 1));
    }

    /// 2/64 is below 3.36% and 2/256 below a quarter of it.
    #[test]
    fn services_that_are_far_apart_are_paired_as_soon_as_that_can_find_anything() {
        let of = |arms| -> Vec<usize> {
            (4..=9).map(|services| rounds_per_block(services, arms, 0.0336, Some(0.8))).collect()
        };
        assert_eq!((of(2), of(5)), (vec![4, 5, 1, 1, 1, 1], vec![4, 5, 6, 7, 1, 1]));
    }
}
