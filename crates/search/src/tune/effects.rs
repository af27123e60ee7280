//! What each setting does by itself.

use serde::{Deserialize, Serialize};

use crate::tune::features::Features;
use crate::tune::model::Model;
use crate::tune::space::{Candidate, Space};

/// A level of a setting against the setting's first level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub base: String,
    pub setting: String,
    pub value: String,
    /// Measured candidates with this value.
    pub candidates: usize,
    /// Log ratio, in the mean over the measured candidates of the base with everything else left as it is in them.
    pub log_ratio: f64,
    /// Standard deviation of that belief.
    pub sd: f64,
}

/// Of a model and the candidates that it knows. Effects are of values that were measured at least once.
pub(crate) fn effects(space: &Space, model: &Model, measured: &[Candidate]) -> Vec<Effect> {
    let mut found = Vec::new();
    for (base, of) in space.bases.iter().enumerate() {
        let known: Vec<&Candidate> = measured.iter().filter(|candidate| candidate.base == base).collect();
        for (at, setting) in of.settings.iter().enumerate() {
            for (level, value) in setting.levels.iter().enumerate().skip(1) {
                let candidates = known.iter().filter(|candidate| candidate.levels[at] == level).count();
                if candidates == 0 {
                    continue;
                }
                if let Some((log_ratio, sd)) = effect(space, model, &known, at, level) {
                    let (setting, value) = (setting.name.clone(), value.value.clone().unwrap_or_default());
                    found.push(Effect { base: of.name.clone(), setting, value, candidates, log_ratio, sd });
                }
            }
        }
    }
    found
}

/// The mean difference between a level of a setting and its first level over those candidates that can have both.
fn effect(
    space: &Space,
    model: &Model,
    over: &[&Candidate],
    setting: usize,
    level: usize,
) -> Option<(f64, f64)> {
    let with = |candidate: &Candidate, level: usize| {
        let mut changed = candidate.clone();
        changed.levels[setting] = level;
        let is_whole = space.canonical(changed.clone()).is_some_and(|canonical| canonical == changed);
        is_whole.then(|| Features::of(space, &changed))
    };
    let pairs: Vec<_> =
        over.iter().filter_map(|candidate| Some((with(candidate, level)?, with(candidate, 0)?))).collect();
    let weight = 1.0 / pairs.len() as f64;
    let sum: Vec<(f64, &_)> =
        pairs.iter().flat_map(|(own, plain)| [(weight, own), (-weight, plain)]).collect();
    (!sum.is_empty()).then(|| {
        let (mean, variance) = model.of_sum(&sum);
        (mean, variance.sqrt())
    })
}
