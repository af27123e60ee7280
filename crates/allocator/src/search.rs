//! What a search over settings may try.

use heaptrial_model::{AllocatorSpec, Setting, Version};
use serde::Deserialize;

use crate::catalog::{Catalog, SettingEntry};
use crate::resolve::{ResolveError, check_value, same_value};

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
    #[serde(default)]
    pub usual: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SearchLevel {
    /// Its value; `None` leaves the setting as it comes.
    pub value: Option<String>,
    /// Where among the numbers, from 0 to 1; `None` for values of no order.
    pub position: Option<f64>,
}

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

impl Catalog {
    /// The settings of a spec that a search tries, with their levels. Those of `named` are searched instead of the usual ones; what
    /// the spec sets by itself is not searched.
    pub fn searched(&self, spec: &AllocatorSpec, named: &[Narrowed]) -> Result<Vec<Searched>, ResolveError> {
        let family = &self.resolve(spec)?.family;
        let version = spec.version.as_ref();
        let is_free = |entry: &&SettingEntry| {
            version.is_none_or(|version| entry.range(version).is_some())
                && spec.settings.iter().all(|setting| setting.name != entry.name)
        };
        let mut found = Vec::new();
        for entry in family.settings.iter().filter(is_free) {
            let own = named.iter().find(|narrowed| narrowed.name == entry.name);
            let is_usual = || entry.search.as_ref().is_some_and(|search| search.usual);
            if own.is_none() && !(named.is_empty() && is_usual()) {
                continue;
            }
            let levels = match own {
                Some(own) if !own.values.is_empty() => entry.given_levels(version, &own.values)?,
                _ => entry.search_levels(version),
            };
            if levels.len() > 1 {
                found.push(Searched { name: entry.name.clone(), levels });
            }
        }
        Ok(found)
    }
}

impl SettingEntry {
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

    fn searched(spec: &str, named: &[&str]) -> Vec<Searched> {
        let named = named.iter().map(|name| Narrowed { name: (*name).to_owned(), ..Narrowed::default() });
        Catalog::builtin().searched(&spec.parse().unwrap(), &named.collect::<Vec<_>>()).unwrap()
    }

    fn values(of: &Searched) -> Vec<&str> {
        of.levels.iter().map(|level| level.value.as_deref().unwrap_or("as it comes")).collect()
    }

    #[test]
    fn levels_are_the_values_of_the_catalog_without_the_default() {
        let glibc = searched("glibc", &["arena_max", "mmap_threshold"]);
        assert_eq!(values(&glibc[0]), ["as it comes", "1", "4", "8", "32", "64"]);
        // As it comes the threshold grows with what is freed, so that its default is a level of its own.
        assert_eq!(values(&glibc[1]), ["as it comes", "4096", "32768", "524288", "4194304", "33554432"]);
        let mimalloc = searched("mimalloc@2.1.7", &["purge_delay"]);
        assert_eq!(values(&mimalloc[0]), ["as it comes", "1", "100", "1000", "10000", "0", "-1"]);
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
            }
        }
    }
}
