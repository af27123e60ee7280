//! Allocators and settings that a search chooses from.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use serde::{Deserialize, Serialize};

/// Allocators with the settings that are searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Space {
    pub bases: Vec<Base>,
}

/// An allocator of one version, with what may be set of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Base {
    /// Its spec, such as `mimalloc@2.0.9`.
    pub name: String,
    /// Its family: settings of one name mean the same within it.
    pub family: String,
    pub settings: Vec<Setting>,
}

/// A setting and the levels that are tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    pub name: String,
    /// At least one. The first is the one that it has where it does not matter.
    pub levels: Vec<Level>,
    /// Other settings without which it does nothing.
    pub needs: Vec<Needs>,
    /// Positions of earlier settings that cannot be set together with it.
    pub excludes: Vec<usize>,
}

/// A level of a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// The value; `None` leaves it at its default.
    pub value: Option<String>,
    /// Where on the setting's scale, from 0 to 1: levels that are near each other probably act alike. `None` for words.
    pub position: Option<f64>,
}

/// A setting does something only where another has this value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Needs {
    /// Position of the other setting, an earlier one.
    pub setting: usize,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Candidate {
    pub base: usize,
    /// For each of its settings the position of the level.
    pub levels: Vec<usize>,
}

impl Space {
    /// Candidates at most, with those that differ in what does nothing.
    pub fn size_at_most(&self) -> f64 {
        let of =
            |base: &Base| base.settings.iter().map(|setting| setting.levels.len() as f64).product::<f64>();
        self.bases.iter().map(of).sum()
    }

    /// Every candidate once, in order; `None` where there may be more than `most`.
    pub fn all(&self, most: usize) -> Option<Vec<Candidate>> {
        if self.size_at_most() > most as f64 {
            return None;
        }
        let mut found = BTreeSet::new();
        for (base, of) in self.bases.iter().enumerate() {
            let mut levels = vec![0; of.settings.len()];
            loop {
                found.extend(self.canonical(Candidate { base, levels: levels.clone() }));
                // Counts on, the first setting fastest.
                let Some(at) = (0..levels.len()).find(|at| levels[*at] + 1 < of.settings[*at].levels.len())
                else {
                    break;
                };
                levels[at] += 1;
                levels[..at].fill(0);
            }
        }
        Some(found.into_iter().collect())
    }

    /// The same candidate with settings that would do nothing at their first level. `None` where it cannot be: a setting without which
    /// another does nothing, or two that exclude each other, and no level that leaves them at their default.
    pub fn canonical(&self, mut candidate: Candidate) -> Option<Candidate> {
        let settings = &self.bases.get(candidate.base)?.settings;
        for (at, setting) in settings.iter().enumerate() {
            let value = |at: usize, levels: &[usize]| settings[at].levels[levels[at]].value.as_deref();
            if value(at, &candidate.levels).is_none() {
                continue;
            }
            let idle = setting
                .needs
                .iter()
                .any(|needs| value(needs.setting, &candidate.levels) != Some(needs.value.as_str()));
            let excluded = setting.excludes.iter().any(|other| value(*other, &candidate.levels).is_some());
            if idle || excluded {
                setting.levels[0].value.is_none().then_some(())?;
                candidate.levels[at] = 0;
            }
        }
        Some(candidate)
    }

    /// The candidate that a spec is, in whatever order it has its settings.
    pub fn find(&self, spec: &str) -> Option<Candidate> {
        let (build, mut settings) = parts(spec);
        let at = self.bases.iter().position(|base| parts(&base.name).0 == build)?;
        let base = &self.bases[at];
        let given = parts(&base.name).1;
        given.iter().all(|own| settings.remove(own)).then_some(())?;
        let mut rest: BTreeMap<&str, &str> = settings.into_iter().collect();
        let levels = base.settings.iter().map(|setting| {
            let value = rest.remove(setting.name.as_str());
            setting.levels.iter().position(|level| level.value.as_deref() == value)
        });
        let candidate = Candidate { base: at, levels: levels.collect::<Option<_>>()? };
        self.canonical(candidate.clone()).filter(|found| rest.is_empty() && *found == candidate)
    }

    /// The bases with default settings, or at the first level where that is not allowed.
    pub fn defaults(&self) -> impl Iterator<Item = Candidate> + '_ {
        let plain = |(base, of): (usize, &Base)| Candidate { base, levels: vec![0; of.settings.len()] };
        self.bases.iter().enumerate().map(plain).filter_map(|candidate| self.canonical(candidate))
    }

    /// A candidate in which about half of the settings are left at their first level.
    pub fn random(&self, random: &mut impl Rng) -> Option<Candidate> {
        let base = (!self.bases.is_empty()).then(|| random.random_range(0..self.bases.len()))?;
        let levels = self.bases[base].settings.iter().map(|setting| match random.random_bool(0.5) {
            true => 0,
            false => random.random_range(0..setting.levels.len()),
        });
        let levels = levels.collect();
        self.canonical(Candidate { base, levels })
    }

    /// Candidates that differ in one setting.
    pub fn neighbours(&self, candidate: &Candidate) -> Vec<Candidate> {
        let settings = &self.bases[candidate.base].settings;
        let changed = settings.iter().enumerate().flat_map(|(at, setting)| {
            (0..setting.levels.len()).map(move |level| {
                let mut other = candidate.clone();
                other.levels[at] = level;
                other
            })
        });
        let found: BTreeSet<Candidate> = changed.filter_map(|other| self.canonical(other)).collect();
        found.into_iter().filter(|other| other != candidate).collect()
    }

    /// The spec of a candidate.
    pub fn name(&self, candidate: &Candidate) -> String {
        let base = &self.bases[candidate.base];
        let mut name = base.name.clone();
        for (setting, value) in self.values(candidate) {
            name.push(if name.contains('?') { '&' } else { '?' });
            name.push_str(&format!("{setting}={value}"));
        }
        name
    }

    pub fn values<'a>(&'a self, candidate: &'a Candidate) -> impl Iterator<Item = (&'a str, &'a str)> {
        let settings = self.bases[candidate.base].settings.iter().zip(&candidate.levels);
        settings.filter_map(|(setting, level)| {
            Some((setting.name.as_str(), setting.levels[*level].value.as_deref()?))
        })
    }
}

/// A spec as what is built and the settings that it is given.
fn parts(spec: &str) -> (&str, BTreeSet<(&str, &str)>) {
    let (build, settings) = spec.split_once('?').unwrap_or((spec, ""));
    (build, settings.split('&').filter_map(|setting| setting.split_once('=')).collect())
}
