//! What a search over settings may try: ranges of the catalog as levels.

use heaptrial_model::{AllocatorSpec, Version};
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, Family, SettingEntry, SettingKind};
use crate::mitigation::MitigationState;
use crate::resolve::{ResolveError, check_value};

/// What a search tries of a setting.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchRange {
    /// First end of a range, included.
    pub from: Option<f64>,
    /// Its other end, included.
    pub to: Option<f64>,
    /// How levels are spread over the range.
    #[serde(default)]
    pub scale: Scale,
    /// Values beside the range.
    #[serde(default)]
    pub values: Vec<String>,
    /// Whether setting it to its default is something else than leaving it alone.
    #[serde(default)]
    pub fixes: bool,
    /// Settings without which it does nothing.
    #[serde(default)]
    pub needs: Vec<heaptrial_model::Setting>,
    /// Settings with which it does nothing, or cannot be set.
    #[serde(default)]
    pub excludes: Vec<String>,
    /// What it costs in security.
    pub mitigation: Option<MitigationBySetting>,
    /// Whether it is searched where no settings are named.
    #[serde(default)]
    pub usual: bool,
}

/// How levels are spread over a range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Each is the one before and a constant.
    #[default]
    Linear,
    /// Each is the one before times a constant.
    Log,
}

/// A mitigation that a setting turns off or on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MitigationBySetting {
    /// One of [`crate::MITIGATIONS`].
    pub name: String,
    /// Values at which it is not there.
    pub absent_at: Vec<String>,
}

/// A level of a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchLevel {
    /// Its value; `None` leaves the setting as it comes.
    pub value: Option<String>,
    /// Where on the range, from 0 to 1; `None` for words and for what lies beside it.
    pub position: Option<f64>,
}

/// What somebody wants tried of a setting.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Narrowed {
    /// The setting.
    pub name: String,
    /// These values, as it comes, and no others; without them what the catalog has.
    pub values: Vec<String>,
    /// The catalog's scale between these ends.
    pub range: Option<(f64, f64)>,
    /// Levels over the range.
    pub levels: Option<usize>,
}

/// A setting with its levels, the one as it comes first.
#[derive(Debug, Clone, PartialEq)]
pub struct Searched {
    /// Its name.
    pub name: String,
    /// Its levels.
    pub levels: Vec<SearchLevel>,
}

/// Why a spec cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// A part that the catalog does not know.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A named mitigation that is none.
    #[error("there is no mitigation `{name}`\n  known: {}", .known.join(", "))]
    UnknownMitigation {
        /// What was named.
        name: String,
        /// All.
        known: Vec<String>,
    },
    /// The build does not have a mitigation that is to be kept, whatever is set.
    #[error("{spec} has no {mitigation}{}", .by.as_ref().map_or(String::new(), |by| format!(" unless `{by}` is set, and none of its values that give it are searched")))]
    WithoutMitigation {
        /// The allocator.
        spec: AllocatorSpec,
        /// The mitigation.
        mitigation: String,
        /// The setting that gives it.
        by: Option<String>,
    },
}

impl heaptrial_model::Classified for SearchError {
    fn class(&self) -> heaptrial_model::ErrorClass {
        heaptrial_model::ErrorClass::Usage
    }
}

impl SettingEntry {
    /// The levels of its range in a version, at most `most` of them over the range, both ends among them, and its further
    /// values; the first leaves it as it comes. Only that one where there is nothing to search.
    pub fn search_levels(&self, version: Option<&Version>, most: usize) -> Vec<SearchLevel> {
        self.levels_over(version, most, None)
    }

    fn levels_over(
        &self,
        version: Option<&Version>,
        most: usize,
        over: Option<(f64, f64)>,
    ) -> Vec<SearchLevel> {
        let default = match version {
            Some(version) => self.range(version).and_then(|range| range.default.clone()),
            None => self.in_versions.first().and_then(|range| range.default.clone()),
        };
        let mut levels = vec![SearchLevel { value: None, position: None }];
        let Some(search) = &self.search else { return levels };
        let is_default =
            |value: &str| !search.fixes && default.as_deref().is_some_and(|known| same(known, value));
        if let Some((from, to)) = over.or(search.from.zip(search.to)) {
            let place = |value: f64| match search.scale {
                Scale::Linear => (value - from) / (to - from),
                Scale::Log => (value / from).ln() / (to / from).ln(),
            };
            if !search.fixes {
                let number = default.as_ref().and_then(|value| value.parse::<f64>().ok());
                levels[0].position = number.map(place).filter(|at| (0.0..=1.0).contains(at));
            }
            let steps = most.max(2);
            for step in 0..steps {
                let value = self.at(from, to, step as f64 / (steps - 1) as f64, search.scale);
                let position = value.parse().ok().map(place);
                let is_new = levels.iter().all(|level| level.value.as_deref() != Some(value.as_str()));
                if is_new && !is_default(&value) {
                    levels.push(SearchLevel { value: Some(value), position });
                }
            }
        }
        let beside = search.values.iter().filter(|value| over.is_none() && !is_default(value));
        for value in beside {
            levels.push(SearchLevel { value: Some(value.clone()), position: None });
        }
        levels
    }

