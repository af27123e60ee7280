//! Factorials of two builds and the settings whose defaults differ between them.

use std::collections::BTreeSet;

use heaptrial_model::{
    AllocatorSpec, Classified, ErrorClass, FactorialDesign, Setting, SettingLevel, Version,
};
use serde::Serialize;

use crate::catalog::{Catalog, Family, SettingEntry};
use crate::resolve::{ResolveError, check_value};

/// A setting that a factorial crosses with the builds: `purge_delay`, or `purge_delay=0` for one more value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crossed {
    pub name: String,
    /// A value beside the defaults of both builds.
    pub value: Option<String>,
}

/// Why there is no such factorial.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FactorialError {
    /// A part that the catalog does not know.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// Settings are compared within a family.
    #[error(
        "{} and {} are not of one family, so that they share no settings; name two builds of one allocator",
        .builds[0],
        .builds[1]
    )]
    Families {
        /// The good and the bad build.
        builds: Box<[AllocatorSpec; 2]>,
    },
    #[error("{0} cannot be compared with itself; name two versions or variants")]
    Same(AllocatorSpec),
    #[error("`{0}` names no version; a factorial states the defaults of each version, so write {0}@VERSION")]
    NoVersion(AllocatorSpec),
    /// The values come from `--settings`.
    #[error(
        "`{0}` has settings of its own; a factorial sets them in every arm: write NAME=VALUE after --settings"
    )]
    Settings(AllocatorSpec),
    /// The catalog does not know a default.
    #[error(
        "the catalog does not know what {build} has for `{setting}` by default; name the arms with -a in place of --factorial"
    )]
    NoDefault { build: AllocatorSpec, setting: String },
    #[error(
        "{} and {} have the same defaults of {settings}; {}",
        .builds[0],
        .builds[1],
        differing(.others)
    )]
    OneLevel {
        /// The good and the bad build.
        builds: Box<[AllocatorSpec; 2]>,
        /// The settings that were named.
        settings: String,
        others: Vec<String>,
    },
}

impl Classified for FactorialError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Usage
    }
}

fn differing(others: &[String]) -> String {
    match others {
        [] => "the catalog knows no shared setting whose defaults differ; add a value, such as purge_delay=0"
            .to_owned(),
        others => format!("those of {} differ; or add a value, as in NAME=VALUE", others.join(", ")),
    }
}

/// A setting whose default is not the same in two versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DefaultDifference {
    pub name: String,
    pub unit: Option<String>,
    pub about: String,
    /// Default of the good version; `None` where it has no such setting or its default is not known.
    pub good: Option<String>,
    /// The same of the bad version.
    pub bad: Option<String>,
    /// Whether both versions have the setting.
    pub shared: bool,
}

impl Catalog {
    /// Crosses two builds with settings: both under the defaults of either, and under each further value with the
    /// bad build's defaults of the other settings.
    pub fn factorial(
        &self,
        good: &AllocatorSpec,
        bad: &AllocatorSpec,
        crossed: &[Crossed],
    ) -> Result<FactorialDesign, FactorialError> {
        let (family, versions) = self.two_builds(good, bad)?;
        let mut names: Vec<&str> = Vec::new();
        for setting in crossed {
            if !names.contains(&setting.name.as_str()) {
                names.push(&setting.name);
            }
        }
        let defaults = |build: &AllocatorSpec, version: &Version| -> Result<SettingLevel, FactorialError> {
            let settings = names.iter().map(|name| self.default(&family, build, version, name));
            Ok(SettingLevel { settings: settings.collect::<Result<_, _>>()? })
        };
        let (of_good, of_bad) = (defaults(good, versions.0)?, defaults(bad, versions.1)?);
        let mut levels = vec![of_good.clone()];
        let mut add = |level: SettingLevel| match levels.iter().position(|found| *found == level) {
            Some(index) => index,
            None => {
                levels.push(level);
                levels.len() - 1
            }
        };
        let bad_default = add(of_bad.clone());
        for (setting, value) in crossed.iter().filter_map(|one| Some((&one.name, one.value.as_ref()?))) {
            let mut level = of_bad.clone();
            let entry = family.setting(setting).ok_or_else(|| self.unknown(&family, good, setting))?;
            for version in [versions.0, versions.1] {
                check_value(entry, Some(version), value)?;
            }
            for own in level.settings.iter_mut().filter(|own| own.name == *setting) {
                own.value = value.clone();
            }
            add(level);
        }
        if levels.len() < 2 {
            let others = self.default_differences(good, bad).into_iter().filter(|found| found.shared);
            return Err(FactorialError::OneLevel {
                builds: Box::new([good.clone(), bad.clone()]),
                settings: names.join(", "),
                others: others.map(|found| found.name).collect(),
            });
        }
        Ok(FactorialDesign {
            good: good.clone(),
            bad: bad.clone(),
            levels,
            good_default: Some(0),
            bad_default: Some(bad_default),
        })
    }

