//! Measurements by position, and what they say of its level on a grid.

use std::collections::BTreeMap;

use crate::bisect::noise::Noise;

/// A position's own offset from its segment's level (standard deviation), as a share of the difference of the ends: so much
/// is no change. It also bounds what repeats of one and the same build can prove.
const OWN_OFFSET: f64 = 0.05;
/// The same where the ends hardly differ.
const LEAST_OFFSET: f64 = 0.01;
/// Steps of the grid within an own offset.
const STEPS_IN_OFFSET: f64 = 2.0;
/// Most points of the grid.
const POINTS: f64 = 400.0;
/// Widths of the kernel that are summed.
const KERNEL_SDS: f64 = 4.0;

/// Levels that are considered: multiples of a step, 0 among them.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    pub(crate) levels: Vec<f64>,
    /// Weight of each level beforehand, of a segment after a change.
    pub(crate) prior: Vec<f64>,
    /// The same of the first segment: near 0, as position 0 has an offset of its own.
    pub(crate) first_prior: Vec<f64>,
    /// Standard deviation of a position's own offset.
    own_offset: f64,
    step: f64,
}

impl Grid {
    /// Of all that was measured, where the last position is `last`.
    pub(crate) fn of(by_position: &BTreeMap<usize, Vec<f64>>, last: usize) -> Self {
        let medians: BTreeMap<usize, f64> =
            by_position.iter().filter_map(|(at, values)| Some((*at, median(values)?))).collect();
        let difference = medians.get(&last).copied().unwrap_or(0.0).abs();
        let own_offset = (OWN_OFFSET * difference).max(LEAST_OFFSET);
        let least = medians.values().copied().fold(0.0, f64::min);
        let most = medians.values().copied().fold(0.0, f64::max);
        let margin = (0.5 * difference).max(0.1);
        let range = most - least + 2.0 * margin;
        let step = (own_offset / STEPS_IN_OFFSET).max(range / POINTS);
        let below = ((margin - least) / step).ceil() as i64;
        let above = ((most + margin) / step).ceil() as i64;
        let levels: Vec<f64> = (-below..=above).map(|index| index as f64 * step).collect();
        let own_offset = own_offset.max(step);
        let near: Vec<f64> = levels.iter().map(|level| (-0.5 * (level / own_offset).powi(2)).exp()).collect();
        let whole: f64 = near.iter().sum();
        Self {
            prior: vec![1.0 / levels.len() as f64; levels.len()],
            first_prior: near.into_iter().map(|weight| weight / whole).collect(),
            levels,
            own_offset,
            step,
        }
    }

    /// The least noise that this grid can distinguish.
    pub(crate) fn least_noise(&self) -> f64 {
        self.step
    }

    /// Log likelihood of each level for what was measured at one position, its own offset integrated out.
    pub(crate) fn log_likelihood(&self, values: &[f64], noise: &Noise) -> Vec<f64> {
        if values.is_empty() {
            return vec![0.0; self.levels.len()];
        }
        let of_level = |level: &f64| values.iter().map(|value| noise.log_density(value - level)).sum::<f64>();
        let raw: Vec<f64> = self.levels.iter().map(of_level).collect();
        let top = raw.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let likelihood: Vec<f64> = raw.iter().map(|value| (value - top).exp()).collect();
        let kernel = self.kernel();
        let reach = kernel.len() / 2;
        let smoothed = (0..likelihood.len()).map(|at| {
            let from = at.saturating_sub(reach);
            let to = (at + reach).min(likelihood.len() - 1);
            let parts = (from..=to).map(|other| kernel[other + reach - at] * likelihood[other]);
            let weights: f64 = (from..=to).map(|other| kernel[other + reach - at]).sum();
            top + (parts.sum::<f64>() / weights).max(f64::MIN_POSITIVE).ln()
        });
        smoothed.collect()
    }

    fn kernel(&self) -> Vec<f64> {
        let reach = (KERNEL_SDS * self.own_offset / self.step).ceil() as i64;
        (-reach..=reach).map(|at| (-0.5 * (at as f64 * self.step / self.own_offset).powi(2)).exp()).collect()
    }
}

pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}
