//! What a search over settings may try.

use std::collections::BTreeSet;

use heaptrial_model::{AllocatorSpec, Classified, ErrorClass, Setting, Version};
use serde::Deserialize;

use crate::MITIGATIONS;
use crate::catalog::{Catalog, Family, SettingEntry};
use crate::mitigation::MitigationState;
use crate::resolve::{ResolveError, check_value, same_value, unknown};

/// What a search tries of a setting.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// Numbers in the order of their size: those near each other probably act alike.
    #[serde(default, rename = "try")]
    pub numbers: Vec<String>,
    /// Values of which that cannot be said, such as words, or 0 for "never".
    #[serde(default)]
    pub values: Vec<String>,
    /// Whether setting it to its default is something else than leaving it alone.
    #[serde(default)]
    pub fixes: bool,
    #[serde(default)]
    pub needs: Vec<Setting>,
    #[serde(default)]
    pub excludes: Vec<String>,
    pub mitigation: Option<MitigationBySetting>,
    #[serde(default)]
    pub usual: bool,
}

/// A mitigation that a setting turns off or on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MitigationBySetting {
    pub name: String,
    pub absent_at: Vec<String>,
}

/// A level of a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchLevel {
    /// Its value; `None` leaves the setting as it comes.
    pub value: Option<String>,
    /// Where among the numbers, from 0 to 1; `None` for values of no order.
    pub position: Option<f64>,
}

/// What somebody wants tried of a setting.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Narrowed {
    pub name: String,
    /// These values and no others; without them what the catalog has.
    pub values: Vec<String>,
}

/// A setting with its levels, the one as it comes first.
#[derive(Debug, Clone, PartialEq)]
pub struct Searched {
    pub name: String,
    pub levels: Vec<SearchLevel>,
}

/// Why a spec cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error("{spec} has no {mitigation}{}", .by.as_ref().map_or(String::new(), |by| format!(" unless `{by}` is set, and none of its values that give it are searched")))]
    WithoutMitigation { spec: Box<AllocatorSpec>, mitigation: String, by: Option<String> },
}

impl Classified for SearchError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Usage
    }
}

impl MitigationBySetting {
    fn is_there_at(&self, value: &str) -> bool {
        !self.absent_at.iter().any(|absent| same_value(absent, value))
    }
}

impl Catalog {
    /// The settings of a spec that a search tries, with their levels. Those of `named` are searched instead of the usual ones; what
    /// the spec sets by itself is not searched. Levels without a mitigation of `keep` are excluded; an error where the build
    /// has it at no level.
    pub fn searched(
        &self,
        spec: &AllocatorSpec,
        named: &[Narrowed],
        keep: &[String],
    ) -> Result<Vec<Searched>, SearchError> {
        let family = &self.resolve(spec)?.family;
        let version = spec.version.as_ref();
        let (mut found, mut given) = (Vec::new(), BTreeSet::new());
        for entry in &family.settings {
            let kept = entry.mitigation().filter(|mitigation| keep.contains(&mitigation.name));
            if let Some(fixed) = spec.settings.iter().find(|setting| setting.name == entry.name) {
                given.extend(kept.filter(|kept| kept.is_there_at(&fixed.value)).map(|kept| &kept.name));
                continue;
            }
            let own = named.iter().find(|narrowed| narrowed.name == entry.name);
            let is_usual = || entry.search.as_ref().is_some_and(|search| search.usual);
            let is_asked = own.is_some() || (named.is_empty() && is_usual());
            let is_there = version.is_none_or(|version| entry.range(version).is_some());
            if !is_there || (!is_asked && kept.is_none()) {
                continue;
            }
            let mut levels = match own {
                Some(own) if !own.values.is_empty() => entry.given_levels(version, &own.values)?,
                _ => entry.search_levels(version),
            };
            if let Some(kept) = kept {
                let default = entry.default_in(version);
                levels.retain(|level| {
                    let value = level.value.as_deref().or(default.as_deref());
                    value.is_some_and(|value| kept.is_there_at(value))
                });
            }
            let Some(first) = levels.first() else { continue };
            given.extend(kept.map(|kept| &kept.name));
            let nothing_to_try = first.value.is_none() && (levels.len() == 1 || !is_asked);
            if !nothing_to_try {
                found.push(Searched { name: entry.name.clone(), levels });
            }
        }
        for name in keep {
            check_kept(spec, family, name, given.contains(name))?;
        }
        Ok(found)
    }
}

