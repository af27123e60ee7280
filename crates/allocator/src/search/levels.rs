//! Ranges as levels.

use heaptrial_model::Version;

use super::{Narrowed, Scale, SearchLevel};
use crate::catalog::{SettingEntry, SettingKind};
use crate::resolve::{ResolveError, check_value};

impl SettingEntry {
    /// The levels of its range in a version, at most `most` of them over the range, both ends among them, and its further
    /// values; the first leaves it as it comes. Only that one where there is nothing to search.
    pub fn search_levels(&self, version: Option<&Version>, most: usize) -> Vec<SearchLevel> {
        let default = match version {
            Some(version) => self.range(version).and_then(|range| range.default.clone()),
            None => self.in_versions.first().and_then(|range| range.default.clone()),
        };
        let mut levels = vec![SearchLevel { value: None, position: None }];
        let Some(search) = &self.search else { return levels };
        let is_default =
            |value: &str| !search.fixes && default.as_deref().is_some_and(|known| same(known, value));
        if let Some((from, to)) = search.from.zip(search.to) {
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
        let beside = search.values.iter().filter(|value| !is_default(value));
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
        let granule = self.granule.map_or(1.0, |granule| granule as f64);
        match self.kind {
            SettingKind::Number => format!("{}", (rounded * 1e6).round() / 1e6),
            _ => format!("{:.0}", (rounded / granule).round() * granule),
        }
    }
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
        let position = |value: &str| {
            let (numbers, own) = (numbers.as_ref()?, value.parse::<f64>().ok()?);
            let below = numbers.iter().filter(|number| **number < own).count();
            Some(below as f64 / (numbers.len() - 1).max(1) as f64)
        };
        let given =
            values.iter().map(|value| SearchLevel { value: Some(value.clone()), position: position(value) });
        Ok(std::iter::once(SearchLevel { value: None, position: None }).chain(given).collect())
    }

    pub(super) fn narrowed_levels(
        &self,
        version: Option<&Version>,
        most: usize,
        narrowed: Option<&Narrowed>,
    ) -> Result<Vec<SearchLevel>, ResolveError> {
        Ok(match narrowed {
            Some(narrowed) if !narrowed.values.is_empty() => self.given_levels(version, &narrowed.values)?,
            _ => self.search_levels(version, most),
        })
    }
}
