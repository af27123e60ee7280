//! Ranks of services in two arms: what can be said with few readings, of any distribution.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::ratio::Block;

/// Steps of counting for one block; above that the normal approximation stands for the exact distribution.
const STEPS_AT_MOST: f64 = 4e6;
/// Distinct values of the exact distribution over all blocks.
const LENGTH_AT_MOST: usize = 200_000;

/// Ranks of an arm's services among those of both arms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankTest {
    /// Pairs of a treated and a control service of one block of which the treated one is higher; a tie counts half.
    pub pairs_above: f64,
    /// All such pairs.
    pub pairs: f64,
    /// How likely so few pairs or fewer are if services were assigned at random and the arms do not differ.
    pub less: f64,
    /// How likely so many or more are.
    pub greater: f64,
    /// Whether these are exact. With several hundred services they are of the normal approximation.
    pub exact: bool,
}

impl RankTest {
    /// Two-sided p-value.
    pub fn p_value(&self) -> f64 {
        (2.0 * self.less.min(self.greater)).min(1.0)
    }
}

/// The test of Wilcoxon, Mann and Whitney within blocks: pairs of services of one block are counted, and their number
/// compared with that of all assignments within blocks.
///
/// H. B. Mann, D. R. Whitney, "On a Test of Whether One of Two Random Variables is Stochastically Larger than the
/// Other", Annals of Mathematical Statistics 18 (1947); with ties the distribution is that of the mid-ranks at hand (E.
/// L. Lehmann, "Nonparametrics: Statistical Methods Based on Ranks" (1975), sections 1.4 and 3.3). Blocks are counted with
/// equal weight of each pair. Where counting all assignments takes too long: the normal approximation with corrections
/// for ties and continuity. Blocks without both arms are left out; `None` without any, or for a value that is not a
/// number.
pub fn rank_test(blocks: &[Block]) -> Option<RankTest> {
    let blocks: Vec<&Block> =
        blocks.iter().filter(|block| !block.control.is_empty() && !block.treated.is_empty()).collect();
    let values = || blocks.iter().flat_map(|block| block.control.iter().chain(&block.treated));
    if blocks.is_empty() || values().any(|value| value.is_nan()) {
        return None;
    }
    let ranked: Vec<Ranked> = blocks.iter().map(|block| Ranked::of(block)).collect();
    // Twice the number of pairs, so that ties stay whole.
    let twice_above: usize = ranked.iter().map(Ranked::twice_above).sum();
    let length: usize = ranked.iter().map(|block| 2 * block.pairs()).sum();
    let exact = length < LENGTH_AT_MOST && ranked.iter().map(Ranked::steps).sum::<f64>() <= STEPS_AT_MOST;
    let (less, greater) = if exact {
        let all = ranked.iter().fold(vec![1.0], |sum, block| convolved(&sum, &block.distribution()));
        (all[..=twice_above].iter().sum::<f64>(), all[twice_above..].iter().sum::<f64>())
    } else {
        approximate(&ranked, twice_above as f64 / 2.0)
    };
    Some(RankTest {
        pairs_above: twice_above as f64 / 2.0,
        pairs: length as f64 / 2.0,
        less: less.clamp(0.0, 1.0),
        greater: greater.clamp(0.0, 1.0),
        exact,
    })
}

/// Whether all treated services lie below all of the control, and how likely that is by chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Separation {
    /// Highest treated service.
    pub highest_treated: f64,
    /// Lowest service of the control.
    pub lowest_control: f64,
    /// The second over the first: above 1.
    pub gap: f64,
    /// One-sided: how likely a random assignment within blocks puts the lowest services of every block into the arm, which
    /// is 1 / C(n + m, m) for one block of n and m services. 1 where no block has both.
    pub p_value: f64,
}