/// Whether a build has a mitigation, by a setting where there is one for it: `is_given` is whether any level gives it.
fn check_kept(spec: &AllocatorSpec, family: &Family, name: &str, is_given: bool) -> Result<(), SearchError> {
    if !MITIGATIONS.contains(&name) {
        return Err(unknown("there is no mitigation", name, &MITIGATIONS).into());
    }
    let variants = spec.variants.iter().map(|variant| Some(variant.as_str())).chain([None]);
    let cell = variants.map(|variant| family.mitigation(name, variant)).find_map(|cell| cell);
    let has_it =
        cell.is_some_and(|cell| matches!(cell.state, MitigationState::Yes | MitigationState::Partial));
    let gives_it = |entry: &&SettingEntry| entry.mitigation().is_some_and(|by| by.name == name);
    let by = family.settings.iter().find(gives_it);
    if has_it && (is_given || by.is_none()) {
        return Ok(());
    }
    let (spec, mitigation) = (Box::new(spec.clone()), name.to_owned());
    let by = by.filter(|_| has_it).map(|entry| entry.name.clone());
    Err(SearchError::WithoutMitigation { spec, mitigation, by })
}

impl SettingEntry {
    fn mitigation(&self) -> Option<&MitigationBySetting> {
        self.search.as_ref()?.mitigation.as_ref()
    }

    /// What a search tries in a version; the first leaves the setting as it is by default. Only that one where there is nothing to
    /// search.
    fn search_levels(&self, version: Option<&Version>) -> Vec<SearchLevel> {
        let Some(search) = &self.search else { return vec![SearchLevel { value: None, position: None }] };
        let default = self.default_in(version).filter(|_| !search.fixes);
        let numbers: Vec<f64> = search.numbers.iter().filter_map(|value| value.parse().ok()).collect();
        let at = |value: &str| position(&numbers, value);
        let first = SearchLevel { value: None, position: default.as_deref().and_then(&at) };
        let values = search.numbers.iter().map(|value| (value, at(value)));
        let others = search.values.iter().map(|value| (value, None));
        let differ = values
            .chain(others)
            .filter(|(value, _)| !default.as_ref().is_some_and(|default| same_value(default, value)));
        let differ = differ.map(|(value, position)| SearchLevel { value: Some(value.clone()), position });
        std::iter::once(first).chain(differ).collect()
    }

    /// The default and these values, near each other in the order of their size where all are numbers.
    fn given_levels(
        &self,
        version: Option<&Version>,
        values: &[String],
    ) -> Result<Vec<SearchLevel>, ResolveError> {
        values.iter().try_for_each(|value| check_value(self, version, value).map(drop))?;
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
        let mut numbers = numbers.unwrap_or_default();
        numbers.sort_by(f64::total_cmp);
        let given = values
            .iter()
            .map(|value| SearchLevel { value: Some(value.clone()), position: position(&numbers, value) });
        Ok(std::iter::once(SearchLevel { value: None, position: None }).chain(given).collect())
    }

    /// Its default in a version, or in the first that has it.
    fn default_in(&self, version: Option<&Version>) -> Option<String> {
        let range = match version {
            Some(version) => self.range(version),
            None => self.in_versions.first(),
        };
        range?.default.clone()
    }
}