    /// The value at a share of the range: a power of two between powers of two, else of two digits.
    fn at(&self, from: f64, to: f64, share: f64, scale: Scale) -> String {
        let value = match scale {
            Scale::Linear => from + share * (to - from),
            Scale::Log => from * (to / from).powf(share),
        };
        let is_power = |value: f64| value >= 1.0 && value.log2().fract() == 0.0;
        let rounded = match scale {
            _ if share == 0.0 || share == 1.0 => value,
            Scale::Log if is_power(from) && is_power(to) => value.log2().round().exp2(),
            Scale::Log => {
                let digits = 10f64.powf(value.abs().log10().floor() - 1.0);
                (value / digits).round() * digits
            }
            Scale::Linear => value,
        };
        match self.kind {
            SettingKind::Number => format!("{}", (rounded * 1e6).round() / 1e6),
            _ => format!("{:.0}", rounded.round()),
        }
    }
}

/// Whether two texts are one value: `1` and `true`, `1.0` and `1`.
fn same(a: &str, b: &str) -> bool {
    let number = |text: &str| match text {
        "true" => Some(1.0),
        "false" => Some(0.0),
        _ => text.parse::<f64>().ok(),
    };
    a == b || number(a).is_some_and(|value| Some(value) == number(b))
}

impl Catalog {
    /// The settings of a spec that a search tries, with their levels. Those of `named` are searched in place of the usual ones; what
    /// the spec sets by itself is not searched. Levels without a mitigation of `keep` are left out; an error where the build
    /// has it at no level.
    pub fn searched(
        &self,
        spec: &AllocatorSpec,
        named: &[Narrowed],
        keep: &[String],
        levels: usize,
    ) -> Result<Vec<Searched>, SearchError> {
        let resolved = self.resolve(spec)?;
        let family = &resolved.family;
        let version = spec.version.as_ref();
        let there = |entry: &&SettingEntry| version.is_none_or(|version| entry.range(version).is_some());
        let free = |entry: &&SettingEntry| spec.settings.iter().all(|setting| setting.name != entry.name);
        let asked = |entry: &SettingEntry| match named {
            [] => entry.search.as_ref().is_some_and(|search| search.usual),
            _ => named.iter().any(|narrowed| narrowed.name == entry.name),
        };
        let gives = |entry: &SettingEntry| {
            let mitigation = entry.search.as_ref().and_then(|search| search.mitigation.clone());
            mitigation.filter(|mitigation| keep.contains(&mitigation.name))
        };
        let mut found: Vec<Searched> = Vec::new();
        for entry in family.settings.iter().filter(there).filter(free) {
            let kept = gives(entry);
            if !asked(entry) && kept.is_none() {
                continue;
            }
            let own = named.iter().find(|narrowed| narrowed.name == entry.name);
            let mut all = entry.narrowed_levels(version, levels, own)?;
            if let Some(kept) = kept {
                let default = entry.default_in(version);
                let absent = |value: Option<&str>| {
                    let value = value.or(default.as_deref());
                    value.is_none_or(|value| kept.absent_at.iter().any(|absent| same(absent, value)))
                };
                all.retain(|level| !absent(level.value.as_deref()));
                if !asked(entry) && all.first().is_some_and(|level| level.value.is_none()) {
                    continue;
                }
            }
            if all.len() > 1 || all.first().is_some_and(|level| level.value.is_some()) || all.is_empty() {
                found.push(Searched { name: entry.name.clone(), levels: all });
            }
        }
        for name in keep {
            self.keeps(spec, family, name, &found)?;
        }
        found.retain(|searched| !searched.levels.is_empty());
        Ok(found)
    }

