//! What is really mapped in a life.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Version;

/// The allocator that a process really uses, as proved from the running process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// Family such as `mimalloc`, or `unknown` where the evidence does not decide.
    pub family: String,
    /// Version as the mapped code itself tells it, where it does.
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
    /// Environment variables in force that this allocator reads, name to value.
    pub settings: BTreeMap<String, String>,
    /// What the conclusion rests on, one finding a line.
    pub evidence: Vec<String>,
    /// The shared libraries that the process maps, by name; empty where that was not recorded. They ask the allocator, and
    /// another version of one can change what an allocator needs by a factor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<MappedLibrary>,
}

/// A shared library that a process maps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct MappedLibrary {
    /// The name that programs ask for, such as `libzstd.so.1`.
    pub name: String,
    /// Its file, as the process sees it.
    pub path: PathBuf,
    /// The package that the file belongs to, where one is known.
    pub package: Option<String>,
    /// Version of that package.
    pub version: Option<String>,
    /// GNU build id, in hexadecimal.
    pub build_id: Option<String>,
}

impl MappedLibrary {
    /// The build: its package's version, or else the start of its build id.
    pub fn build(&self) -> String {
        const BUILD_ID_DIGITS: usize = 12;
        let id = |id: &String| format!("build id {}", id.get(..BUILD_ID_DIGITS).unwrap_or(id));
        self.version
            .clone()
            .or_else(|| self.build_id.as_ref().map(id))
            .unwrap_or_else(|| "unknown build".to_owned())
    }
}

/// How an allocator got into a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Linkage {
    /// Through `LD_PRELOAD` or the loader's `--preload`.
    Preloaded,
    /// The program or a library of it names the allocator as needed.
    Linked,
    /// Part of the program's own file.
    Static,
    /// The C library's own allocator.
    Libc,
    /// Cannot be told.
    Unknown,
}

impl Linkage {
    /// The word used in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preloaded => "preloaded",
            Self::Linked => "linked",
            Self::Static => "static",
            Self::Libc => "libc",
            Self::Unknown => "unknown",
        }
    }
}

impl Identity {
    /// `family version`, with `?` where the version is not known.
    pub fn label(&self) -> String {
        match (&self.version, &self.version_range) {
            (Some(version), _) => format!("{} {version}", self.family),
            (None, Some(range)) => format!("{} {range}", self.family),
            (None, None) => format!("{} ?", self.family),
        }
    }
}
