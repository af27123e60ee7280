//! What can be chosen.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use serde::{Deserialize, Serialize};

/// Allocators with the settings that are searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// One for each allocator and version.
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
    /// The value; `None` leaves it as it comes.
    pub value: Option<String>,
    /// Where on the setting's scale, from 0 to 1: levels that are near each other probably act alike. `None` for words.
    pub position: Option<f64>,
}

/// A setting does something only where another has one of these values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Needs {
    /// Position of the other setting, an earlier one.
    pub setting: usize,
    pub values: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Candidate {
    pub base: usize,
    /// For each of its settings the position of the level.
    pub levels: Vec<usize>,
}

impl Space {
    /// Candidates at most, those counted twice that come to the same.
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

    /// The same candidate with settings that would do nothing at their first level, and of the first base that has it: what one
    /// base is given may be a choice of another. `None` where it cannot be: a setting without which another does nothing, or two
    /// that exclude each other, and no level that leaves them as they come.
    pub fn canonical(&self, candidate: Candidate) -> Option<Candidate> {
        let whole = self.effective(candidate)?;
        let earlier = &self.bases[..whole.base];
        if !earlier.iter().any(|base| base.build() == self.bases[whole.base].build()) {
            return Some(whole);
        }
        self.find(&self.name(&whole)).or(Some(whole))
    }

    /// The first candidate that a spec is, in whatever order it has its settings.
    pub fn find(&self, spec: &str) -> Option<Candidate> {
        let (build, settings) = parts(spec);
        let bases = self.bases.iter().enumerate().filter(|(_, base)| base.build() == build);
        bases.into_iter().find_map(|(at, base)| {
            let (_, given) = parts(&base.name);
            let set = settings.iter().filter(|setting| !given.contains(setting));
            let mut rest: BTreeMap<&str, &str> = set.copied().collect();
            if !given.iter().all(|own| settings.contains(own)) {
                return None;
            }
            let levels = base.settings.iter().map(|setting| {
                let value = rest.remove(setting.name.as_str());
                setting.levels.iter().position(|level| level.value.as_deref() == value)
            });
            let levels = levels.collect::<Option<Vec<usize>>>()?;
            let candidate = Candidate { base: at, levels };
            let same = rest.is_empty() && self.effective(candidate.clone()).as_ref() == Some(&candidate);
            same.then_some(candidate)
        })
    }

    fn effective(&self, mut candidate: Candidate) -> Option<Candidate> {
        let settings = &self.bases.get(candidate.base)?.settings;
        for (at, setting) in settings.iter().enumerate() {
            let value = |at: usize, levels: &[usize]| settings[at].levels[levels[at]].value.as_deref();
            if value(at, &candidate.levels).is_none() {
                continue;
            }
            let idle = setting.needs.iter().any(|needs| {
                let has = value(needs.setting, &candidate.levels);
                !has.is_some_and(|has| needs.values.iter().any(|wanted| wanted == has))
            });
            let excluded = setting.excludes.iter().any(|other| value(*other, &candidate.levels).is_some());
            if idle || excluded {
                setting.levels[0].value.is_none().then_some(())?;
                candidate.levels[at] = 0;
            }
        }
        Some(candidate)
    }

