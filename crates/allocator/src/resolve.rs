//! From a spec to what has to be obtained: the family, the release, the variants, and the
//! environment that carries the settings.

use std::sync::Arc;
use std::time::Duration;

use heaptrial_model::{AllocatorSpec, Classified, ErrorClass, Setting, Version};

use crate::catalog::{Catalog, Family, Release, SettingEntry, SettingKind, Variant, VersionRange};

/// A spec whose every part the catalog knows.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub spec: AllocatorSpec,
    pub family: Arc<Family>,
    /// Its release, where the spec names a version that the catalog lists.
    pub release: Option<Release>,
    pub variants: Vec<Variant>,
}

/// Why a spec cannot be resolved: a sentence with what is known instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ResolveError(String);

impl Classified for ResolveError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Usage
    }
}

/// That something does not have a name, with the nearest and all that it has.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> ResolveError {
    let near = nearest(name, known.iter().copied());
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    ResolveError(format!("{what} `{name}`{near}\n  known: {known}"))
}

impl Catalog {
    pub fn resolve(&self, spec: &AllocatorSpec) -> Result<Resolved, ResolveError> {
        let resolved = self.resolve_local(spec)?;
        if let (Some(version), None) = (&spec.version, &resolved.release) {
            let family = &resolved.family;
            let name = &family.name;
            if family.versions.is_empty() {
                return Err(ResolveError(format!(
                    "{name} libraries do not report their version, so `@{version}` could not be proved; ask for `{name}` alone"
                )));
            }
            let known: Vec<&str> = family.versions.iter().map(|release| release.version.as_str()).collect();
            let ResolveError(why) = unknown(&format!("{name} has no version"), version.as_str(), &known);
            return Err(ResolveError(format!(
                "{why}\n  a library of another version can be given with --from PATH"
            )));
        }
        Ok(resolved)
    }

    /// The same for a library or source folder at hand, whose version the catalog need not list.
    pub fn resolve_local(&self, spec: &AllocatorSpec) -> Result<Resolved, ResolveError> {
        let Some(family) = self.family(&spec.family) else {
            let obtainable = self.families().filter(|family| !family.identify_only);
            let known: Vec<&str> = obtainable.map(|family| family.name.as_str()).collect();
            return Err(unknown("there is no allocator", &spec.family, &known));
        };
        if family.identify_only {
            return Err(ResolveError(format!(
                "`{}` can be recognised in a running process, but Heaptrial cannot run a program under it",
                family.name
            )));
        }
        let variant = |name: &String| {
            let known = || family.variants.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>();
            let missing = || unknown(&format!("{} has no variant", family.name), name, &known());
            family.variant(name).cloned().ok_or_else(missing)
        };
        let variants = spec.variants.iter().map(variant).collect::<Result<Vec<_>, _>>()?;
        let release = spec.version.as_ref().and_then(|version| family.release(version)).cloned();
        let resolved = Resolved { spec: spec.clone(), family: family.clone(), release, variants };
        resolved.environment(spec.version.as_ref())?;
        Ok(resolved)
    }
}

impl Resolved {
    /// The release that is got where the host has none: the spec's, or the family's default.
    pub(crate) fn release_to_obtain(&self) -> Option<&Release> {
        let default = || self.family.release(self.family.default.as_ref()?);
        self.release.as_ref().or_else(default)
    }

    /// The environment variables that carry the spec's settings, for a version; without one, only
    /// names and values are checked.
    pub fn environment(&self, version: Option<&Version>) -> Result<Vec<(String, String)>, ResolveError> {
        let mut variables: Vec<(String, String)> = Vec::new();
        for setting in &self.spec.settings {
            let entry = self.entry(setting, version)?;
            let value = check_value(entry, version, &setting.value)?;
            let variable = entry.variable(&self.family.environment);
            match &self.family.environment.combined {
                Some(combined) if combined.variable == variable => {
                    if value.contains([combined.assign, combined.separator]) {
                        let expected =
                            format!("a value without `{}` and `{}`", combined.assign, combined.separator);
                        return Err(bad_value(entry, &value, &expected));
                    }
                    let key = entry.key.as_ref().unwrap_or(&entry.name);
                    let pair = format!("{key}{}{value}", combined.assign);
                    match variables.iter_mut().find(|(name, _)| *name == variable) {
                        Some((_, text)) => {
                            text.push(combined.separator);
                            text.push_str(&pair);
                        }
                        None => variables.push((variable, pair)),
                    }
                }
                _ => variables.push((variable, value)),
            }
        }
        Ok(variables)
    }

