//! Whether an effect differs between groups of blocks, such as hosts.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::moments::mean;
use crate::ratio::{Block, logs};

/// Assignments that are drawn: a p-value of 5% is off by half a percent at most.
const DRAWN: usize = 1999;
/// With fewer degrees of freedom a group's variance is anything.
const LEAST_FREEDOM: usize = 4;

/// p-value of one effect in all groups. `groups` has the blocks of each group (host); values are positive, one per service.
/// `None` where fewer than two groups have services of both arms, or one of them too few to show how its services scatter.
///
/// The sum of squares of the groups' effects (differences of mean logs) about their mean, each in proportion to its variance,
/// is compared with those of assignments drawn within groups and blocks, after the common effect was taken from the
/// treated. Variances are each group's own, and found anew in each assignment: what services scatter by otherwise need not
/// be the same in all groups (E. Chung and J. P. Romano, "Exact and asymptotically robust permutation tests",
/// Annals of Statistics 41 (2013)).
pub fn interaction_p_value(groups: &[Vec<Block>], seed: u64) -> Option<f64> {
    let groups: Vec<Group> = groups.iter().filter_map(|blocks| Group::of(blocks)).collect();
    if groups.len() < 2 || groups.iter().any(|group| group.freedom() < LEAST_FREEDOM) {
        return None;
    }
    let (common, observed) = spread(&groups)?;
    let mut groups: Vec<Group> = groups.into_iter().map(|group| group.without(common)).collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let at_least = (0..DRAWN)
        .filter(|_| {
            groups.iter_mut().for_each(|group| group.shuffle(&mut random));
            // Services that agree to the byte are as far apart as can be.
            spread(&groups).is_none_or(|(_, drawn)| drawn >= observed * (1.0 - 1e-9))
        })
        .count();
    Some((at_least + 1) as f64 / (DRAWN + 1) as f64)
}

/// Logs of a group by block: all of a block in one list, those of the control first.
struct Group(Vec<(usize, Vec<f64>)>);

impl Group {
    /// `None` where no block has both arms.
    fn of(blocks: &[Block]) -> Option<Self> {
        let both = blocks.iter().filter(|block| !block.control.is_empty() && !block.treated.is_empty());
        let blocks: Option<Vec<(usize, Vec<f64>)>> = both
            .map(|block| {
                let mut all = logs(&block.control)?;
                all.extend(logs(&block.treated)?);
                Some((block.control.len(), all))
            })
            .collect();
        blocks.filter(|blocks| !blocks.is_empty()).map(Self)
    }

    /// Of services about the mean of their arm and block.
    fn within(&self) -> usize {
        self.0.iter().map(|(_, values)| values.len() - 2).sum()
    }

    /// Degrees of freedom of the variance: within arms of blocks, or between blocks of pairs.
    fn freedom(&self) -> usize {
        match self.within() {
            0 => self.0.len() - 1,
            within => within,
        }
    }

    /// Number of pairs that the services of a block are worth, over two.
    fn weight_of((control, values): &(usize, Vec<f64>)) -> f64 {
        let (control, all) = (*control as f64, values.len() as f64);
        control * (all - control) / all
    }

    fn effect_of((control, values): &(usize, Vec<f64>)) -> f64 {
        mean(&values[*control..]) - mean(&values[..*control])
    }

    /// The effect and its variance.
    fn effect(&self) -> (f64, f64) {
        let weight: f64 = self.0.iter().map(Self::weight_of).sum();
        let sum: f64 = self.0.iter().map(|block| Self::weight_of(block) * Self::effect_of(block)).sum();
        let effect = sum / weight;
        let squares = |values: &[f64]| {
            let middle = mean(values);
            values.iter().map(|value| (value - middle).powi(2)).sum::<f64>()
        };
        let squares: f64 = match self.within() {
            0 => self.0.iter().map(|block| (Self::effect_of(block) - effect).powi(2) / 2.0).sum(),
            _ => {
                let of_block = |(control, values): &(usize, Vec<f64>)| {
                    squares(&values[*control..]) + squares(&values[..*control])
                };
                self.0.iter().map(of_block).sum()
            }
        };
        (effect, squares / self.freedom() as f64 / weight)
    }