    /// Whether a build has a mitigation at the levels that are left.
    fn keeps(
        &self,
        spec: &AllocatorSpec,
        family: &Family,
        name: &str,
        found: &[Searched],
    ) -> Result<(), SearchError> {
        if !crate::MITIGATIONS.contains(&name) {
            let known = crate::MITIGATIONS.iter().map(|known| (*known).to_owned()).collect();
            return Err(SearchError::UnknownMitigation { name: name.to_owned(), known });
        }
        let without = |by: Option<String>| {
            Err(SearchError::WithoutMitigation { spec: spec.clone(), mitigation: name.to_owned(), by })
        };
        let variants = spec.variants.iter().map(|variant| Some(variant.as_str())).chain([None]);
        let state = variants.map(|variant| family.mitigation(name, variant)).find_map(|cell| cell);
        if !state.is_some_and(|cell| matches!(cell.state, MitigationState::Yes | MitigationState::Partial)) {
            return without(None);
        }
        let by: Vec<&SettingEntry> = family
            .settings
            .iter()
            .filter(|entry| {
                let mitigation = entry.search.as_ref().and_then(|search| search.mitigation.as_ref());
                mitigation.is_some_and(|mitigation| mitigation.name == name)
            })
            .collect();
        let Some(first) = by.first() else { return Ok(()) };
        let there = by.iter().any(|entry| {
            let Some(mitigation) = entry.search.as_ref().and_then(|search| search.mitigation.as_ref()) else {
                return false;
            };
            let gives = |value: &str| !mitigation.absent_at.iter().any(|absent| same(absent, value));
            let fixed = spec.settings.iter().find(|setting| setting.name == entry.name);
            let searched = found.iter().find(|searched| searched.name == entry.name);
            match (fixed, searched) {
                (Some(fixed), _) => gives(&fixed.value),
                // Whatever lacks it was left out.
                (None, Some(searched)) => !searched.levels.is_empty(),
                (None, None) => {
                    entry.default_in(spec.version.as_ref()).is_some_and(|default| gives(&default))
                }
            }
        });
        if there { Ok(()) } else { without(Some(first.name.clone())) }
    }
}

impl SettingEntry {
    /// Its default in a version, or in the first that has it.
    fn default_in(&self, version: Option<&Version>) -> Option<String> {
        let range = match version {
            Some(version) => self.range(version),
            None => self.in_versions.first(),
        };
        range?.default.clone()
    }

    /// As it comes and these values, near each other in the order of their size where all are numbers.
    fn given_levels(&self, values: &[String]) -> Result<Vec<SearchLevel>, ResolveError> {
        values.iter().try_for_each(|value| check_value(self, value).map(|_| ()))?;
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
        let position = |value: &str| {
            let (numbers, own) = (numbers.as_ref()?, value.parse::<f64>().ok()?);
            let below = numbers.iter().filter(|number| **number < own).count();
            Some(below as f64 / (numbers.len() - 1).max(1) as f64)
        };
        let given =
            values.iter().map(|value| SearchLevel { value: Some(value.clone()), position: position(value) });
        Ok(std::iter::once(SearchLevel { value: None, position: None }).chain(given).collect())
    }