    /// The factorial that arms make: two builds of a family with at least two common levels of the settings. An arm
    /// that leaves a setting out has its version's default. `good` and `bad` say which builds, where there are more
    /// than two or the first is not the good one.
    pub fn factorial_of(
        &self,
        arms: &[AllocatorSpec],
        good: Option<&AllocatorSpec>,
        bad: Option<&AllocatorSpec>,
    ) -> Option<FactorialDesign> {
        let mut builds: Vec<AllocatorSpec> = Vec::new();
        for build in arms.iter().map(AllocatorSpec::without_settings) {
            if !builds.contains(&build) {
                builds.push(build);
            }
        }
        let bare = |spec: Option<&AllocatorSpec>| spec.map(AllocatorSpec::without_settings);
        let fits = |(good, bad): (&AllocatorSpec, &AllocatorSpec)| self.crossing(arms, good, bad);
        let (good, bad) = (bare(good), bare(bad));
        let mut found = builds.iter().enumerate().flat_map(|(index, first)| {
            let pairs = builds.iter().enumerate().filter(move |(other, _)| *other != index);
            // Without a word on it the earlier one, which the control is of, is the good one.
            let in_order = good.is_some() || bad.is_some();
            pairs.filter(move |(other, _)| in_order || *other > index).map(move |(_, second)| (first, second))
        });
        found.find_map(|pair| {
            let asked = good.as_ref().is_none_or(|good| good == pair.0)
                && bad.as_ref().is_none_or(|bad| bad == pair.1);
            fits(pair).filter(|_| asked)
        })
    }

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
            let default = |range: Option<&crate::VersionRange>| range.and_then(|range| range.default.clone());
            let found = DefaultDifference {
                name: entry.name.clone(),
                unit: entry.unit.clone(),
                about: entry.about.clone(),
                good: default(good),
                bad: default(bad),
                shared: good.is_some() && bad.is_some(),
            };
            (found.good != found.bad).then_some(found)
        };
        let mut differences: Vec<DefaultDifference> = family.settings.iter().filter_map(difference).collect();
        differences.sort_by_key(|found| !found.shared);
        differences
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

    fn two_builds<'a>(
        &self,
        good: &'a AllocatorSpec,
        bad: &'a AllocatorSpec,
    ) -> Result<(std::sync::Arc<Family>, (&'a Version, &'a Version)), FactorialError> {
        let (first, second) = (self.resolve(good)?, self.resolve(bad)?);
        if first.family.name != second.family.name {
            return Err(FactorialError::Families { builds: Box::new([good.clone(), bad.clone()]) });
        }
        if good == bad {
            return Err(FactorialError::Same(good.clone()));
        }
        if let Some(spec) = [good, bad].into_iter().find(|spec| !spec.settings.is_empty()) {
            return Err(FactorialError::Settings(spec.clone()));
        }
        let version = |spec: &'a AllocatorSpec| {
            spec.version.as_ref().ok_or_else(|| FactorialError::NoVersion(spec.clone()))
        };
        Ok((first.family, (version(good)?, version(bad)?)))
    }

    /// A setting as a build has it by default.
    fn default(
        &self,
        family: &Family,
        build: &AllocatorSpec,
        version: &Version,
        name: &str,
    ) -> Result<Setting, FactorialError> {
        let entry = family.setting(name).ok_or_else(|| self.unknown(family, build, name))?;
        let range = entry.range(version).ok_or_else(|| self.unknown(family, build, name))?;
        let value = range
            .default
            .clone()
            .ok_or_else(|| FactorialError::NoDefault { build: build.clone(), setting: name.to_owned() })?;
        Ok(Setting { name: name.to_owned(), value })
    }

    /// What resolving says of a setting that a build does not have.
    fn unknown(&self, family: &Family, build: &AllocatorSpec, name: &str) -> FactorialError {
        let settings = vec![Setting { name: name.to_owned(), value: "0".to_owned() }];
        match self.resolve(&AllocatorSpec { settings, ..build.clone() }) {
            Err(error) => error.into(),
            Ok(_) => FactorialError::NoDefault {
                build: AllocatorSpec::family(&family.name),
                setting: name.to_owned(),
            },
        }
    }

    /// The levels that both builds have among the arms.
    fn crossing(
        &self,
        arms: &[AllocatorSpec],
        good: &AllocatorSpec,
        bad: &AllocatorSpec,
    ) -> Option<FactorialDesign> {
        let family = self.family(&good.family).filter(|_| good.family == bad.family)?;
        let of = |build: &AllocatorSpec| -> Vec<&AllocatorSpec> {
            arms.iter().filter(|arm| arm.without_settings() == *build).collect()
        };
        let (of_good, of_bad) = (of(good), of(bad));
        let names: BTreeSet<&str> = of_good
            .iter()
            .chain(&of_bad)
            .flat_map(|arm| arm.settings.iter().map(|setting| setting.name.as_str()))
            .collect();
        let default = |build: &AllocatorSpec, name: &str| {
            self.default(family, build, build.version.as_ref()?, name).ok()
        };
        let level = |arm: &AllocatorSpec| {
            let value = |name: &&str| {
                let own = arm.settings.iter().find(|setting| setting.name == **name).cloned();
                own.or_else(|| default(arm, name))
            };
            Some(SettingLevel { settings: names.iter().map(value).collect::<Option<_>>()? })
        };
        let levels_of_bad: Vec<SettingLevel> = of_bad.iter().filter_map(|arm| level(arm)).collect();
        let mut levels: Vec<SettingLevel> = Vec::new();
        for found in of_good.iter().filter_map(|arm| level(arm)) {
            if levels_of_bad.contains(&found) && !levels.contains(&found) {
                levels.push(found);
            }
        }
        let own = |build: &AllocatorSpec| {
            let settings = names.iter().map(|name| default(build, name)).collect::<Option<_>>()?;
            levels.iter().position(|level| *level == SettingLevel { settings: Clone::clone(&settings) })
        };
        let (good_default, bad_default) = (own(good), own(bad));
        (levels.len() >= 2).then(|| FactorialDesign {
            good: good.clone(),
            bad: bad.clone(),
            levels,
            good_default,
            bad_default,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> AllocatorSpec {
        text.parse().unwrap()
    }

    fn crossed(text: &str) -> Vec<Crossed> {
        let one = |word: &str| match word.split_once('=') {
            Some((name, value)) => Crossed { name: name.into(), value: Some(value.into()) },
            None => Crossed { name: word.into(), value: None },
        };
        text.split(',').map(one).collect()
    }

    fn design(good: &str, bad: &str, settings: &str) -> Result<FactorialDesign, FactorialError> {
        Catalog::builtin().factorial(&spec(good), &spec(bad), &crossed(settings))
    }

    fn texts(design: &FactorialDesign) -> Vec<String> {
        design.specs().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn both_versions_run_under_the_defaults_of_both_and_further_values() {
        let found = design("mimalloc@2.1.7", "mimalloc@3.0.1", "purge_delay,purge_delay=0").unwrap();
        assert_eq!(
            texts(&found),
            [
                "mimalloc@2.1.7?purge_delay=10",
                "mimalloc@2.1.7?purge_delay=2500",
                "mimalloc@2.1.7?purge_delay=0",
                "mimalloc@3.0.1?purge_delay=10",
                "mimalloc@3.0.1?purge_delay=2500",
                "mimalloc@3.0.1?purge_delay=0",
            ]
        );
        assert_eq!((found.good_default, found.bad_default), (Some(0), Some(1)));
    }

    #[test]
    fn a_further_value_keeps_the_other_defaults_of_the_bad_version() {
        let found = design("mimalloc@2.1.7", "mimalloc@3.0.1", "arena_purge_mult,purge_delay=0").unwrap();
        let levels: Vec<String> = found.levels.iter().map(ToString::to_string).collect();
        assert_eq!(
            levels,
            [
                "arena_purge_mult=10 purge_delay=10",
                "arena_purge_mult=1 purge_delay=2500",
                "arena_purge_mult=1 purge_delay=0"
            ]
        );
    }

    #[test]
    fn what_makes_no_factorial_is_refused_with_what_would() {
        for (good, bad, settings, says) in [
            ("mimalloc@2.0.9", "mimalloc@3.0.1", "purge_delay", "decommit_delay"),
            ("mimalloc@2.1.7", "jemalloc@5.3.0", "purge_delay", "one family"),
            ("mimalloc@2.1.7", "mimalloc@2.1.7", "purge_delay", "with itself"),
            ("mimalloc", "mimalloc@2.1.7", "purge_delay", "mimalloc@VERSION"),
            ("mimalloc@2.1.7?purge_delay=0", "mimalloc@3.0.1", "purge_delay", "--settings"),
            ("mimalloc@2.1.7", "mimalloc@3.0.1", "arena_reserve", "purge_delay"),
            ("mimalloc@2.1.7", "mimalloc@3.0.1", "purge_dely", "did you mean `purge_delay`?"),
            ("mimalloc@2.1.7", "mimalloc@3.0.1", "purge_delay=soon", "whole number"),
            ("mimalloc@2.1.7", "mimalloc@3.0.0", "purge_delay", "no version `3.0.0`"),
            ("jemalloc@5.3.0", "jemalloc@5.3.1", "narenas", "does not know"),
        ] {
            let error = design(good, bad, settings).unwrap_err().to_string();
            assert!(error.contains(says), "{good} {bad} {settings}: {error}");
        }
    }

    #[test]
    fn the_arms_of_a_design_are_recognised() {
        let catalog = Catalog::builtin();
        let made = design("mimalloc@2.1.7", "mimalloc@3.0.1", "purge_delay=0").unwrap();
        assert_eq!(catalog.factorial_of(&made.specs(), None, None), Some(made.clone()));
        let others = [vec![spec("glibc"), spec("mimalloc@2.0.9")], made.specs()].concat();
        assert_eq!(catalog.factorial_of(&others, None, None), Some(made.clone()));
        let turned = catalog.factorial_of(&made.specs(), None, Some(&spec("mimalloc@2.1.7"))).unwrap();
        assert_eq!((turned.good, turned.good_default), (made.bad, Some(1)));
    }

    #[test]
    fn an_arm_that_leaves_a_setting_out_has_its_default() {
        let arms = [
            "mimalloc@2.1.7",
            "mimalloc@3.0.1",
            "mimalloc@2.1.7?purge_delay=2500",
            "mimalloc@3.0.1?purge_delay=10",
        ];
        let found = Catalog::builtin().factorial_of(&arms.map(spec), None, None).unwrap();
        assert_eq!((found.levels.len(), found.good_default, found.bad_default), (2, Some(0), Some(1)));
        for arms in [&arms[..3], &["glibc", "jemalloc@5.3.0"], &[]] {
            let arms: Vec<AllocatorSpec> = arms.iter().map(|text| spec(text)).collect();
            assert_eq!(Catalog::builtin().factorial_of(&arms, None, None), None);
        }
    }

    #[test]
    fn defaults_that_differ_are_told_and_stated_defaults_left_out() {
        let catalog = Catalog::builtin();
        let found = catalog.default_differences(&spec("mimalloc@2.1.7"), &spec("mimalloc@3.0.1"));
        let shared: Vec<&str> = found.iter().filter(|one| one.shared).map(|one| one.name.as_str()).collect();
        assert_eq!(shared, ["allow_large_os_pages", "purge_delay", "arena_purge_mult"]);
        let bare = |text| catalog.without_defaults(&spec(text)).to_string();
        assert_eq!(bare("mimalloc@3.0.1?purge_delay=2500"), "mimalloc@3.0.1");
        assert_eq!(bare("mimalloc@3.0.1?purge_delay=10"), "mimalloc@3.0.1?purge_delay=10");
    }
}