    /// The bases with everything as it comes, or at the first level where that is not allowed; each once.
    pub fn defaults(&self) -> impl Iterator<Item = Candidate> + '_ {
        let plain = |(base, of): (usize, &Base)| Candidate { base, levels: vec![0; of.settings.len()] };
        let mut seen = BTreeSet::new();
        let all = self.bases.iter().enumerate().map(plain);
        all.filter_map(|candidate| self.canonical(candidate))
            .filter(move |candidate| seen.insert(candidate.clone()))
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

impl Base {
    /// What is built of it, such as `mimalloc@2.0.9`, without what it is given.
    fn build(&self) -> &str {
        parts(&self.name).0
    }
}

/// A spec as what is built and the settings that it is given.
fn parts(spec: &str) -> (&str, BTreeSet<(&str, &str)>) {
    let (build, settings) = spec.split_once('?').unwrap_or((spec, ""));
    (build, settings.split('&').filter_map(|setting| setting.split_once('=')).collect())
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn setting(name: &str, values: &[&str]) -> Setting {
        let plain = Level { value: None, position: None };
        let given = values.iter().map(|value| Level { value: Some((*value).to_owned()), position: None });
        Setting {
            name: name.to_owned(),
            levels: std::iter::once(plain).chain(given).collect(),
            needs: Vec::new(),
            excludes: Vec::new(),
        }
    }

    fn space() -> Space {
        let mut threads = setting("threads", &["1", "2"]);
        threads.needs.push(Needs { setting: 0, values: vec!["true".to_owned()] });
        let mut other = setting("lg_max", &["3"]);
        other.excludes.push(2);
        let settings = vec![setting("background", &["true"]), threads, setting("max", &["8", "64"]), other];
        let base = |name: &str, settings| Base { name: name.to_owned(), family: "j".to_owned(), settings };
        Space { bases: vec![base("j@1", settings), base("j@2?fixed=1", vec![setting("max", &["8"])])] }
    }

    #[test]
    fn every_candidate_is_there_once_and_nothing_that_does_nothing() {
        let space = space();
        let all = space.all(100).unwrap();
        // background off: 1; on: 3 of threads. Times unset, 2 of max, 1 of lg_max.
        assert_eq!(all.len(), 4 * 4 + 2);
        let names: Vec<String> = all.iter().map(|candidate| space.name(candidate)).collect();
        assert!(names.contains(&"j@1?background=true&threads=2&max=64".to_owned()), "{names:?}");
        assert!(names.contains(&"j@2?fixed=1&max=8".to_owned()), "{names:?}");
        assert!(!names.iter().any(|name| name.contains("max=8&lg_max") || name.contains("j@1?threads")));
        assert_eq!(space.all(37), None);
    }

    #[test]
    fn random_ones_and_neighbours_are_among_them() {
        let space = space();
        let all = space.all(100).unwrap();
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..200 {
            let candidate = space.random(&mut random).unwrap();
            assert!(all.contains(&candidate));
            let neighbours = space.neighbours(&candidate);
            assert!(neighbours.iter().all(|other| all.contains(other) && *other != candidate));
        }
    }

    #[test]
    fn what_two_bases_come_to_is_one_candidate() {
        let base = |name: &str, settings| Base { name: name.to_owned(), family: "g".to_owned(), settings };
        let two = || vec![setting("max", &["2", "4"]), setting("pad", &["1"])];
        let mut space = Space {
            bases: vec![base("g", two()), base("g?max=2", vec![setting("pad", &["1"])]), base("g@1", two())],
        };
        let names = |space: &Space| {
            let all = space.all(100).unwrap();
            let names: BTreeSet<String> = all.iter().map(|one| space.name(one)).collect();
            assert_eq!(names.len(), all.len(), "{names:?}");
            names
        };
        assert_eq!(names(&space).len(), 12);
        let defaults: Vec<String> = space.defaults().map(|one| space.name(&one)).collect();
        assert_eq!(defaults, ["g", "g?max=2", "g@1"]);
        assert_eq!(space.find("g?pad=1&max=2"), Some(Candidate { base: 0, levels: vec![1, 1] }));
        assert_eq!([space.find("g?max=3"), space.find("g?other=1"), space.find("h")], [None, None, None]);
        // Of a value that the first does not have, the second has its own.
        space.bases[1].name = "g?max=3".to_owned();
        assert_eq!(names(&space).len(), 14);
        assert_eq!(space.find("g?max=3&pad=1"), Some(Candidate { base: 1, levels: vec![1] }));
    }

    #[test]
    fn what_may_not_be_left_as_it_comes_is_set_in_all() {
        let mut space = space();
        space.bases[0].settings[2].levels.remove(0);
        let all = space.all(100).unwrap();
        assert!(all.iter().filter(|one| one.base == 0).all(|one| space.name(one).contains("max=")));
        // What excludes it is never set.
        assert!(!all.iter().any(|one| space.name(one).contains("lg_max")));
    }
}