/// Where a value is among numbers in order, from 0 to 1; one between two of them is a share of the way.
fn position(numbers: &[f64], value: &str) -> Option<f64> {
    let value: f64 = value.parse().ok()?;
    let above = numbers.iter().position(|number| *number >= value)?;
    let at = match above.checked_sub(1) {
        None if numbers[0] > value => return None,
        None => 0.0,
        Some(below) => below as f64 + (value - numbers[below]) / (numbers[above] - numbers[below]),
    };
    Some(at / (numbers.len() - 1).max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(spec: &str, named: &[&str], keep: &[&str]) -> Result<Vec<Searched>, SearchError> {
        let named = named.iter().map(|name| Narrowed { name: (*name).to_owned(), ..Narrowed::default() });
        let keep: Vec<String> = keep.iter().map(|name| (*name).to_owned()).collect();
        Catalog::builtin().searched(&spec.parse().unwrap(), &named.collect::<Vec<_>>(), &keep)
    }

    fn values(of: &Searched) -> Vec<&str> {
        of.levels.iter().map(|level| level.value.as_deref().unwrap_or("as it comes")).collect()
    }

    #[test]
    fn levels_are_the_values_of_the_catalog_without_the_default() {
        let glibc = searched("glibc", &["arena_max", "mmap_threshold"], &[]).unwrap();
        assert_eq!(values(&glibc[0]), ["as it comes", "1", "4", "8", "32", "64"]);
        // As it comes the threshold grows with what is freed, so that its default is a level of its own.
        assert_eq!(values(&glibc[1]), ["as it comes", "4096", "32768", "524288", "4194304", "33554432"]);
        let mimalloc = searched("mimalloc@2.1.7", &["purge_delay"], &[]).unwrap();
        assert_eq!(values(&mimalloc[0]), ["as it comes", "1", "100", "1000", "10000", "0", "-1"]);
    }

    #[test]
    fn a_mitigation_that_is_kept_leaves_out_what_lacks_it() {
        let kept = searched("jemalloc@5.3.0", &["dirty_decay_ms"], &["guard_pages"]).unwrap();
        let guard = kept.iter().find(|searched| searched.name == "san_guard_small").unwrap();
        assert!(guard.levels.iter().all(|level| level.value.as_deref().is_some_and(|value| value != "0")));
        let glibc = searched("glibc", &["tcache_count"], &["double_free_check"]).unwrap();
        assert!(!values(&glibc[0]).contains(&"0") && values(&glibc[0]).contains(&"as it comes"));
        assert!(searched("mimalloc@2.0.9+secure", &[], &["guard_pages"]).is_ok());
        for (spec, keep, shown) in [
            ("mimalloc@2.0.9", "guard_pages", "has no guard_pages"),
            ("jemalloc@5.2.1", "guard_pages", "unless `san_guard_small` is set"),
            ("scudo", "quarantine", "unless `quarantine_size_kb` is set"),
            ("glibc", "armour", "no mitigation `armour`"),
        ] {
            let error = searched(spec, &[], &[keep]).unwrap_err().to_string();
            assert!(error.contains(shown), "{spec}: {error}");
        }
    }

    #[test]
    fn every_level_of_the_catalog_is_a_value_of_its_setting() {
        for family in Catalog::builtin().families() {
            for entry in &family.settings {
                let at = format!("{}?{}", family.name, entry.name);
                let Some(search) = &entry.search else { continue };
                let numbers: Vec<f64> = search.numbers.iter().map(|value| value.parse().unwrap()).collect();
                assert!(numbers.is_sorted_by(|a, b| a < b), "{at}");
                for level in entry.search_levels(None).iter().filter_map(|level| level.value.as_ref()) {
                    check_value(entry, None, level).unwrap_or_else(|error| panic!("{at}: {error}"));
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
                    assert!(MITIGATIONS.contains(&mitigation.name.as_str()), "{at}");
                    assert!(family.mitigation(&mitigation.name, None).is_some(), "{at}");
                }
            }
        }
    }
}
