//! The permutation distribution of a blocked assignment.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::moments::mean;

/// Logs of one block: `(control, treated)`.
pub(crate) type LogBlock = (Vec<f64>, Vec<f64>);

/// Assignments enumerated one by one; beyond that, as many are looked at: a draw, and the observed one.
pub const ENUMERATED_AT_MOST: u32 = 20_000;
const DRAWN: usize = ENUMERATED_AT_MOST as usize - 1;

/// What one reassignment of labels within blocks makes of the data, if a constant shift d is the
/// treatment's effect on the log scale: its difference of means is `difference - d * kept` where the
/// observed one is `observed - d`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reassignment {
    pub(crate) difference: f64,
    kept: f64,
}

/// The reassignments of an experiment, the observed one among them.
#[derive(Debug)]
pub(crate) struct PermutationDistribution {
    observed: f64,
    reassignments: Vec<Reassignment>,
}

impl PermutationDistribution {
    /// All assignments within the blocks, or a seeded draw of them. The weight of a block is its
    /// share of the treated services.
    pub(crate) fn of(blocks: &[LogBlock], seed: u64) -> Self {
        let treated_total: usize = blocks.iter().map(|(_, treated)| treated.len()).sum();
        let weight = |block: &LogBlock| block.1.len() as f64 / treated_total as f64;
        let observed = blocks.iter().map(|block| weight(block) * (mean(&block.1) - mean(&block.0))).sum();
        let sizes = blocks.iter().map(|(control, treated)| (control.len(), treated.len()));
        let reassignments = if !are_drawn(sizes) {
            blocks.iter().fold(vec![Reassignment { difference: 0.0, kept: 0.0 }], |partial, block| {
                let own = enumerate_block(block, weight(block));
                partial.iter().flat_map(|a| own.iter().map(|b| a.plus(*b))).collect()
            })
        } else {
            draw(blocks, weight, observed, seed)
        };
        Self { observed, reassignments }
    }

    /// Two-sided p-value of no effect.
    pub(crate) fn p_value(&self) -> f64 {
        (2.0 * self.at_least(0.0).min(self.at_most(0.0))).min(1.0)
    }

    /// The interval of shifts that a two-sided test at `1 - level` does not reject; an end is `None`
    /// where no shift at all could be rejected because there are too few assignments.
    pub(crate) fn interval(&self, level: f64) -> (Option<f64>, Option<f64>) {
        let alpha = (1.0 - level) / 2.0;
        let mut limits: Vec<f64> = self.reassignments.iter().filter_map(|r| self.limit(r)).collect();
        limits.sort_unstable_by(f64::total_cmp);
        let total = self.reassignments.len() as f64;
        let same = total - limits.len() as f64;
        // At shift d, the share of reassignments at least as high as observed is
        // (same + #{limits <= d}) / total: the lower end is where it first exceeds alpha.
        let needed = (alpha * total - same + 1e-9).floor();
        if needed < 0.0 || limits.is_empty() {
            return (None, None);
        }
        let index = (needed as usize).min(limits.len() - 1);
        (Some(limits[index]), Some(limits[limits.len() - 1 - index]))
    }

    /// The shift from which on this reassignment is at least as high as the observed assignment.
    fn limit(&self, reassignment: &Reassignment) -> Option<f64> {
        let moved = 1.0 - reassignment.kept;
        (moved > 1e-12).then(|| (self.observed - reassignment.difference) / moved)
    }

    fn at_least(&self, shift: f64) -> f64 {
        self.share(|limit| limit <= shift + 1e-12)
    }

    fn at_most(&self, shift: f64) -> f64 {
        self.share(|limit| limit >= shift - 1e-12)
    }

    fn share(&self, extreme: impl Fn(f64) -> bool) -> f64 {
        let count = self.reassignments.iter().filter(|r| self.limit(r).is_none_or(&extreme)).count();
        count as f64 / self.reassignments.len() as f64
    }
}

impl Reassignment {
    fn plus(self, other: Self) -> Self {
        Self { difference: self.difference + other.difference, kept: self.kept + other.kept }
    }

    /// Of one block, with `in_treated[i]` for each value; the treated ones come last in `values`.
    fn of_block(values: &[f64], in_treated: &[bool], treated: usize, weight: f64) -> Self {
        let control = values.len() - treated;
        let (mut sum_treated, mut sum_control, mut stayed) = (0.0, 0.0, 0.0);
        for (index, (value, is_treated)) in values.iter().zip(in_treated).enumerate() {
            let was_treated = index >= control;
            if *is_treated {
                sum_treated += value;
                stayed += f64::from(u8::from(was_treated)) / treated as f64;
            } else {
                sum_control += value;
                stayed -= f64::from(u8::from(was_treated)) / control as f64;
            }
        }
        Self {
            difference: weight * (sum_treated / treated as f64 - sum_control / control as f64),
            kept: weight * stayed,
        }
    }
}

fn enumerate_block(block: &LogBlock, weight: f64) -> Vec<Reassignment> {
    let values: Vec<f64> = block.0.iter().chain(&block.1).copied().collect();
    let treated = block.1.len();
    let mut chosen: Vec<usize> = (0..treated).collect();
    let mut found = Vec::new();
    loop {
        let mut in_treated = vec![false; values.len()];
        chosen.iter().for_each(|index| in_treated[*index] = true);
        found.push(Reassignment::of_block(&values, &in_treated, treated, weight));
        // The next combination in lexicographic order.
        let Some(place) = (0..treated).rev().find(|i| chosen[*i] < values.len() - treated + i) else {
            return found;
        };
        chosen[place] += 1;
        for i in place + 1..treated {
            chosen[i] = chosen[i - 1] + 1;
        }
    }
}

