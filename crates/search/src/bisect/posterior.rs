//! The exact posterior of a piecewise constant level (Fearnhead 2006).

use std::collections::{BTreeMap, BTreeSet};

use crate::bisect::evidence::Grid;
use crate::bisect::noise::Noise;

/// What is believed after some measurements.
#[derive(Debug, Clone)]
pub struct Posterior {
    /// The measured positions in order, position 0 first.
    pub levels: Vec<Level>,
    pub gaps: Vec<Gap>,
    /// Mean size of the noise of one log ratio (standard deviation, without jumps).
    pub noise: f64,
}

/// The level at a measured position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    pub position: usize,
    /// How often it was measured.
    pub measured: usize,
    /// Posterior mean of its log ratio to position 0. Of position 0 itself it is that of its segment, from which it may be off
    /// by an offset of its own.
    pub mean: f64,
    /// Posterior mean of the square of that.
    pub(crate) square: f64,
}

/// From one measured position to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    pub after: usize,
    /// The measured position at its end: a change in this gap is at `after + 1 ..= to`.
    pub to: usize,
    /// Probability that the level changes in it.
    pub probability: f64,
    /// By how much the log level changes, if it does.
    pub change: f64,
}

impl Level {
    /// Posterior standard deviation of the log ratio.
    pub fn sd(&self) -> f64 {
        (self.square - self.mean.powi(2)).max(0.0).sqrt()
    }
}

impl Gap {
    /// How much of the difference it probably is.
    pub(crate) fn weight(&self) -> f64 {
        self.probability * self.change.abs()
    }
}

/// Sums under one hypothesis of the noise, all relative to its own evidence.
struct Sums {
    log_evidence: f64,
    /// Of position 0 and of each measured one: mean and mean square of the level.
    mean: Vec<f64>,
    square: Vec<f64>,
    changes: Vec<f64>,
}

impl Posterior {
    /// Of measurements by position, in a history whose last position is `last`, with a change expected at one of its
    /// positions. The level does not change between the two positions of a pair of `same`.
    pub(crate) fn of(by_position: &BTreeMap<usize, Vec<f64>>, same: &[(usize, usize)], last: usize) -> Self {
        let grid = Grid::of(by_position, last);
        let mut known: BTreeSet<usize> = by_position.keys().copied().filter(|at| *at > 0).collect();
        known.extend(same.iter().flat_map(|(a, b)| [*a, *b]).filter(|at| *at > 0));
        let known: Vec<usize> = known.into_iter().collect();
        let gaps: Vec<(usize, usize)> =
            known.iter().enumerate().map(|(k, at)| (if k == 0 { 0 } else { known[k - 1] }, *at)).collect();
        let hazard = 1.0 / last.max(2) as f64;
        let log_change: Vec<f64> = gaps
            .iter()
            .map(|(after, to)| match same.iter().any(|(a, b)| *after >= *a.min(b) && *to <= *a.max(b)) {
                true => f64::NEG_INFINITY,
                false => (-((1.0 - hazard).ln() * (to - after) as f64).exp_m1()).ln(),
            })
            .collect();
        let noises = Noise::all(grid.least_noise());
        let none = Vec::new();
        let sums: Vec<Sums> = noises
            .iter()
            .map(|noise| {
                let likelihoods: Vec<Vec<f64>> = known
                    .iter()
                    .map(|at| grid.log_likelihood(by_position.get(at).unwrap_or(&none), noise))
                    .collect();
                Sums::of(&grid, &likelihoods, &log_change, noise.log_prior)
            })
            .collect();
        let total = log_sum(sums.iter().map(|sum| sum.log_evidence));
        let weights: Vec<f64> = sums.iter().map(|sum| (sum.log_evidence - total).exp()).collect();
        let mix = |of: &dyn Fn(&Sums) -> f64| -> f64 {
            sums.iter().zip(&weights).map(|(sum, weight)| weight * of(sum)).sum()
        };
        let measured = |at: &usize| by_position.get(at).map_or(0, Vec::len);
        let levels: Vec<Level> = std::iter::once(&0)
            .chain(&known)
            .enumerate()
            .map(|(k, at)| Level {
                position: *at,
                measured: measured(at),
                mean: mix(&|sum| sum.mean[k]),
                square: mix(&|sum| sum.square[k]),
            })
            .collect();
        let gaps = gaps.iter().enumerate().map(|(k, (after, to))| {
            let probability = mix(&|sum| sum.changes[k]).min(1.0);
            let difference = levels[k + 1].mean - levels[k].mean;
            let change = if probability > 1e-9 { difference / probability } else { 0.0 };
            Gap { after: *after, to: *to, probability, change }
        });
        let gaps = gaps.collect();
        let noise = noises.iter().zip(&weights).map(|(noise, weight)| weight * noise.size).sum();
        Self { levels, gaps, noise }
    }

    /// The most likely place of the largest change.
    pub fn likeliest(&self) -> Option<&Gap> {
        self.gaps.iter().rev().max_by(|a, b| a.weight().total_cmp(&b.weight()))
    }

