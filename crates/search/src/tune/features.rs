//! What a model sees of a candidate.

use std::collections::BTreeMap;

use crate::tune::space::{Candidate, Space};

/// How far apart on a setting's scale two levels act alike.
const REACH: f64 = 0.35;

#[derive(Debug, Clone)]
pub(crate) struct Features {
    base: usize,
    family: usize,
    /// For each setting of the family, in one order: what it is set to.
    levels: Vec<SetTo>,
    candidate: Candidate,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct SetTo {
    /// The same for equal values; 0 at its default, or not there.
    value: usize,
    position: Option<f64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Names {
    families: Vec<Family>,
}

#[derive(Debug, Clone)]
struct Family {
    name: String,
    /// By name of the setting, the values by their number.
    settings: BTreeMap<String, Vec<String>>,
}

impl Names {
    pub(crate) fn of(space: &Space) -> Self {
        let mut families: Vec<Family> = Vec::new();
        for base in &space.bases {
            let at = families.iter().position(|family| family.name == base.family).unwrap_or_else(|| {
                families.push(Family { name: base.family.clone(), settings: BTreeMap::new() });
                families.len() - 1
            });
            for setting in &base.settings {
                let values = families[at].settings.entry(setting.name.clone()).or_default();
                for value in setting.levels.iter().filter_map(|level| level.value.as_ref()) {
                    if !values.contains(value) {
                        values.push(value.clone());
                    }
                }
            }
        }
        Self { families }
    }

    pub(crate) fn features(&self, space: &Space, candidate: &Candidate) -> Features {
        let base = &space.bases[candidate.base];
        let family = self.families.iter().position(|family| family.name == base.family).unwrap_or(0);
        let set_to = |(name, values): (&String, &Vec<String>)| {
            let plain = SetTo { value: 0, position: None };
            let Some(at) = base.settings.iter().position(|setting| setting.name == *name) else {
                return plain;
            };
            let level = &base.settings[at].levels[candidate.levels[at]];
            let number =
                level.value.as_ref().and_then(|value| values.iter().position(|known| known == value));
            SetTo { value: number.map_or(0, |number| number + 1), position: level.position }
        };
        Features {
            base: candidate.base,
            family,
            levels: self.families[family].settings.iter().map(set_to).collect(),
            candidate: candidate.clone(),
        }
    }
}

impl SetTo {
    /// 1 for the same, less the farther apart; 0 where nothing is known of nearness.
    fn nearness(self, other: Self) -> f64 {
        match (self.position, other.position) {
            _ if self.value == other.value => 1.0,
            (Some(a), Some(b)) => (-((a - b) / REACH).powi(2) / 2.0).exp(),
            _ => 0.0,
        }
    }
}

impl Features {
    /// How alike two candidates are before anything is measured: covariance of their logs in units of the variance between
    /// candidates. It has a part of the family, of the version, of each setting alone (the same in all versions), of all
    /// settings together, and of the candidate itself.
    pub(crate) fn covariance(&self, other: &Self) -> f64 {
        if self.family != other.family {
            return 0.0;
        }
        let nearness = || self.levels.iter().zip(&other.levels).map(|(a, b)| a.nearness(*b));
        let each =
            if self.levels.is_empty() { 1.0 } else { nearness().sum::<f64>() / self.levels.len() as f64 };
        let same_base = f64::from(u8::from(self.base == other.base));
        let own = f64::from(u8::from(self.candidate == other.candidate));
        0.2 + 0.3 * same_base + 0.5 * each + 0.3 * same_base * nearness().product::<f64>() + 0.02 * own
    }
}
