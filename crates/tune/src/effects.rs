//! What each setting does by itself, and which act otherwise together.

use serde::{Deserialize, Serialize};

use crate::model::Model;
use crate::space::{Candidate, Space};

/// Interactions whose size is below this many standard deviations are not told.
const TOLD: f64 = 2.0;
/// Interactions that are told at most.
const MOST: usize = 10;

/// A level of a setting against the setting's first level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub base: usize,
    pub setting: String,
    pub value: String,
    /// Measured candidates with this value.
    pub candidates: usize,
    /// Log ratio, in the mean over the measured candidates of the base with everything else left as it is in them.
    pub log_ratio: f64,
    /// Standard deviation of that belief.
    pub sd: f64,
}

/// Two levels that together do something other than the sum of what each does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    pub base: usize,
    pub settings: [(String, String); 2],
    /// Log ratio of both together to what each does alone.
    pub log_ratio: f64,
    /// Standard deviation of that belief.
    pub sd: f64,
}

/// Of a model and the candidates that it knows. Effects are of values that were measured at least once.
pub fn effects(space: &Space, model: &Model, measured: &[Candidate]) -> (Vec<Effect>, Vec<Interaction>) {
    let mut singles = Vec::new();
    let mut pairs = Vec::new();
    for (base, of) in space.bases.iter().enumerate() {
        let known: Vec<&Candidate> = measured.iter().filter(|candidate| candidate.base == base).collect();
        let tried = |setting: usize, level: usize| {
            known.iter().filter(|candidate| candidate.levels[setting] == level).count()
        };
        let levels: Vec<(usize, usize)> = (0..of.settings.len())
            .flat_map(|setting| (1..of.settings[setting].levels.len()).map(move |level| (setting, level)))
            .filter(|(setting, level)| tried(*setting, *level) > 0)
            .collect();
        let value = |(setting, level): (usize, usize)| {
            let setting = &of.settings[setting];
            (setting.name.clone(), setting.levels[level].value.clone().unwrap_or_default())
        };
        let belief = |contrast: &[(f64, &[(usize, usize)])]| contrast_of(space, model, &known, contrast);
        for at in &levels {
            let plain = (at.0, 0);
            if let Some((log_ratio, sd)) = belief(&[(1.0, &[*at]), (-1.0, &[plain])]) {
                let ((setting, value), candidates) = (value(*at), tried(at.0, at.1));
                singles.push(Effect { base, setting, value, candidates, log_ratio, sd });
            }
        }
        for (number, a) in levels.iter().enumerate() {
            for b in levels[number + 1..].iter().filter(|b| b.0 != a.0) {
                let (plain_a, plain_b) = ((a.0, 0), (b.0, 0));
                let contrast: [(f64, &[(usize, usize)]); 4] = [
                    (1.0, &[*a, *b]),
                    (-1.0, &[*a, plain_b]),
                    (-1.0, &[plain_a, *b]),
                    (1.0, &[plain_a, plain_b]),
                ];
                let found = belief(&contrast).filter(|(log_ratio, sd)| log_ratio.abs() > TOLD * sd);
                if let Some((log_ratio, sd)) = found {
                    pairs.push(Interaction { base, settings: [value(*a), value(*b)], log_ratio, sd });
                }
            }
        }
    }
    pairs.sort_by(|a, b| b.log_ratio.abs().total_cmp(&a.log_ratio.abs()));
    pairs.truncate(MOST);
    (singles, pairs)
}

/// The mean of a contrast over the candidates, each with some settings put at other levels.
fn contrast_of(
    space: &Space,
    model: &Model,
    over: &[&Candidate],
    contrast: &[(f64, &[(usize, usize)])],
) -> Option<(f64, f64)> {
    let contexts = over.iter().filter_map(|candidate| {
        let parts = contrast.iter().map(|(weight, levels)| {
            let mut changed = (*candidate).clone();
            levels.iter().for_each(|(setting, level)| changed.levels[*setting] = *level);
            let whole = space.canonical(changed.clone()).is_some_and(|canonical| canonical == changed);
            whole.then(|| (*weight, model.features(space, &changed)))
        });
        parts.collect::<Option<Vec<_>>>()
    });
    let contexts: Vec<Vec<_>> = contexts.collect();
    let count = contexts.len() as f64;
    let sum: Vec<(f64, &_)> =
        contexts.iter().flatten().map(|(weight, features)| (weight / count, features)).collect();
    (!sum.is_empty()).then(|| {
        let (mean, variance) = model.of_sum(&sum);
        (mean, variance.sqrt())
    })
}
