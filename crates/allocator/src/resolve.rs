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

/// Why a spec cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error("there is no allocator `{name}`{}\n  known: {}", suggestion(.near), .known.join(", "))]
    UnknownFamily { name: String, near: Option<String>, known: Vec<String> },
    /// The family can be recognised in a process but not obtained.
    #[error("`{name}` can be recognised in a running process, but Heaptrial cannot run a program under it")]
    IdentifyOnly { name: String },
    #[error("{family} has no version `{version}` in the catalog{}\n  known: {}\n  a library of another version can be given with --from PATH", suggestion(.near), .known.join(", "))]
    UnknownVersion { family: String, version: Version, near: Option<String>, known: Vec<String> },
    /// The family's libraries do not tell their version, so none can be asked for.
    #[error(
        "{family} libraries do not tell their version, so `@{version}` could not be proved; ask for `{family}` alone"
    )]
    Unversioned { family: String, version: Version },
    #[error("{family} has no variant `{name}`{}\n  known: {}", suggestion(.near), list_or_none(.known))]
    UnknownVariant { family: String, name: String, near: Option<String>, known: Vec<String> },
    /// No such setting in any version.
    #[error("{family} has no setting `{name}`{}\n  known: {}", suggestion(.near), list_or_none(.known))]
    UnknownSetting { family: String, name: String, near: Option<String>, known: Vec<String> },
    /// Other versions have the setting.
    #[error("{family} {version} has no setting `{name}`; versions that have it: {}{}", .having.join(", "), instead(.similar))]
    SettingNotInVersion {
        family: String,
        version: Version,
        name: String,
        /// Ranges of versions that have it.
        having: Vec<String>,
        /// Settings of this version with a similar name.
        similar: Vec<String>,
    },
    /// The value is not of the setting's kind.
    #[error("`{value}` is not a value of the setting `{name}`: expected {expected}")]
    BadValue { name: String, value: String, expected: String },
}

impl Classified for ResolveError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Usage
    }
}

fn suggestion(near: &Option<String>) -> String {
    near.as_ref().map_or(String::new(), |near| format!("; did you mean `{near}`?"))
}

