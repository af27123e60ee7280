//! Sudden changes of level that the services of an arm have in common.

use crate::binomial::sign_test;
use crate::quantile::median_of;
use crate::{holm, thin};

/// Fewest readings on each side of a candidate.
const SIDE: usize = 3;
/// Readings per side that the trend is taken from.
const TREND_AT_MOST: usize = 12;
/// Candidates at most; a finer grid is made coarser.
const CANDIDATES: f64 = 10_000.0;

/// What to look for. Times are in the unit of the series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelChangeSettings {
    /// Time before and after a candidate that is compared.
    pub window: f64,
    /// Distance of candidates.
    pub spacing: f64,
    /// Least size of the median step on the log scale.
    pub least_step: f64,
    /// Least share of the services whose steps go the way of the median.
    pub least_agreement: f64,
    /// Level of the test over all candidates.
    pub alpha: f64,
}

impl LevelChangeSettings {
    /// Candidates half a window apart, steps of 10% or more in which 80% of the services agree, at 5%.
    pub fn new(window: f64) -> Self {
        Self { window, spacing: window / 2.0, least_step: 1.1_f64.ln(), least_agreement: 0.8, alpha: 0.05 }
    }
}

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelChange {
    /// The candidate, in the unit of the series; dated to within a window.
    pub time: f64,
    /// Median step of the services on the log scale.
    pub step: f64,
    /// Services whose step goes the way of the median.
    pub agree: usize,
    /// Services with enough readings on both sides.
    pub voted: usize,
    /// p-value of the sign test, adjusted by Holm over the candidates.
    pub p_value: f64,
}

/// Finds the changes of level that an arm's services have in common. `services` holds a series of (time,
/// log memory) sorted by time for each, one life each; times may differ and have gaps.
///
/// A service's step at a candidate is the median of its readings within the window after it less that
/// within the window before, less its own trend between them: the median of the slopes between readings
/// of the same window (T. P. Hettmansperger, J. W. McKean, "Robust Nonparametric Statistical Methods", 2nd
/// edition (2011), chapters 2 and 3). A service with fewer than 3 readings in either window has no vote.
/// The arm's statistic is the median step; its test the exact sign test over services (W. J. Conover,
/// "Practical Nonparametric Statistics", 3rd edition (1999), section 3.4), which needs no independence of
/// readings, only that of services, adjusted by Holm over all candidates at which enough services vote for
/// any rejection at all. Candidates closer than a window to a stronger one are the same change.
///
/// With n services and m candidates the smallest adjusted p-value is m 2^(1 - n): 10 services cannot tell
/// anything about more than 25 candidates, 20 services that all agree about 26,000.
///
/// Services of one fleet share their load: a step that is found is real for the arm, but no evidence about
/// its allocator unless other arms lack it.
pub fn level_changes(services: &[Vec<(f64, f64)>], settings: &LevelChangeSettings) -> Vec<LevelChange> {
    let examined: Vec<LevelChange> = candidates(services, settings)
        .into_iter()
        .filter_map(|time| examine(services, time, settings.window))
        .filter(|change| sign_test(change.voted, 0) <= settings.alpha)
        .collect();
    let p_values: Vec<Option<f64>> = examined.iter().map(|change| Some(change.p_value)).collect();
    let mut found: Vec<LevelChange> = examined
        .into_iter()
        .zip(holm(&p_values))
        .filter_map(|(change, p_value)| Some(LevelChange { p_value: p_value?, ..change }))
        .filter(|change| {
            change.p_value <= settings.alpha
                && change.step.abs() >= settings.least_step
                && change.agree as f64 >= settings.least_agreement * change.voted as f64
        })
        .collect();
    found.sort_by(|a, b| b.step.abs().total_cmp(&a.step.abs()));
    let mut kept: Vec<LevelChange> = Vec::new();
    for change in found {
        if kept.iter().all(|stronger| (stronger.time - change.time).abs() >= settings.window) {
            kept.push(change);
        }
    }
    kept.sort_by(|a, b| a.time.total_cmp(&b.time));
    kept
}

/// Multiples of the spacing within the time that any service covers.
fn candidates(services: &[Vec<(f64, f64)>], settings: &LevelChangeSettings) -> Vec<f64> {
    let ends = services.iter().filter_map(|series| Some((series.first()?.0, series.last()?.0)));
    let (first, last) =
        ends.fold((f64::INFINITY, f64::NEG_INFINITY), |span, (a, b)| (span.0.min(a), span.1.max(b)));
    let spacing = settings.spacing.max((last - first) / CANDIDATES);
    if !(spacing > 0.0 && spacing.is_finite() && settings.window > 0.0) {
        return Vec::new();
    }
    let (from, to) = ((first / spacing).ceil(), (last / spacing).floor());
    (0..=(to - from).max(0.0) as usize).map(|i| (from + i as f64) * spacing).collect()
}

/// The arm at a candidate, with the unadjusted p-value; `None` without votes.
fn examine(services: &[Vec<(f64, f64)>], time: f64, window: f64) -> Option<LevelChange> {
    let mut steps: Vec<f64> = services.iter().filter_map(|series| step(series, time, window)).collect();
    let (up, down) = steps
        .iter()
        .fold((0, 0), |(up, down), step| (up + usize::from(*step > 0.0), down + usize::from(*step < 0.0)));
    let voted = steps.len();
    let step = median_of(&mut steps)?;
    let agree = if step > 0.0 { up } else { down };
    Some(LevelChange { time, step, agree, voted, p_value: sign_test(up, down) })
}

/// One service's step at a candidate on top of its trend.
fn step(series: &[(f64, f64)], time: f64, window: f64) -> Option<f64> {
    let place = |time: f64| series.partition_point(|point| point.0 < time);
    let before = &series[place(time - window)..place(time)];
    let after = &series[place(time)..series.partition_point(|point| point.0 <= time + window)];
    if before.len() < SIDE || after.len() < SIDE {
        return None;
    }
    // As many readings from either side: a step inside one of the windows then crosses at most a quarter
    // of the pairs, too few to be taken for a trend.
    let readings = before.len().min(after.len()).min(TREND_AT_MOST);
    let mut slopes: Vec<f64> = [before, after].into_iter().flat_map(|side| slopes(side, readings)).collect();
    let trend = median_of(&mut slopes)?;
    let middle = |side: &[(f64, f64)], part: fn(&(f64, f64)) -> f64| {
        median_of(&mut side.iter().map(part).collect::<Vec<f64>>())
    };
    let rise = middle(after, |point| point.1)? - middle(before, |point| point.1)?;
    let time_between = middle(after, |point| point.0)? - middle(before, |point| point.0)?;
    Some(rise - trend * time_between).filter(|step| step.is_finite())
}

fn slopes(side: &[(f64, f64)], readings: usize) -> Vec<f64> {
    let points = thin(side, readings);
    let pairs = points.iter().enumerate().flat_map(|(i, a)| points[i + 1..].iter().map(move |b| (a, b)));
    pairs.filter(|(a, b)| a.0 != b.0).map(|(a, b)| (b.1 - a.1) / (b.0 - a.0)).collect()
}

#[cfg(test)]
mod tests;