    /// Mean and variance of the level at any position. Within a gap the change, if there is one, is anywhere alike.
    pub fn moments(&self, position: usize) -> (f64, f64) {
        let k = self.levels.partition_point(|level| level.position < position);
        let Some(right) = self.levels.get(k).or(self.levels.last()) else { return (0.0, 0.0) };
        let left = if right.position <= position || k == 0 { right } else { &self.levels[k - 1] };
        let gap = right.position.saturating_sub(left.position).max(1) as f64;
        let share = position.saturating_sub(left.position) as f64 / gap;
        let mean = left.mean + share * (right.mean - left.mean);
        let square = left.square + share * (right.square - left.square);
        (mean, (square - mean.powi(2)).max(0.0))
    }
}

impl Sums {
    /// Over all ways to cut `likelihoods` into segments. The first is at the level of position 0; the others' levels are
    /// anywhere on the grid alike.
    fn of(grid: &Grid, likelihoods: &[Vec<f64>], log_change: &[f64], log_prior: f64) -> Self {
        let count = likelihoods.len();
        let stay: Vec<f64> = log_change.iter().map(|change| (-change.exp()).ln_1p()).collect();
        // segments[s][e - s]: log likelihood of s..=e under one level, with mean and square of that level; without change
        // after s.
        let segments: Vec<Vec<[f64; 3]>> = (0..count)
            .map(|start| {
                let mut sum = vec![0.0; grid.levels.len()];
                let mut stayed = 0.0;
                (start..count)
                    .map(|end| {
                        sum.iter_mut().zip(&likelihoods[end]).for_each(|(sum, own)| *sum += own);
                        if end > start {
                            stayed += stay[end];
                        }
                        let [log, mean, square] = under_one_level(grid, &sum, &grid.prior);
                        [log + stayed, mean, square]
                    })
                    .collect()
            })
            .collect();
        // first[e]: positions before e as position 0, whose own offset they share; with mean and square of their level.
        let mut sum = vec![0.0; grid.levels.len()];
        let mut stayed = 0.0;
        let mut first = vec![[0.0; 3]];
        for end in 0..count {
            sum.iter_mut().zip(&likelihoods[end]).for_each(|(sum, own)| *sum += own);
            stayed += stay[end];
            let [log, mean, square] = under_one_level(grid, &sum, &grid.first_prior);
            first.push([log + stayed, mean, square]);
        }
        // before[s]: all before s, and a change in the gap that ends at s.
        let mut before = vec![f64::NEG_INFINITY; count];
        for start in 0..count {
            let earlier = (0..start).map(|from| before[from] + segments[from][start - 1 - from][0]);
            before[start] = log_change[start] + log_sum(earlier.chain([first[start][0]]));
        }
        // after[s]: s and all after it, given that a segment starts at s.
        let mut after = vec![0.0; count + 1];
        let next = |end: usize, after: &[f64]| match end + 1 < count {
            true => log_change[end + 1] + after[end + 1],
            false => 0.0,
        };
        for start in (0..count).rev() {
            after[start] =
                log_sum((start..count).map(|end| segments[start][end - start][0] + next(end, &after)));
        }
        let evidence = log_sum(
            (0..count)
                .map(|start| first[start][0] + log_change[start] + after[start])
                .chain([first[count][0]]),
        );
        let mut sums = Self {
            log_evidence: evidence + log_prior,
            mean: vec![0.0; count + 1],
            square: vec![0.0; count + 1],
            changes: (0..count).map(|start| (before[start] + after[start] - evidence).exp()).collect(),
        };
        for (end, [log, mean, square]) in first.into_iter().enumerate() {
            let rest = if end < count { log_change[end] + after[end] } else { 0.0 };
            let weight = (log + rest - evidence).exp();
            for at in 0..=end {
                sums.mean[at] += weight * mean;
                sums.square[at] += weight * square;
            }
        }
        for start in 0..count {
            for end in start..count {
                let [log, mean, square] = segments[start][end - start];
                let weight = (before[start] + log + next(end, &after) - evidence).exp();
                for at in start + 1..=end + 1 {
                    sums.mean[at] += weight * mean;
                    sums.square[at] += weight * square;
                }
            }
        }
        sums
    }
}

/// Log of the likelihood averaged over the grid by `prior`, and mean and mean square of the level.
fn under_one_level(grid: &Grid, logs: &[f64], prior: &[f64]) -> [f64; 3] {
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut sum, mut mean, mut square) = (0.0, 0.0, 0.0);
    for ((log, level), prior) in logs.iter().zip(&grid.levels).zip(prior) {
        let weight = prior * (log - top).exp();
        sum += weight;
        mean += weight * level;
        square += weight * level * level;
    }
    let sum = sum.max(f64::MIN_POSITIVE);
    [top + sum.ln(), mean / sum, square / sum]
}

fn log_sum(logs: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = logs.collect();
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + logs.iter().map(|log| (log - top).exp()).sum::<f64>().ln()
}
