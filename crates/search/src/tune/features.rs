//! What a model sees of a candidate.

use std::collections::BTreeSet;

use crate::tune::space::{Candidate, Level, Space};

/// How far apart on a setting's scale two levels act alike.
const REACH: f64 = 0.35;

#[derive(Debug, Clone)]
pub(crate) struct Features {
    family: String,
    /// For each setting of the family, in one order: what it is set to; the default where the base does not have it.
    levels: Vec<Level>,
    candidate: Candidate,
}

impl Features {
    pub(crate) fn of(space: &Space, candidate: &Candidate) -> Self {
        let own = &space.bases[candidate.base];
        let of_family = space.bases.iter().filter(|base| base.family == own.family);
        let names: BTreeSet<&str> =
            of_family.flat_map(|base| &base.settings).map(|setting| setting.name.as_str()).collect();
        let level = |name: &str| match own.settings.iter().position(|setting| setting.name == name) {
            Some(at) => own.settings[at].levels[candidate.levels[at]].clone(),
            None => Level { value: None, position: None },
        };
        Self {
            family: own.family.clone(),
            levels: names.into_iter().map(level).collect(),
            candidate: candidate.clone(),
        }
    }

    /// How alike two candidates are before anything is measured: covariance of their logs in units of the variance between
    /// candidates. It has a part of the family, of the version, of each setting alone (the same in all versions), of all
    /// settings together, and of the candidate itself.
    pub(crate) fn covariance(&self, other: &Self) -> f64 {
        if self.family != other.family {
            return 0.0;
        }
        let nearness = || self.levels.iter().zip(&other.levels).map(|(a, b)| nearness(a, b));
        let each =
            if self.levels.is_empty() { 1.0 } else { nearness().sum::<f64>() / self.levels.len() as f64 };
        let same_base = f64::from(u8::from(self.candidate.base == other.candidate.base));
        let own = f64::from(u8::from(self.candidate == other.candidate));
        0.2 + 0.3 * same_base + 0.5 * each + 0.3 * same_base * nearness().product::<f64>() + 0.02 * own
    }
}

/// 1 for the same, less the farther apart; 0 where nothing is known of nearness.
fn nearness(a: &Level, b: &Level) -> f64 {
    match (a.position, b.position) {
        _ if a.value == b.value => 1.0,
        (Some(a), Some(b)) => (-((a - b) / REACH).powi(2) / 2.0).exp(),
        _ => 0.0,
    }
}