fn list_or_none(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

fn instead(similar: &[String]) -> String {
    if similar.is_empty() { String::new() } else { format!("\n  this version has: {}", similar.join(", ")) }
}

impl Catalog {
    /// Looks up every part of a spec.
    pub fn resolve(&self, spec: &AllocatorSpec) -> Result<Resolved, ResolveError> {
        let resolved = self.resolve_local(spec)?;
        if let (Some(version), None) = (&spec.version, &resolved.release) {
            let family = &resolved.family;
            if family.versions.is_empty() {
                return Err(ResolveError::Unversioned {
                    family: family.name.clone(),
                    version: version.clone(),
                });
            }
            let known: Vec<String> =
                family.versions.iter().map(|release| release.version.to_string()).collect();
            return Err(ResolveError::UnknownVersion {
                family: family.name.clone(),
                version: version.clone(),
                near: nearest(version.as_str(), known.iter().map(String::as_str)),
                known,
            });
        }
        Ok(resolved)
    }

    /// The same for a library or source folder at hand, whose version the catalog need not list.
    pub fn resolve_local(&self, spec: &AllocatorSpec) -> Result<Resolved, ResolveError> {
        let Some(family) = self.family(&spec.family) else {
            let known: Vec<String> =
                self.families().filter(|f| !f.identify_only).map(|f| f.name.clone()).collect();
            return Err(ResolveError::UnknownFamily {
                name: spec.family.clone(),
                near: nearest(&spec.family, known.iter().map(String::as_str)),
                known,
            });
        };
        if family.identify_only {
            return Err(ResolveError::IdentifyOnly { name: family.name.clone() });
        }
        let variants = spec
            .variants
            .iter()
            .map(|name| {
                family.variant(name).cloned().ok_or_else(|| {
                    let known: Vec<String> = family.variants.iter().map(|v| v.name.clone()).collect();
                    ResolveError::UnknownVariant {
                        family: family.name.clone(),
                        name: name.clone(),
                        near: nearest(name, known.iter().map(String::as_str)),
                        known,
                    }
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let release = spec.version.as_ref().and_then(|version| family.release(version)).cloned();
        let resolved = Resolved { spec: spec.clone(), family: family.clone(), release, variants };
        resolved.environment(spec.version.as_ref())?;
        Ok(resolved)
    }
}

impl Resolved {
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
                        return Err(ResolveError::BadValue {
                            name: entry.name.clone(),
                            value,
                            expected: format!(
                                "a value without `{}` and `{}`",
                                combined.assign, combined.separator
                            ),
                        });
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
            let known: Vec<String> = family
                .settings
                .iter()
                .filter(|entry| version.is_none_or(|version| family.has_setting(entry, version)))
                .map(|entry| entry.name.clone())
                .collect();
            // As the environment of a service has it.
            let of_variable = |entry: &&SettingEntry| entry.variable.as_ref() == Some(&setting.name);
            let by_variable = family.settings.iter().find(of_variable).map(|entry| entry.name.clone());
            return Err(ResolveError::UnknownSetting {
                family: family.name.clone(),
                name: setting.name.clone(),
                near: by_variable.or_else(|| nearest(&setting.name, known.iter().map(String::as_str))),
                known,
            });
        };
        match version {
            Some(version) if !family.has_setting(entry, version) => Err(ResolveError::SettingNotInVersion {
                family: family.name.clone(),
                version: version.clone(),
                name: entry.name.clone(),
                having: entry.in_versions.iter().map(ToString::to_string).collect(),
                similar: family
                    .settings
                    .iter()
                    .filter(|other| {
                        family.has_setting(other, version) && shares_a_word(&other.name, &entry.name)
                    })
                    .map(|other| other.name.clone())
                    .collect(),
            }),
            _ => Ok(entry),
        }
    }
}

/// Checks a value and gives it in the form that every library takes (`true` and `false`). Without a version it is one that
/// some version takes.
pub(crate) fn check_value(
    entry: &SettingEntry,
    version: Option<&Version>,
    value: &str,
) -> Result<String, ResolveError> {
    let bad = |expected: String| ResolveError::BadValue {
        name: entry.name.clone(),
        value: value.to_owned(),
        expected,
    };
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

impl SettingEntry {
    /// The numbers that a version takes, where a number is none of them.
    fn beyond(&self, version: Option<&Version>, number: i64) -> Option<String> {
        let in_question = |range: &&VersionRange| version.is_none_or(|version| range.contains(version));
        let ranges: Vec<&VersionRange> = self.in_versions.iter().filter(in_question).collect();
        if ranges.is_empty() || ranges.iter().any(|range| range.takes(number)) {
            return None;
        }
        let told: Vec<String> = ranges
            .iter()
            .map(|range| match (range.least, range.most) {
                (Some(least), Some(most)) => format!("{least} to {most}"),
                (Some(least), None) => format!("{least} or more"),
                (None, most) => format!("{} at most", most.unwrap_or(i64::MAX)),
            })
            .collect();
        Some(told.join(", or in other versions "))
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

/// `decommit_delay` and `purge_delay` share `delay`.
fn shares_a_word(a: &str, b: &str) -> bool {
    a.split('_').any(|word| word.len() > 3 && b.split('_').any(|other| other == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str) -> Result<Resolved, ResolveError> {
        Catalog::builtin().resolve(&text.parse().unwrap())
    }

    fn environment(text: &str) -> Vec<(String, String)> {
        let resolved = resolve(text).unwrap();
        let version = resolved.spec.version.clone();
        resolved.environment(version.as_ref()).unwrap()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
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
            ("glibc?MALLOC_ARENA_MAX=2", "did you mean `arena_max`?"),
        ] {
            let message = resolve(text).unwrap_err().to_string();
            assert!(message.contains(near), "{text}: {message}");
        }
        assert!(!resolve("windows").unwrap_err().to_string().contains("did you mean"));
    }

    #[test]
    fn a_setting_of_another_version_names_the_versions_that_have_it() {
        let message = resolve("mimalloc@2.0.9?purge_delay=0").unwrap_err().to_string();
        assert!(message.contains("2.1.2 to 2.3.2"), "{message}");
        assert!(message.contains("decommit_delay"), "{message}");
        let message = resolve("mimalloc@3.0.1?decommit_delay=0").unwrap_err().to_string();
        assert!(message.contains("2.0.6 to 2.1.1") && message.contains("purge_delay"), "{message}");
    }

    #[test]
    fn values_are_checked() {
        for text in
            ["glibc?arena_max=many", "jemalloc@5.3.0?background_thread=2", "jemalloc@5.3.0?thp=sometimes"]
        {
            assert!(matches!(resolve(text), Err(ResolveError::BadValue { .. })), "{text}");
        }
        for value in ["1000", "-1024", "1GiB"] {
            let message = resolve(&format!("mimalloc@2.1.7?arena_reserve={value}")).unwrap_err().to_string();
            assert!(message.contains("(bytes)"), "{message}");
        }
        for (text, expected) in [
            ("glibc@2.36?mxfast=200", "0 to 160 (bytes)"),
            ("glibc@2.41?tcache_max=2048", "0 to 1032 (bytes)"),
            ("glibc@2.43?tcache_max=4194304", "0 to 4194280 (bytes)"),
            ("glibc?tcache_count=100000", "0 to 65535"),
            ("glibc?arena_max=-1", "0 or more"),
            ("mimalloc@2.0.9?max_segment_reclaim=4", "8 to 1024"),
            ("glibc?hugetlb=5", "one of 0, 1, 2"),
        ] {
            let message = resolve(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        for text in ["glibc?tcache_max=2048", "glibc@2.43?tcache_max=2048", "glibc?trim_threshold=-1"] {
            assert!(resolve(text).is_ok(), "{text}");
        }
        let message = resolve("jemalloc@5.3.0?narenas=4,tcache:false").unwrap_err().to_string();
        assert!(message.contains("without `:` and `,`"), "{message}");
    }

    #[test]
    fn settings_reach_the_variables_that_each_library_reads() {
        assert_eq!(
            environment("glibc?arena_max=1&mmap_threshold=16384"),
            [pair("MALLOC_ARENA_MAX", "1"), pair("MALLOC_MMAP_THRESHOLD_", "16384")]
        );
        assert_eq!(
            environment("glibc?tcache_count=0&hugetlb=1&arena_max=2"),
            [
                pair("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.hugetlb=1"),
                pair("MALLOC_ARENA_MAX", "2")
            ]
        );
        assert_eq!(environment("mimalloc@3.0.1?purge_delay=0"), [pair("MIMALLOC_PURGE_DELAY", "0")]);
        assert_eq!(
            environment("mimalloc@2.1.7?arena_reserve=65536"),
            [pair("MIMALLOC_ARENA_RESERVE", "65536")]
        );
        assert_eq!(
            environment("jemalloc@5.3.0?dirty_decay_ms=0&background_thread=1"),
            [pair("MALLOC_CONF", "dirty_decay_ms:0,background_thread:true")]
        );
        assert_eq!(
            environment("scudo?quarantine_size_kb=64&zero_contents=true"),
            [pair("SCUDO_OPTIONS", "quarantine_size_kb=64:zero_contents=true")]
        );
        assert_eq!(
            environment("tcmalloc@2.10?aggressive_decommit=1"),
            [pair("TCMALLOC_AGGRESSIVE_DECOMMIT", "true")]
        );
    }

    #[test]
    fn what_cannot_be_proved_cannot_be_asked_for() {
        assert!(matches!(resolve("scudo@14"), Err(ResolveError::Unversioned { .. })));
        assert!(matches!(resolve("musl"), Err(ResolveError::IdentifyOnly { .. })));
    }
}