    fn narrowed_levels(
        &self,
        version: Option<&Version>,
        most: usize,
        narrowed: Option<&Narrowed>,
    ) -> Result<Vec<SearchLevel>, ResolveError> {
        Ok(match narrowed {
            None => self.search_levels(version, most),
            Some(narrowed) if !narrowed.values.is_empty() => self.given_levels(&narrowed.values)?,
            Some(narrowed) => self.levels_over(version, narrowed.levels.unwrap_or(most), narrowed.range),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(spec: &str, named: &[&str], keep: &[&str]) -> Result<Vec<Searched>, SearchError> {
        let named = named.iter().map(|name| Narrowed { name: (*name).to_owned(), ..Narrowed::default() });
        let keep: Vec<String> = keep.iter().map(|name| (*name).to_owned()).collect();
        Catalog::builtin().searched(&spec.parse().unwrap(), &named.collect::<Vec<_>>(), &keep, 5)
    }

    fn values(of: &Searched) -> Vec<&str> {
        of.levels.iter().map(|level| level.value.as_deref().unwrap_or("as it comes")).collect()
    }

    #[test]
    fn ranges_become_levels_with_both_ends_and_without_the_default() {
        let glibc = searched("glibc", &["arena_max", "mmap_threshold"], &[]).unwrap();
        assert_eq!(values(&glibc[0]), ["as it comes", "1", "4", "8", "32", "64"]);
        // As it comes the threshold grows with what is freed, so that its default is a level of its own.
        assert_eq!(values(&glibc[1]), ["as it comes", "4096", "32768", "524288", "4194304", "33554432"]);
        let mimalloc = searched("mimalloc@2.1.7", &["purge_delay"], &[]).unwrap();
        assert_eq!(values(&mimalloc[0]), ["as it comes", "1", "100", "1000", "10000", "0", "-1"]);
    }

    #[test]
    fn values_and_ranges_that_somebody_names_stand_in_for_the_catalogs() {
        let spec = "glibc".parse().unwrap();
        let of = |narrowed: Narrowed| Catalog::builtin().searched(&spec, &[narrowed], &[], 5);
        let name = "trim_threshold".to_owned();
        let given = vec!["4096".to_owned(), "1000000".to_owned()];
        let found = of(Narrowed { name: name.clone(), values: given, ..Narrowed::default() }).unwrap();
        assert_eq!(values(&found[0]), ["as it comes", "4096", "1000000"]);
        assert_eq!(found[0].levels[2].position, Some(1.0));
        let range = Some((65536.0, 1_048_576.0));
        let found =
            of(Narrowed { name: name.clone(), range, levels: Some(3), ..Narrowed::default() }).unwrap();
        assert_eq!(values(&found[0]), ["as it comes", "65536", "262144", "1048576"]);
        let wrong = of(Narrowed { name, values: vec!["much".to_owned()], ..Narrowed::default() });
        assert!(wrong.unwrap_err().to_string().contains("`much` is not a value"));
    }

    #[test]
    fn only_settings_of_the_version_are_searched_and_not_what_is_set_already() {
        let names = |spec: &str| -> Vec<String> {
            searched(spec, &[], &[]).unwrap().into_iter().map(|searched| searched.name).collect()
        };
        let old = names("mimalloc@2.0.9");
        assert!(old.contains(&"decommit_delay".to_owned()) && !old.contains(&"purge_delay".to_owned()));
        assert!(names("mimalloc@2.1.7").contains(&"purge_delay".to_owned()));
        assert!(!names("mimalloc@2.1.7?purge_delay=0").contains(&"purge_delay".to_owned()));
    }

    #[test]
    fn a_mitigation_that_is_kept_leaves_out_what_lacks_it() {
        let kept = searched("jemalloc@5.3.0", &["dirty_decay_ms"], &["guard_pages"]).unwrap();
        let guard = kept.iter().find(|searched| searched.name == "san_guard_small").unwrap();
        assert!(guard.levels.iter().all(|level| level.value.as_deref().is_some_and(|value| value != "0")));
        let glibc = searched("glibc", &["tcache_count"], &["double_free_check"]).unwrap();
        assert!(!values(&glibc[0]).contains(&"0") && values(&glibc[0]).contains(&"as it comes"));
        assert!(searched("mimalloc@2.0.9+secure", &[], &["guard_pages"]).is_ok());
        for (spec, keep, told) in [
            ("mimalloc@2.0.9", "guard_pages", "has no guard_pages"),
            ("jemalloc@5.2.1", "guard_pages", "unless `san_guard_small` is set"),
            ("scudo", "quarantine", "unless `quarantine_size_kb` is set"),
            ("glibc", "armour", "no mitigation `armour`"),
        ] {
            let error = searched(spec, &[], &[keep]).unwrap_err().to_string();
            assert!(error.contains(told), "{spec}: {error}");
        }
    }

    #[test]
    fn every_level_of_the_catalog_is_a_value_of_its_setting() {
        for family in Catalog::builtin().families() {
            for entry in &family.settings {
                let at = format!("{}?{}", family.name, entry.name);
                let Some(search) = &entry.search else { continue };
                assert_eq!(search.from.is_some(), search.to.is_some(), "{at}");
                for level in entry.search_levels(None, 9).iter().filter_map(|level| level.value.as_ref()) {
                    check_value(entry, level).unwrap_or_else(|error| panic!("{at}: {error}"));
                }
                let names = search.needs.iter().map(|needs| &needs.name).chain(&search.excludes);
                for other in names {
                    let before = family.settings.iter().take_while(|known| known.name != entry.name);
                    assert!(
                        before.into_iter().any(|known| known.name == *other),
                        "{at}: {other} stands after it"
                    );
                }
                if let Some(mitigation) = &search.mitigation {
                    assert!(crate::MITIGATIONS.contains(&mitigation.name.as_str()), "{at}");
                    assert!(family.mitigation(&mitigation.name, None).is_some(), "{at}");
                }
            }
        }
    }
}