fn draw(
    blocks: &[LogBlock],
    weight: impl Fn(&LogBlock) -> f64,
    observed: f64,
    seed: u64,
) -> Vec<Reassignment> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut pools: Vec<Pool> = blocks.iter().map(|block| Pool::of(block, weight(block))).collect();
    let mut found = Vec::with_capacity(DRAWN + 1);
    found.push(Reassignment { difference: observed, kept: 1.0 });
    for _ in 0..DRAWN {
        let none = Reassignment { difference: 0.0, kept: 0.0 };
        found.push(pools.iter_mut().fold(none, |sum, pool| sum.plus(pool.draw(&mut random))));
    }
    found
}

/// The services of one block, to draw its smaller arm from again and again. The order that a draw
/// leaves behind is as good as any other for the next one.
pub(crate) struct Pool {
    /// Distance from the block's mean, so that sums stay exact; and 1 for a service of the arm that is
    /// drawn, else 0.
    services: Vec<(f64, f64)>,
    /// Services in the arm that is drawn, the smaller one, and in the other.
    drawn: usize,
    rest: usize,
    /// The block's weight; negative where the arm that is drawn is the control.
    weight: f64,
}

impl Pool {
    pub(crate) fn of(block: &LogBlock, weight: f64) -> Self {
        let (control, treated) = block;
        let all = control.len() + treated.len();
        let middle = (control.iter().sum::<f64>() + treated.iter().sum::<f64>()) / all as f64;
        let (small, large, sign) =
            if treated.len() <= control.len() { (treated, control, 1.0) } else { (control, treated, -1.0) };
        let marked = |values: &[f64], mark: f64| values.iter().map(move |v| (v - middle, mark)).collect();
        let mut services: Vec<(f64, f64)> = marked(small, 1.0);
        services.extend::<Vec<_>>(marked(large, 0.0));
        Self { services, drawn: small.len(), rest: large.len(), weight: sign * weight }
    }

    /// A random choice by the first steps of the shuffle of Fisher and Yates (D. E. Knuth, "The Art of
    /// Computer Programming", volume 2, algorithm 3.4.2P).
    pub(crate) fn draw(&mut self, random: &mut ChaCha8Rng) -> Reassignment {
        let (drawn, rest) = (self.drawn as f64, self.rest as f64);
        let (mut sum, mut stayed) = (0.0, 0.0);
        let mut bits = 0;
        for place in 0..self.drawn {
            if place % 2 == 0 {
                bits = random.next_u64();
            }
            let chosen = place + below(self.services.len() - place, &mut bits);
            self.services.swap(place, chosen);
            let (value, mark) = self.services[place];
            sum += value;
            stayed += mark;
        }
        // The sum over the block is 0, so the other arm's sum is the opposite.
        let difference = sum / drawn + sum / rest;
        // Of the arm that is drawn `stayed` are in it; as many left it as came from the other arm.
        let kept = stayed / drawn - (drawn - stayed) / rest;
        Reassignment { difference: self.weight * difference, kept: self.weight.abs() * kept }
    }

    /// The values of the arm that was drawn last and of the other one.
    pub(crate) fn sides(&self) -> (Vec<f64>, Vec<f64>) {
        let values = |part: &[(f64, f64)]| part.iter().map(|(value, _)| *value).collect();
        let (drawn, rest) = self.services.split_at(self.drawn);
        (values(drawn), values(rest))
    }
}

/// A number below `range` by multiplication; what remains of the random `bits` serves for the next one.
///
/// N. Brackett-Rozinsky, D. Lemire, "Batched Ranged Random Integer Generation", Software: Practice and
/// Experience 55 (2025). Their rejection step is left out: with two numbers per 64 bits the odds of a
/// number are off by at most the product of the ranges over 2^64, 1e-12 for 4,000 services.
fn below(range: usize, bits: &mut u64) -> usize {
    let product = u128::from(*bits) * range as u128;
    *bits = product as u64;
    (product >> 64) as usize
}

/// Whether blocks of so many control and treated services have too many assignments to enumerate them.
pub(crate) fn are_drawn(blocks: impl Iterator<Item = (usize, usize)>) -> bool {
    let count: f64 = blocks.map(|(control, treated)| choose(control + treated, treated)).product();
    count > f64::from(ENUMERATED_AT_MOST)
}

fn choose(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(reassignments: Vec<Reassignment>, observed: f64) -> (f64, f64) {
        let (low, high) = PermutationDistribution { observed, reassignments }.interval(0.9);
        (low.unwrap(), high.unwrap())
    }

    /// Whichever arm is the smaller one and is drawn.
    #[test]
    fn drawn_assignments_give_the_interval_of_all_of_them() {
        let logs: Vec<f64> = (0..12).map(|i| (f64::from(i) * 0.618).fract()).collect();
        for treated in [5, 6, 7] {
            let block = (logs[treated..].to_vec(), logs[..treated].to_vec());
            let observed = mean(&block.1) - mean(&block.0);
            let all = interval(enumerate_block(&block, 1.0), observed);
            let drawn = interval(draw(std::slice::from_ref(&block), |_| 1.0, observed, 3), observed);
            assert!((all.0 - drawn.0).abs() < 0.03 && (all.1 - drawn.1).abs() < 0.03, "{all:?} {drawn:?}");
        }
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let block = ((0..40).map(f64::from).collect(), (0..30).map(f64::from).collect());
        let p_value = |seed| PermutationDistribution::of(std::slice::from_ref(&block), seed).p_value();
        assert_eq!(p_value(1), p_value(1));
        assert_ne!(p_value(1), p_value(2));
    }
}
