//! The answer of a search: where the level changed, as far as it is known.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bisect::evidence::{Grid, median};
use crate::bisect::noise::Noise;
use crate::bisect::posterior::{Gap, Posterior};

/// A change below this share of the difference of the ends is reported where it is seen, and not looked for.
const LARGE: f64 = 0.25;
/// Half of an interval's error.
const TAIL: f64 = 0.025;

/// What a search found, or what there is when its budget is spent; by default that of ends that cannot be measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether every large change is located with the confidence asked for.
    pub found: bool,
    /// Whether the ends are known to be the same build.
    pub same_ends: bool,
    pub ends: Ends,
    /// Changes of a quarter of the difference or more, the largest first. Located ones are as narrow
    /// as the testable positions allow.
    pub changes: Vec<Change>,
    /// Smaller steps that were seen on the way, in order.
    pub smaller: Vec<Change>,
    pub blocks: usize,
}

/// How the last position differs from position 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Ends {
    /// Probability that they differ; beforehand one half.
    pub differ: f64,
    /// Log ratio of the last to position 0.
    pub log_ratio: f64,
    pub interval: [f64; 2],
    /// In how many blocks it was measured.
    pub measured: usize,
}

/// A change of the level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The last position before it.
    pub after: usize,
    /// The last position at which it may have come: the first with the new level.
    pub to: usize,
    /// Probability that it is there.
    pub probability: f64,
    /// Log ratio of the level after it to the one before.
    pub log_ratio: f64,
    /// Whether no testable position lies within.
    pub narrowest: bool,
}

impl Answer {
    pub(crate) fn of(
        posterior: &Posterior,
        of_last: &[f64],
        confidence: f64,
        blocks: usize,
        testable: impl Fn(usize) -> bool,
    ) -> Self {
        let difference = median(of_last).unwrap_or(0.0).abs();
        let change = |gap: &Gap| Change {
            after: gap.after,
            to: gap.to,
            probability: gap.probability,
            log_ratio: gap.change,
            narrowest: (gap.after + 1..gap.to).all(|at| !testable(at)),
        };
        let is_large = |gap: &&Gap| gap.change.abs() >= LARGE * difference;
        let possible = |gap: &&Gap| gap.probability >= 1.0 - confidence;
        let mut large: Vec<&Gap> = posterior.gaps.iter().filter(is_large).filter(possible).collect();
        let found = !large.is_empty()
            && large.iter().all(|gap| gap.probability >= confidence && change(gap).narrowest);
        large.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
        let smaller = posterior.gaps.iter().filter(|gap| !is_large(gap) && gap.probability >= confidence);
        Self {
            found,
            same_ends: false,
            ends: Ends::of(of_last),
            changes: if found {
                large.into_iter().map(change).collect()
            } else {
                ranges(posterior, confidence, &change)
            },
            smaller: smaller.map(change).collect(),
            blocks,
        }
    }
}

/// Neighbouring gaps that may hold one and the same change, as one range each.
fn ranges(posterior: &Posterior, confidence: f64, change: &dyn Fn(&Gap) -> Change) -> Vec<Change> {
    let Some(most) = posterior.likeliest() else { return Vec::new() };
    let mut range = change(most);
    // Neighbours join until the range holds the change with the confidence asked for.
    while range.probability < confidence {
        let before = posterior.gaps.iter().find(|gap| gap.to == range.after);
        let behind = posterior.gaps.iter().find(|gap| gap.after == range.to);
        let next = match (before, behind) {
            (Some(a), Some(b)) if a.weight() >= b.weight() => a,
            (_, Some(one)) | (Some(one), None) => one,
            (None, None) => break,
        };
        range.after = range.after.min(next.after);
        range.to = range.to.max(next.to);
        range.probability = (range.probability + next.probability).min(1.0);
        range.narrowest = false;
    }
    let level = |at: usize| posterior.moments(at).0;
    range.log_ratio = level(range.to) - level(range.after);
    let apart = |gap: &&Gap| gap.to <= range.after || gap.after >= range.to;
    let others = posterior.gaps.iter().filter(apart).filter(|gap| gap.probability >= 0.5);
    let others = others.filter(|gap| gap.change.abs() >= LARGE * range.log_ratio.abs()).map(change);
    std::iter::once(range).chain(others).collect()
}

impl Ends {
    /// Of the log ratios of the last position to position 0.
    pub(crate) fn of(values: &[f64]) -> Self {
        let by_position = BTreeMap::from([(1, values.to_vec())]);
        let grid = Grid::of(&by_position, 1);
        let noises = Noise::all(grid.least_noise());
        let mut of_level = vec![0.0; grid.levels.len()];
        let mut alike = 0.0;
        let logs: Vec<(f64, Vec<f64>)> =
            noises.iter().map(|noise| (noise.log_prior, grid.log_likelihood(values, noise))).collect();
        let top = logs.iter().flat_map(|(prior, logs)| logs.iter().map(move |log| log + prior));
        let top = top.fold(f64::NEG_INFINITY, f64::max);
        for (prior, logs) in &logs {
            of_level.iter_mut().zip(logs).for_each(|(sum, log)| *sum += (log + prior - top).exp());
            let near = logs.iter().zip(&grid.first_prior).map(|(log, near)| near * (log + prior - top).exp());
            alike += near.sum::<f64>();
        }
        let sum: f64 = of_level.iter().sum();
        let mean: f64 =
            of_level.iter().zip(&grid.levels).map(|(weight, level)| weight * level).sum::<f64>() / sum;
        let differing = sum / of_level.len() as f64;
        let at = |share: f64| {
            let mut below = 0.0;
            let reached = of_level.iter().position(|weight| {
                below += weight / sum;
                below >= share
            });
            grid.levels[reached.unwrap_or(grid.levels.len() - 1)]
        };
        Self {
            differ: differing / (differing + alike),
            log_ratio: mean,
            interval: [at(TAIL), at(1.0 - TAIL)],
            measured: values.len(),
        }
    }
}
