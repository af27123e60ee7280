//! How small a p-value the assignments within blocks allow.

use std::collections::BTreeMap;

use crate::DrawnPlan;

/// The largest p-value that counts as a finding.
const ALPHA: f64 = 0.05;

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

/// How often every arm comes in a block: once where that leaves enough assignments for a finding at 5% after Holm's
/// adjustment, else the smallest number that does; where none does, that for 5% without adjustment; else once.
///
/// Blocks of one service per arm are the closest matches, but n of them have only 2^n assignments: five allow no
/// p-value below 2/32, however large the effect.
pub(crate) fn rounds_per_block(services_per_arm: usize, arms: usize) -> usize {
    let comparisons = arms.saturating_sub(1).max(1) as f64;
    let smallest = |alpha: f64| {
        (1..=services_per_arm).find(|rounds| 2.0 / assignments(services_per_arm, *rounds) <= alpha)
    };
    smallest(ALPHA / comparisons).or_else(|| smallest(ALPHA)).unwrap_or(1)
}

fn assignments(services_per_arm: usize, rounds: usize) -> f64 {
    let (full, rest) = (services_per_arm / rounds, (services_per_arm % rounds) as u32);
    let rounds = rounds as u32;
    choose(2 * rounds, rounds).powi(full as i32) * choose(2 * rest, rest)
}

fn choose(n: u32, k: u32) -> f64 {
    (0..k).map(|i| f64::from(n - i) / f64::from(i + 1)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2/64 is the first power of two below 5%, 2/256 below 1.25%.
    #[test]
    fn blocks_are_as_small_as_the_test_allows() {
        let found: Vec<usize> = (3..=9).map(|services| rounds_per_block(services, 2)).collect();
        assert_eq!(found, [1, 3, 2, 1, 1, 1, 1]);
        let found: Vec<usize> = (3..=9).map(|services| rounds_per_block(services, 5)).collect();
        assert_eq!(found, [1, 3, 5, 2, 2, 1, 1]);
    }
}
