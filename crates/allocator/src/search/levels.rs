//! Values as levels.

use heaptrial_model::Version;

use super::{Narrowed, SearchLevel};
use crate::catalog::SettingEntry;
use crate::resolve::{ResolveError, check_value};

impl SettingEntry {
    /// What a search tries in a version; the first leaves the setting as it comes. Only that one where there is nothing to
    /// search.
    pub fn search_levels(&self, version: Option<&Version>) -> Vec<SearchLevel> {
        let as_it_comes = SearchLevel { value: None, position: None };
        let Some(search) = &self.search else { return vec![as_it_comes] };
        let default = self.default_in(version).filter(|_| !search.fixes);
        let numbers: Vec<f64> = search.numbers.iter().filter_map(|value| value.parse().ok()).collect();
        let at = |value: &str| position(&numbers, value);
        let mut levels = vec![SearchLevel { value: None, position: default.as_deref().and_then(&at) }];
        let values = search.numbers.iter().map(|value| (value, at(value)));
        let others = search.values.iter().map(|value| (value, None));
        for (value, position) in values.chain(others) {
            if !default.as_ref().is_some_and(|default| same(default, value)) {
                levels.push(SearchLevel { value: Some(value.clone()), position });
            }
        }
        levels
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

/// Whether two texts are one value: `1` and `true`, `1.0` and `1`.
pub(super) fn same(a: &str, b: &str) -> bool {
    let number = |text: &str| match text {
        "true" => Some(1.0),
        "false" => Some(0.0),
        _ => text.parse::<f64>().ok(),
    };
    a == b || number(a).is_some_and(|value| Some(value) == number(b))
}

impl SettingEntry {
    /// Its default in a version, or in the first that has it.
    pub(super) fn default_in(&self, version: Option<&Version>) -> Option<String> {
        let range = match version {
            Some(version) => self.range(version),
            None => self.in_versions.first(),
        };
        range?.default.clone()
    }

    /// As it comes and these values, near each other in the order of their size where all are numbers.
    fn given_levels(
        &self,
        version: Option<&Version>,
        values: &[String],
    ) -> Result<Vec<SearchLevel>, ResolveError> {
        values.iter().try_for_each(|value| check_value(self, version, value).map(|_| ()))?;
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
        let mut numbers = numbers.unwrap_or_default();
        numbers.sort_by(f64::total_cmp);
        let given = values
            .iter()
            .map(|value| SearchLevel { value: Some(value.clone()), position: position(&numbers, value) });
        Ok(std::iter::once(SearchLevel { value: None, position: None }).chain(given).collect())
    }

    pub(super) fn narrowed_levels(
        &self,
        version: Option<&Version>,
        narrowed: Option<&Narrowed>,
    ) -> Result<Vec<SearchLevel>, ResolveError> {
        Ok(match narrowed {
            Some(narrowed) if !narrowed.values.is_empty() => self.given_levels(version, &narrowed.values)?,
            _ => self.search_levels(version),
        })
    }
}
