//! Settings as builds have them by default.

use heaptrial_model::{AllocatorSpec, Setting};

use crate::catalog::{Catalog, SettingEntry, VersionRange};
use crate::resolve::check_value;

/// A setting whose default is not the same in two versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultDifference {
    pub name: String,
    pub unit: Option<String>,
    pub about: String,
    /// Default of the good version; `None` where it has no such setting or its default is not known.
    pub good: Option<String>,
    /// The same of the bad version.
    pub bad: Option<String>,
}

impl Catalog {
    /// Settings whose defaults differ between two builds of a family, those that both have first.
    pub fn default_differences(&self, good: &AllocatorSpec, bad: &AllocatorSpec) -> Vec<DefaultDifference> {
        let (Some(family), Some(first), Some(second)) =
            (self.family(&good.family), &good.version, &bad.version)
        else {
            return Vec::new();
        };
        if good.family != bad.family {
            return Vec::new();
        }
        let difference = |entry: &SettingEntry| {
            let (good, bad) = (entry.range(first), entry.range(second));
            let default = |range: Option<&VersionRange>| range.and_then(|range| range.default.clone());
            let found = DefaultDifference {
                name: entry.name.clone(),
                unit: entry.unit.clone(),
                about: entry.about.clone(),
                good: default(good),
                bad: default(bad),
            };
            (found.good != found.bad).then_some((good.is_none() || bad.is_none(), found))
        };
        let mut differences: Vec<_> = family.settings.iter().filter_map(difference).collect();
        differences.sort_by_key(|(only_one_has_it, _)| *only_one_has_it);
        differences.into_iter().map(|(_, found)| found).collect()
    }

    /// A spec without the settings that state what its version has by default anyway.
    pub fn without_defaults(&self, spec: &AllocatorSpec) -> AllocatorSpec {
        let is_default = |setting: &Setting| {
            let entry = self.family(&spec.family)?.setting(&setting.name)?;
            let version = spec.version.as_ref();
            let default = entry.range(version?)?.default.as_ref()?;
            let value = |text: &str| check_value(entry, version, text).ok();
            Some(value(default)? == value(&setting.value)?)
        };
        let settings = spec.settings.iter().filter(|setting| is_default(setting) != Some(true));
        AllocatorSpec { settings: settings.cloned().collect(), ..spec.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> AllocatorSpec {
        text.parse().unwrap()
    }

    #[test]
    fn defaults_that_differ_are_listed_and_stated_defaults_left_out() {
        let catalog = Catalog::builtin();
        let found = catalog.default_differences(&spec("mimalloc@2.1.7"), &spec("mimalloc@3.0.1"));
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names[..3], ["allow_large_os_pages", "purge_delay", "arena_purge_mult"]);
        let bare = |text| catalog.without_defaults(&spec(text)).to_string();
        assert_eq!(bare("mimalloc@3.0.1?purge_delay=2500"), "mimalloc@3.0.1");
        assert_eq!(bare("mimalloc@3.0.1?purge_delay=10"), "mimalloc@3.0.1?purge_delay=10");
    }
}