/// Whether every treated service lies below every one of the control, over all blocks. `None` where it does not, an arm
/// is empty, or a value is not positive.
pub fn separation(blocks: &[Block]) -> Option<Separation> {
    let values = |of: fn(&Block) -> &Vec<f64>| blocks.iter().flat_map(of).copied();
    let highest_treated = values(|block| &block.treated).max_by(f64::total_cmp)?;
    let lowest_control = values(|block| &block.control).min_by(f64::total_cmp)?;
    let usable = values(|block| &block.treated).chain(values(|block| &block.control)).all(|v| v > 0.0);
    let ways = |block: &Block| ln_choose(block.control.len() + block.treated.len(), block.treated.len());
    (usable && highest_treated < lowest_control).then(|| Separation {
        highest_treated,
        lowest_control,
        gap: lowest_control / highest_treated,
        p_value: (-blocks.iter().map(ways).sum::<f64>()).exp(),
    })
}

fn ln_choose(n: usize, k: usize) -> f64 {
    (0..k).map(|i| ((n - i) as f64 / (i + 1) as f64).ln()).sum()
}

struct Ranked {
    /// Twice the mid-ranks of all services, from 2 on, those of the treated ones last.
    twice: Vec<usize>,
    treated: usize,
}

impl Ranked {
    fn of(block: &Block) -> Self {
        let values: Vec<f64> = block.control.iter().chain(&block.treated).copied().collect();
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        // A rank is the mean of the first and the last place of equal values.
        let twice = |value: &f64| {
            let first = sorted.partition_point(|other| other < value);
            first + 1 + sorted.partition_point(|other| other <= value)
        };
        Self { twice: values.iter().map(twice).collect(), treated: block.treated.len() }
    }

    fn control(&self) -> usize {
        self.twice.len() - self.treated
    }

    fn pairs(&self) -> usize {
        self.treated * self.control()
    }

    /// Twice the pairs of which the treated one is higher.
    fn twice_above(&self) -> usize {
        self.twice[self.control()..].iter().sum::<usize>() - self.treated * (self.treated + 1)
    }

    fn steps(&self) -> f64 {
        let n = self.twice.len() as f64;
        n * self.treated as f64 * n * (n + 1.0)
    }

    /// Probability of each value of twice the pairs above, over all choices of the treated.
    fn distribution(&self) -> Vec<f64> {
        let highest: usize = self.twice.iter().sum();
        // Of the services so far: chance that so many are treated, with such a sum of twice the ranks. Services are taken
        // into the arm one after the other, each with the chance that is left, so that no count overflows.
        let mut chance = vec![vec![0.0; highest + 1]; self.treated + 1];
        chance[0][0] = 1.0;
        let mut reached = 0;
        for (place, rank) in self.twice.iter().enumerate() {
            let left = (self.twice.len() - place) as f64;
            for taken in (0..=self.treated.min(place)).rev() {
                let take = (self.treated - taken) as f64 / left;
                let (below, above) = chance.split_at_mut(taken + 1);
                for sum in 0..=reached {
                    let here = below[taken][sum];
                    if here > 0.0 {
                        if let Some(next) = above.first_mut().filter(|_| take > 0.0) {
                            next[sum + rank] += here * take;
                        }
                        below[taken][sum] = here * (1.0 - take).max(0.0);
                    }
                }
            }
            reached += rank;
        }
        let least = self.treated * (self.treated + 1);
        chance[self.treated][least..=least + 2 * self.pairs()].to_vec()
    }

    /// Mean and variance of the pairs above.
    fn moments(&self) -> (f64, f64) {
        let (n, m, all) = (self.control() as f64, self.treated as f64, self.twice.len() as f64);
        let mut sorted = self.twice.clone();
        sorted.sort_unstable();
        let cubes =
            sorted.chunk_by(|a, b| a == b).map(|tied| (tied.len() as f64).powi(3) - tied.len() as f64);
        let ties = if all > 1.0 { cubes.sum::<f64>() / (all * (all - 1.0)) } else { 0.0 };
        (n * m / 2.0, n * m / 12.0 * (all + 1.0 - ties))
    }
}

fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate().filter(|(_, x)| **x > 0.0) {
        for (sum, y) in sums[i..].iter_mut().zip(b) {
            *sum += x * y;
        }
    }
    sums
}

fn approximate(blocks: &[Ranked], above: f64) -> (f64, f64) {
    let (mean, variance) = blocks.iter().fold((0.0, 0.0), |sum, block| {
        let (mean, variance) = block.moments();
        (sum.0 + mean, sum.1 + variance)
    });
    if variance <= 0.0 {
        return (1.0, 1.0);
    }
    let normal = Normal::standard();
    let chance = |distance: f64| normal.cdf((distance + 0.5) / variance.sqrt());
    (chance(above - mean), chance(mean - above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(control: &[f64], treated: &[f64]) -> Block {
        Block { control: control.to_vec(), treated: treated.to_vec() }
    }

    #[test]
    fn complete_separation_is_one_choice_of_all() {
        let blocks = [block(&[4.0, 5.0, 6.0, 7.0], &[1.0, 2.0, 3.0])];
        let found = rank_test(&blocks).unwrap();
        assert_eq!((found.pairs_above, found.pairs, found.exact), (0.0, 12.0, true));
        assert!((found.less - 1.0 / 35.0).abs() < 1e-15 && (found.greater - 1.0).abs() < 1e-12);
        let apart = separation(&blocks).unwrap();
        assert!((apart.p_value - 1.0 / 35.0).abs() < 1e-15);
        assert!((apart.gap - 4.0 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn pairs_are_the_sign_test_and_one_service_each_shows_nothing() {
        let pairs: Vec<Block> =
            (0..6).map(|i| block(&[10.0 + f64::from(i)], &[1.0 + f64::from(i)])).collect();
        assert!((rank_test(&pairs).unwrap().less - 1.0 / 64.0).abs() < 1e-15);
        assert!((separation(&pairs).unwrap().p_value - 1.0 / 64.0).abs() < 1e-15);
        assert_eq!(rank_test(&[block(&[2.0], &[1.0])]).unwrap().less, 0.5);
        assert_eq!(separation(&[block(&[2.0, 1.0], &[1.0])]), None);
    }

    #[test]
    fn nothing_to_compare_has_no_test_and_equal_values_show_nothing() {
        assert_eq!(rank_test(&[block(&[], &[1.0]), block(&[1.0], &[])]), None);
        assert_eq!(rank_test(&[block(&[f64::NAN], &[1.0])]), None);
        let same = rank_test(&[block(&[1.0; 5], &[1.0; 4])]).unwrap();
        assert!((same.less - 1.0).abs() < 1e-12 && (same.greater - 1.0).abs() < 1e-12);
        let many = rank_test(&[block(&[1.0; 900], &[1.0; 900])]).unwrap();
        assert_eq!((many.less, many.greater, many.exact), (1.0, 1.0, false));
        assert_eq!(separation(&[block(&[], &[1.0])]), None);
    }

    proptest! {
        #[test]
        fn exchanged_arms_have_the_exchanged_p_values(
            control in prop::collection::vec(0_i32..20, 1..9), treated in prop::collection::vec(0_i32..20, 1..9)
        ) {
            let values = |of: &[i32]| of.iter().map(|value| f64::from(*value)).collect::<Vec<_>>();
            let (control, treated) = (values(&control), values(&treated));
            let one = rank_test(&[block(&control, &treated)]).unwrap();
            let other = rank_test(&[block(&treated, &control)]).unwrap();
            prop_assert!((one.less - other.greater).abs() < 1e-12);
            prop_assert!((one.pairs_above + other.pairs_above - one.pairs).abs() < 1e-12);
            prop_assert!(one.less + one.greater >= 1.0 - 1e-12);
        }
    }
}