    /// How long the allocator takes at most to give back what was freed, by its settings that are times and their
    /// defaults; zero where it goes by no clock. What is never given back does not count.
    pub fn slowest_release(&self) -> Duration {
        let times = self.family.settings.iter().filter(|entry| entry.unit.as_deref() == Some("ms"));
        let lasts = |entry: &SettingEntry| {
            let by = |multiple: &&SettingEntry| multiple.multiplies.as_deref() == Some(&entry.name);
            let multiple = self.family.settings.iter().find(by).and_then(|multiple| self.number(multiple));
            u64::try_from(self.number(entry)?.saturating_mul(multiple.unwrap_or(1).max(1))).ok()
        };
        Duration::from_millis(times.filter_map(lasts).fold(0, u64::saturating_add))
    }

    /// The value that a setting has: the spec's, or the version's default.
    fn number(&self, entry: &SettingEntry) -> Option<i64> {
        let set = self.spec.settings.iter().find(|setting| setting.name == entry.name);
        let version = self.spec.version.as_ref().or(self.family.default.as_ref());
        let default = || version.and_then(|version| entry.range(version)?.default.as_ref());
        set.map(|setting| &setting.value).or_else(default)?.parse().ok()
    }

    fn entry(&self, setting: &Setting, version: Option<&Version>) -> Result<&SettingEntry, ResolveError> {
        let family = &self.family;
        let Some(entry) = family.setting(&setting.name) else {
            let there = |entry: &&SettingEntry| version.is_none_or(|at| family.has_setting(entry, at));
            let known: Vec<&str> =
                family.settings.iter().filter(there).map(|entry| entry.name.as_str()).collect();
            // As the environment of a service has it.
            let of_variable = |entry: &&SettingEntry| entry.variable.as_ref() == Some(&setting.name);
            let what = format!("{} has no setting", family.name);
            return Err(match family.settings.iter().find(of_variable) {
                Some(entry) => {
                    ResolveError(format!("{what} `{}`; it is `{}` here", setting.name, entry.name))
                }
                None => unknown(&what, &setting.name, &known),
            });
        };
        match version {
            Some(version) if !family.has_setting(entry, version) => {
                let having: Vec<String> = entry.in_versions.iter().map(ToString::to_string).collect();
                Err(ResolveError(format!(
                    "{} {version} has no setting `{}`; versions that have it: {}",
                    family.name,
                    entry.name,
                    having.join(", ")
                )))
            }
            _ => Ok(entry),
        }
    }
}

fn bad_value(entry: &SettingEntry, value: &str, expected: &str) -> ResolveError {
    ResolveError(format!("`{value}` is not a value of the setting `{}`: expected {expected}", entry.name))
}

/// Checks a value and gives it in the form that every library takes (`true` and `false`). Without a version it is one that
/// some version takes.
pub(crate) fn check_value(
    entry: &SettingEntry,
    version: Option<&Version>,
    value: &str,
) -> Result<String, ResolveError> {
    let bad = |expected: String| bad_value(entry, value, &expected);
    let unit = entry.unit.as_ref().map_or(String::new(), |unit| format!(" ({unit})"));
    let listed = entry.values.is_empty() || entry.values.iter().any(|known| known == value);
    match entry.kind {
        SettingKind::Bool => match value {
            "true" | "1" => Ok("true".to_owned()),
            "false" | "0" => Ok("false".to_owned()),
            _ => Err(bad("`true` or `false`".to_owned())),
        },
        _ if !listed => Err(bad(format!("one of {}", entry.values.join(", ")))),
        SettingKind::Integer => match (value.parse::<i64>(), entry.granule) {
            (Ok(number), Some(granule)) if number < 0 || number % granule != 0 => {
                Err(bad(format!("a multiple of {granule}{unit}: the library keeps nothing finer")))
            }
            (Ok(number), _) => match entry.beyond(version, number) {
                Some(bounds) => {
                    Err(bad(format!("{bounds}{unit}: beyond, the library goes by another value")))
                }
                None => Ok(number.to_string()),
            },
            (Err(_), _) => Err(bad(format!("a whole number{unit}"))),
        },
        SettingKind::Number => match value.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(value.to_owned()),
            _ => Err(bad(format!("a number{unit}"))),
        },
        SettingKind::Text => Ok(value.to_owned()),
    }
}

/// Whether two texts are one value: `1` and `true`, `0x10` and `16`, `1.0` and `1`.
pub(crate) fn same_value(a: &str, b: &str) -> bool {
    let number = |text: &str| match (text, text.strip_prefix("0x")) {
        ("true", _) => Some(1.0),
        ("false", _) => Some(0.0),
        (_, Some(digits)) => u64::from_str_radix(digits, 16).ok().map(|number| number as f64),
        (_, None) => text.parse().ok(),
    };
    a == b || number(a).is_some_and(|value| Some(value) == number(b))
}

