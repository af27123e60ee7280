//! The catalog: which allocators there are, where each version comes from, how it is asked for its
//! version, its settings and its heap-security properties. All of it is data in `catalog.toml`.

use std::sync::{Arc, LazyLock};

use heaptrial_model::Version;
use serde::{Deserialize, Serialize};

use crate::mitigation::Mitigation;
use crate::processors::ProcessorSizing;
use crate::search::Tried;

#[derive(Debug, Clone)]
pub struct Catalog {
    families: Vec<Arc<Family>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    pub name: String,
    pub summary: String,
    pub licence: Option<String>,
    pub version_call: VersionCall,
    #[serde(default)]
    pub symbols: Vec<String>,
    #[serde(default)]
    pub in_programs: Vec<String>,
    #[serde(default)]
    pub own_functions: Vec<String>,
    #[serde(default)]
    pub strings: Vec<String>,
    #[serde(default)]
    pub library_names: Vec<String>,
    #[serde(default)]
    pub is_c_library: bool,
    #[serde(default)]
    pub identify_only: bool,
    pub default: Option<Version>,
    pub git: Option<String>,
    #[serde(default)]
    pub environment: Environment,
    /// Whether and how it sizes itself by the number of processors; `None` is unknown.
    pub processors: Option<ProcessorSizing>,
    pub build: Option<Recipe>,
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
    #[serde(default, rename = "version")]
    pub versions: Vec<Release>,
    #[serde(default)]
    pub unversioned: Vec<DebianPackage>,
    #[serde(default, rename = "setting")]
    pub settings: Vec<SettingEntry>,
    #[serde(default, rename = "mitigation")]
    pub mitigations: Vec<Mitigation>,
}

/// How a loaded library is asked for its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionCall {
    /// `int mi_version(void)`: 209 is 2.0.9, 30302 is 3.3.2.
    MiVersion,
    Mallctl,
    TcVersion,
    GnuGetLibcVersion,
    None,
}