    /// With an effect taken from the treated.
    fn without(mut self, effect: f64) -> Self {
        for (control, values) in &mut self.0 {
            values[*control..].iter_mut().for_each(|value| *value -= effect);
        }
        self
    }

    fn shuffle(&mut self, random: &mut ChaCha8Rng) {
        self.0.iter_mut().for_each(|(_, values)| values.shuffle(random));
    }
}

/// The common effect, and how far the groups' effects are about it; `None` where services of a group do not scatter.
fn spread(groups: &[Group]) -> Option<(f64, f64)> {
    let effects: Vec<(f64, f64)> = groups.iter().map(Group::effect).collect();
    if effects.iter().any(|(_, variance)| variance.is_nan() || *variance <= 0.0) {
        return None;
    }
    let weights: f64 = effects.iter().map(|(_, variance)| 1.0 / variance).sum();
    let common = effects.iter().map(|(effect, variance)| effect / variance).sum::<f64>() / weights;
    Some((common, effects.iter().map(|(effect, variance)| (effect - common).powi(2) / variance).sum()))
}

#[cfg(test)]
mod tests {
    use rand::Rng;
    use rand_distr::{Distribution, Normal};

    use super::*;

    /// Hosts with blocks of `size` services for each arm; the effect of each host, and its scatter, in logs.
    fn hosts(
        random: &mut ChaCha8Rng,
        effects: &[f64],
        scatter: &[f64],
        blocks: usize,
        size: usize,
    ) -> Vec<Vec<Block>> {
        let host = |(effect, scatter): (&f64, &f64)| {
            let level: f64 = random.random_range(4.0..6.0);
            let normal = Normal::new(0.0, *scatter).unwrap();
            let block = |_| {
                let of_block = level + normal.sample(random);
                let mut draw = |effect: f64| {
                    (0..size).map(|_| (of_block + effect + normal.sample(random)).exp()).collect()
                };
                Block { control: draw(0.0), treated: draw(*effect) }
            };
            (0..blocks).map(block).collect()
        };
        effects.iter().zip(scatter).map(host).collect()
    }

    fn rejected(effects: &[f64], scatter: &[f64], blocks: usize, size: usize) -> f64 {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let trials = 400;
        let found = (0..trials).filter(|trial| {
            let groups = hosts(&mut random, effects, scatter, blocks, size);
            interaction_p_value(&groups, *trial).unwrap() <= 0.05
        });
        found.count() as f64 / trials as f64
    }

    /// Three standard errors of 400 trials above 5% are 8.3%.
    #[test]
    fn one_effect_in_all_hosts_is_rejected_as_often_as_stated() {
        for (effects, scatter, blocks, size) in [
            (&[-1.0, -1.0, -1.0][..], &[0.2, 0.2, 0.2][..], 2, 2),
            (&[-1.0, -1.0], &[0.1, 0.4], 1, 4),
            (&[0.0, 0.0, 0.0, 0.0], &[0.2, 0.3, 0.1, 0.2], 5, 1),
            (&[-0.5, -0.5], &[0.2, 0.2], 1, 3),
            (&[-0.5; 8], &[0.2, 0.1, 0.4, 0.2, 0.1, 0.1, 0.3, 0.2], 2, 2),
            (&[-0.5; 4], &[0.2, 0.1, 0.4, 0.2], 3, 5),
        ] {
            let share = rejected(effects, scatter, blocks, size);
            assert!(share <= 0.083, "{effects:?} {scatter:?} {blocks} {size}: {share}");
        }
    }

    #[test]
    fn effects_that_differ_are_found() {
        let share = rejected(&[-1.0, -0.2], &[0.2, 0.2], 2, 3);
        assert!(share > 0.9, "{share}");
    }

    #[test]
    fn one_host_or_single_services_tell_nothing() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let one = hosts(&mut random, &[0.0], &[0.2], 2, 2);
        assert_eq!(interaction_p_value(&one, 1), None);
        let pairs = hosts(&mut random, &[0.0, 0.0], &[0.2, 0.2], 1, 1);
        assert_eq!(interaction_p_value(&pairs, 1), None);
        assert_eq!(interaction_p_value(&[], 1), None);
    }
}
