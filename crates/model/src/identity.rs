//! What is really mapped in a life.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Version;
use crate::word::words;

/// Digits of a build id or digest that are shown.
pub const BUILD_ID_DIGITS: usize = 12;

/// The allocator that a process really uses, as proved from the running process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// Family such as `mimalloc`, or `unknown` where the evidence does not decide.
    pub family: String,
    /// Version as the mapped code itself reports it, where it does.
    pub version: Option<Version>,
    /// What is known about the version where it is not exact, such as `2.0.x`.
    pub version_range: Option<String>,
    /// The mapped file that holds the allocator.
    pub path: Option<PathBuf>,
    /// GNU build id of that file, in hexadecimal.
    pub build_id: Option<String>,
    /// SHA-256 of that file, in hexadecimal, where it was computed.
    pub sha256: Option<String>,
    /// How it got into the process.
    pub linkage: Linkage,
    /// The family of an allocator that the program has under names of its own, beside the one that serves `malloc`. No
    /// treatment reaches what that one holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<String>,
    /// Environment variables in force that this allocator reads, name to value.
    pub settings: BTreeMap<String, String>,
    /// What the conclusion rests on, one finding a line.
    pub evidence: Vec<String>,
    /// The shared libraries that the process maps, by name; empty where that was not recorded. They ask the allocator, and
    /// another version of one can change what an allocator needs by a factor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<MappedLibrary>,
}

/// A shared library that a process maps. Two are the same where their builds are, wherever they lie and whatever
/// is known of their packages.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MappedLibrary {
    /// The name that programs ask for, such as `libzstd.so.1`.
    pub name: String,
    /// Its file, as the process sees it.
    pub path: PathBuf,
    /// The package that the file belongs to, where one is known.
    pub package: Option<String>,
    pub version: Option<String>,
    /// GNU build id, in hexadecimal.
    pub build_id: Option<String>,
}

impl PartialEq for MappedLibrary {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for MappedLibrary {}

impl PartialOrd for MappedLibrary {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MappedLibrary {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl MappedLibrary {
    /// What is compared: the name and the build id, and without one the version and the file.
    fn key(&self) -> (&str, &str, &Path) {
        match (&self.build_id, &self.version) {
            (Some(build_id), _) => (&self.name, build_id, Path::new("")),
            (None, version) => (&self.name, version.as_deref().unwrap_or_default(), &self.path),
        }
    }

    /// The build: its package's version, or else the start of its build id.
    pub fn build(&self) -> String {
        let id = |id: &String| format!("build id {}", id.get(..BUILD_ID_DIGITS).unwrap_or(id));
        self.version
            .clone()
            .or_else(|| self.build_id.as_ref().map(id))
            .unwrap_or_else(|| "unknown build".to_owned())
    }
}

words! {
    /// How an allocator got into a process.
    #[derive(Default)]
    pub enum Linkage: "way into a process" {
        /// Through `LD_PRELOAD` or the loader's `--preload`.
        Preloaded = "preloaded",
        /// The program or a library of it names the allocator as needed.
        Linked = "linked",
        /// Part of the program's own file.
        Static = "static",
        /// The C library's own allocator.
        Libc = "libc",
        /// The evidence does not decide.
        #[default]
        Unknown = "unknown",
    }
}

impl Identity {
    /// `family version`, with `?` where the version is not known, and what the program has beside it.
    pub fn label(&self) -> String {
        let version = self.version.as_ref().map(Version::as_str).or(self.version_range.as_deref());
        let carried = self.carried.iter().map(|family| format!(" + {family}"));
        format!("{} {}{}", self.family, version.unwrap_or("?"), carried.collect::<String>())
    }

    /// Whether both are one build of an allocator, by the bytes of its file where these are known of both.
    pub fn is_same_build(&self, other: &Self) -> bool {
        let is_same_file = match (&self.sha256, &other.sha256) {
            (Some(own), Some(other)) => own == other,
            _ => self.build_id == other.build_id && self.version == other.version,
        };
        self.family == other.family && is_same_file
    }

    /// Where this differs from what ran before, in words: another build, other settings.
    pub fn differences(&self, before: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        if !self.is_same_build(before) {
            differences.push(match self.label() == before.label() {
                true => format!("another build of {}", self.label()),
                false => format!("{} instead of {}", self.label(), before.label()),
            });
        }
        if self.settings != before.settings {
            let listed = |of: &Self| -> String {
                let settings: Vec<String> =
                    of.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
                if settings.is_empty() { "none".to_owned() } else { settings.join(" ") }
            };
            differences.push(format!("settings {} instead of {}", listed(self), listed(before)));
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_compared_by_build_id() {
        let library = |path: &str, package: Option<&str>, build_id: Option<&str>| MappedLibrary {
            name: "libz.so.1".to_owned(),
            path: path.into(),
            package: package.map(str::to_owned),
            version: package.map(|_| "1.2".to_owned()),
            build_id: build_id.map(str::to_owned),
        };
        assert_eq!(library("/a", Some("zlib1g"), Some("01")), library("/b", None, Some("01")));
        assert_ne!(library("/a", None, Some("01")), library("/a", None, Some("02")));
        assert_ne!(library("/a", None, None), library("/b", None, None));
    }
}