impl VersionCall {
    /// The call as C writes it.
    pub(crate) fn function(self) -> Option<&'static str> {
        match self {
            Self::MiVersion => Some("mi_version()"),
            Self::Mallctl => Some("mallctl(\"version\")"),
            Self::TcVersion => Some("tc_version()"),
            Self::GnuGetLibcVersion => Some("gnu_get_libc_version()"),
            Self::None => None,
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Prefix of one variable per setting, followed by the name in capitals.
    pub prefix: Option<String>,
    pub combined: Option<Combined>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Combined {
    pub variable: String,
    pub assign: char,
    pub separator: char,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case", deny_unknown_fields)]
pub enum Recipe {
    Compile {
        output: String,
        compiler: String,
        flags: Vec<String>,
        #[serde(default)]
        flags_x86_64: Vec<String>,
        include: Vec<String>,
        sources: Vec<String>,
        libraries: Vec<String>,
    },
    Configure {
        output: String,
        arguments: Vec<String>,
        target: String,
        built: String,
    },
}

/// Another build of the same source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    pub about: String,
    pub flags: Vec<String>,
    pub says: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    pub version: Version,
    #[serde(default)]
    pub debian: Vec<DebianPackage>,
    #[serde(rename = "crate")]
    pub crate_source: Option<CrateSource>,
    pub commit: Option<Commit>,
}

/// A package of a suite of Debian or Ubuntu.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebianPackage {
    pub suite: String,
    pub package: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrateSource {
    pub name: String,
    pub version: String,
    pub sha256: String,
    pub path: String,
    pub configure: Option<String>,
    pub reports: Option<Version>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    pub tag: String,
    pub id: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingEntry {
    pub name: String,
    pub kind: SettingKind,
    pub unit: Option<String>,
    /// The library keeps and reports it in so many units, and takes it in single ones.
    pub granule: Option<i64>,
    pub multiplies: Option<String>,
    pub about: String,
    pub variable: Option<String>,
    pub key: Option<String>,
    #[serde(default)]
    pub values: Vec<String>,
    pub search: Option<Tried>,
    pub in_versions: Vec<VersionRange>,
}

impl SettingEntry {
    /// A value in the unit that it is given in, of one that the library keeps.
    pub(crate) fn given(&self, kept: i64) -> i64 {
        kept.saturating_mul(self.granule.unwrap_or(1))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingKind {
    Bool,
    Integer,
    Number,
    Text,
}

/// Versions from one to another, both included, with a setting's default there.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionRange {
    pub from: Option<Version>,
    pub to: Option<Version>,
    pub default: Option<String>,
    pub least: Option<i64>,
    pub most: Option<i64>,
}

#[derive(Debug, thiserror::Error)]
#[error("the allocator catalog is not valid: {0}")]
pub struct CatalogError(#[from] toml::de::Error);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    family: Vec<Family>,
}

impl Catalog {
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Catalog> = LazyLock::new(|| {
            // A test reads the same text, so a build whose tests pass cannot fail here.
            Catalog::parse(include_str!("../catalog.toml")).expect("the built-in catalog is valid")
        });
        &BUILTIN
    }

    pub fn parse(text: &str) -> Result<Self, CatalogError> {
        let file: File = toml::from_str(text)?;
        Ok(Self { families: file.family.into_iter().map(Arc::new).collect() })
    }

    pub fn families(&self) -> impl Iterator<Item = &Arc<Family>> {
        self.families.iter()
    }

    pub fn family(&self, name: &str) -> Option<&Arc<Family>> {
        self.families.iter().find(|family| family.name == name)
    }
}

impl Family {
    pub fn release(&self, version: &Version) -> Option<&Release> {
        self.versions.iter().find(|release| release.version == *version)
    }

    /// Whether a library of a release may report this version.
    pub(crate) fn reports(&self, release: &Version, version: &Version) -> bool {
        let of_crate = || self.release(release)?.crate_source.as_ref()?.reports.as_ref();
        release == version || of_crate() == Some(version)
    }

    /// Functions that show it inside a program.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &str> {
        self.symbols.iter().chain(&self.in_programs).map(String::as_str)
    }

    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }

    /// Whether a version has a setting. One that is not listed has what the listed ones before and after it have.
    pub fn has_setting(&self, setting: &SettingEntry, version: &Version) -> bool {
        let listed = |release: Option<&Release>| {
            release.is_some_and(|release| setting.range(&release.version).is_some())
        };
        let is_listed = self.release(version).is_some();
        let before = self.versions.iter().rev().find(|release| release.version < *version);
        let after = self.versions.iter().find(|release| release.version > *version);
        setting.range(version).is_some() || (!is_listed && listed(before) && listed(after))
    }

    pub fn setting(&self, name: &str) -> Option<&SettingEntry> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    /// What is known of a mitigation in the plain build or in a variant; `None` is unknown.
    pub fn mitigation(&self, name: &str, variant: Option<&str>) -> Option<&Mitigation> {
        self.mitigations.iter().find(|cell| cell.name == name && cell.variant.as_deref() == variant)
    }

    /// Whether an environment variable is one that this family reads.
    pub fn reads_variable(&self, variable: &str) -> bool {
        let begins_with = |prefix: &String| variable.starts_with(prefix.as_str());
        self.environment.prefix.as_ref().is_some_and(begins_with)
            || self.environment.combined.as_ref().is_some_and(|combined| combined.variable == variable)
            || self.settings.iter().any(|setting| setting.variable.as_deref() == Some(variable))
    }
}

impl SettingEntry {
    pub fn range(&self, version: &Version) -> Option<&VersionRange> {
        self.in_versions.iter().find(|range| range.contains(version))
    }

    pub fn variable(&self, environment: &Environment) -> String {
        match (&self.variable, &self.key, &environment.prefix, &environment.combined) {
            (Some(variable), ..) => variable.clone(),
            (None, None, Some(prefix), _) => format!("{prefix}{}", self.name.to_uppercase()),
            (None, _, _, Some(combined)) => combined.variable.clone(),
            (None, ..) => self.name.to_uppercase(),
        }
    }
}

impl VersionRange {
    pub fn contains(&self, version: &Version) -> bool {
        self.from.as_ref().is_none_or(|from| from <= version)
            && self.to.as_ref().is_none_or(|to| version <= to)
    }