impl SettingEntry {
    /// The numbers that a version takes, where a number is none of them.
    fn beyond(&self, version: Option<&Version>, number: i64) -> Option<String> {
        let in_question = |range: &&VersionRange| version.is_none_or(|version| range.contains(version));
        let ranges: Vec<&VersionRange> = self.in_versions.iter().filter(in_question).collect();
        if ranges.is_empty() || ranges.iter().any(|range| range.takes(number)) {
            return None;
        }
        let shown: Vec<String> = ranges
            .iter()
            .map(|range| match (range.least, range.most) {
                (Some(least), Some(most)) => format!("{least} to {most}"),
                (Some(least), None) => format!("{least} or more"),
                (None, most) => format!("{} at most", most.unwrap_or(i64::MAX)),
            })
            .collect();
        Some(shown.join(", or in other versions "))
    }
}

/// The known name that is at most a third of its length away.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str) -> Result<Resolved, ResolveError> {
        Catalog::builtin().resolve(&text.parse().unwrap())
    }

    #[test]
    fn the_slowest_release_is_that_of_the_settings_and_their_defaults() {
        let seconds = |spec: &str| resolve(spec).unwrap().slowest_release().as_secs_f64();
        for (spec, expected) in [
            ("glibc", 0.0),
            ("jemalloc@5.3.0", 10.0),
            ("jemalloc@5.3.0?dirty_decay_ms=30000&muzzy_decay_ms=5000", 35.0),
            ("jemalloc@5.3.0?dirty_decay_ms=-1", 0.0),
            ("mimalloc@3.0.1?purge_delay=0", 0.0),
            ("mimalloc@3.6.0", 4.0),
            ("mimalloc@2.1.7?purge_delay=2000", 20.0),
        ] {
            assert!((seconds(spec) - expected).abs() < 0.01, "{spec}: {}", seconds(spec));
        }
    }

    #[test]
    fn near_misses_are_suggested() {
        for (text, near) in [
            ("mimaloc@2.0.9", "did you mean `mimalloc`?"),
            ("mimalloc@2.0.8", "did you mean `2.0."),
            ("mimalloc@2.0.9+secur", "did you mean `secure`?"),
            ("mimalloc@2.1.7?purge_dely=0", "did you mean `purge_delay`?"),
            ("glibc?arena_mx=1", "did you mean `arena_max`?"),
            ("glibc?MALLOC_ARENA_MAX=2", "it is `arena_max` here"),
        ] {
            let message = resolve(text).unwrap_err().to_string();
            assert!(message.contains(near), "{text}: {message}");
        }
        assert!(!resolve("windows").unwrap_err().to_string().contains("did you mean"));
    }

    #[test]
    fn values_are_checked() {
        for (text, expected) in [
            ("glibc?arena_max=many", "is not a value of"),
            ("jemalloc@5.3.0?thp=sometimes", "is not a value of"),
            ("mimalloc@2.1.7?arena_reserve=1000", "(bytes)"),
            ("mimalloc@2.0.9?purge_delay=0", "2.1.2 to 2.3.2"),
            ("glibc@2.43?tcache_max=4194304", "0 to 4194280 (bytes)"),
            ("glibc?tcache_count=100000", "0 to 65535"),
            ("glibc?arena_max=-1", "0 or more"),
            ("glibc?hugetlb=5", "one of 0, 1, 2"),
            ("jemalloc@5.3.0?narenas=4,tcache:false", "without `:` and `,`"),
        ] {
            let message = resolve(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        for text in ["glibc?tcache_max=2048", "glibc@2.43?tcache_max=2048", "glibc?trim_threshold=-1"] {
            assert!(resolve(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn settings_reach_the_variables_that_each_library_reads() {
        for (spec, expected) in [
            ("glibc?arena_max=1", "MALLOC_ARENA_MAX=1"),
            (
                "glibc?tcache_count=0&hugetlb=1",
                "GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.hugetlb=1",
            ),
            ("mimalloc@2.1.7?arena_reserve=65536", "MIMALLOC_ARENA_RESERVE=65536"),
            (
                "jemalloc@5.3.0?dirty_decay_ms=0&background_thread=1",
                "MALLOC_CONF=dirty_decay_ms:0,background_thread:true",
            ),
            ("scudo?quarantine_size_kb=64", "SCUDO_OPTIONS=quarantine_size_kb=64"),
            ("tcmalloc@2.10?aggressive_decommit=1", "TCMALLOC_AGGRESSIVE_DECOMMIT=true"),
        ] {
            let resolved = resolve(spec).unwrap();
            let variables = resolved.environment(resolved.spec.version.as_ref()).unwrap();
            let shown: Vec<String> =
                variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(shown, [expected]);
        }
    }

    #[test]
    fn what_cannot_be_proved_cannot_be_asked_for() {
        assert!(resolve("scudo@14").unwrap_err().to_string().contains("could not be proved"));
        assert!(resolve("musl").unwrap_err().to_string().contains("cannot run a program under it"));
    }
}