    /// Whether a number is one that the library takes.
    pub fn takes(&self, number: i64) -> bool {
        self.least.is_none_or(|least| least <= number) && self.most.is_none_or(|most| number <= most)
    }
}

impl std::fmt::Display for VersionRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) if from == to => write!(f, "{from}"),
            (Some(from), Some(to)) => write!(f, "{from} to {to}"),
            (Some(from), None) => write!(f, "{from} and later"),
            (None, Some(to)) => write!(f, "up to {to}"),
            (None, None) => f.write_str("all"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::mitigation::MITIGATIONS;

    #[test]
    fn the_builtin_catalog_is_consistent() {
        let parsed = Catalog::parse(include_str!("../catalog.toml"));
        let catalog = parsed.unwrap_or_else(|error| panic!("{error}"));
        let named: BTreeSet<&str> = catalog.families().map(|family| family.name.as_str()).collect();
        assert_eq!(named, BTreeSet::from(heaptrial_model::FAMILIES));
        let mut names = BTreeSet::new();
        for family in catalog.families() {
            assert!(names.insert(&family.name), "{} occurs twice", family.name);
            assert!(
                family.versions.windows(2).all(|pair| pair[0].version < pair[1].version),
                "{}: versions are not in order",
                family.name
            );
            if let Some(default) = &family.default {
                assert!(
                    family.release(default).is_some(),
                    "{}: default {default} is no version",
                    family.name
                );
            }
            for release in &family.versions {
                let at = format!("{}@{}", family.name, release.version);
                let routes = release.debian.len()
                    + usize::from(release.crate_source.is_some())
                    + usize::from(release.commit.is_some());
                assert!(routes > 0, "{at} comes from nowhere");
                let of_it = |setting: &SettingEntry| setting.range(&release.version).is_some();
                let has_settings = family.settings.is_empty() || family.settings.iter().any(of_it);
                assert!(has_settings, "{at}: the ranges of all settings end before it");
                if let Some(source) = &release.crate_source {
                    assert!(is_hex(&source.sha256, 64), "{at}: checksum");
                }
                if let Some(commit) = &release.commit {
                    assert!(is_hex(&commit.id, 40) && family.git.is_some(), "{at}: commit");
                }
                assert!(
                    family.build.is_some() || (release.crate_source.is_none() && release.commit.is_none()),
                    "{at}: source without a recipe"
                );
            }
            for setting in &family.settings {
                let at = format!("{}?{}", family.name, setting.name);
                assert!(!setting.in_versions.is_empty(), "{at}: in no version");
                let same = family.settings.iter().filter(|other| other.name == setting.name).count();
                assert_eq!(same, 1, "{at}: occurs {same} times");
                let is_time = matches!(setting.unit.as_deref(), Some("s" | "seconds" | "msec" | "us"));
                assert!(!is_time, "{at}: times are in ms");
                for range in &setting.in_versions {
                    if let Some(default) = &range.default {
                        let version = range.from.as_ref().or(range.to.as_ref());
                        crate::resolve::check_value(setting, version, default)
                            .unwrap_or_else(|e| panic!("{at}: {e}"));
                    }
                }
                for release in &family.versions {
                    let holding = setting.in_versions.iter().filter(|r| r.contains(&release.version)).count();
                    assert!(holding <= 1, "{at}: {} lies in two ranges", release.version);
                }
            }
            for cell in &family.mitigations {
                assert!(MITIGATIONS.contains(&cell.name.as_str()), "{}: {}", family.name, cell.name);
                assert!(!cell.source.is_empty());
                if let Some(variant) = &cell.variant {
                    assert!(family.variant(variant).is_some(), "{}: no variant {variant}", family.name);
                }
            }
        }
    }

    fn is_hex(text: &str, length: usize) -> bool {
        text.len() == length && text.bytes().all(|b| b.is_ascii_hexdigit())
    }

    /// Upstream's sources of 3.0.8, 3.1.4, 3.2.8 and 2.4.0 have `purge_delay`; of 3.0.8 none has `generic_collect`.
    #[test]
    fn versions_between_listed_ones_have_what_both_have() {
        let mimalloc = Catalog::builtin().family("mimalloc").unwrap();
        let has = |name: &str, version: &str| {
            mimalloc.has_setting(mimalloc.setting(name).unwrap(), &Version::new(version))
        };
        assert!(["3.0.1", "3.0.8", "3.1.4", "3.2.8", "2.4.0"].iter().all(|at| has("purge_delay", at)));
        assert!(!has("purge_delay", "2.0.9") && !has("purge_delay", "2.0.8") && !has("purge_delay", "9.0"));
        assert!(!has("generic_collect", "3.0.8") && !has("decommit_delay", "3.0.8"));
    }
}
