//! Where an obtained allocator came from, in enough detail to get the same one again.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where an allocator came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Provenance {
    /// Installed on this host.
    Host {
        /// The library, or the C library.
        path: PathBuf,
    },
    /// A package of a Debian or Ubuntu suite.
    DebianPackage {
        /// Code name of the suite.
        suite: String,
        /// Package name.
        package: String,
        /// Package version.
        version: String,
        /// SHA-256 of the package file.
        sha256: String,
    },
    /// The source inside a crate, compiled here.
    Crate {
        /// Crate name.
        name: String,
        /// Crate version.
        version: String,
        /// SHA-256 of the crate file.
        sha256: String,
        /// How it was built.
        build: Build,
    },
    /// Upstream's source, compiled here.
    Git {
        /// Where it was cloned from.
        url: String,
        /// The commit.
        commit: String,
        /// How it was built.
        build: Build,
    },
    /// A library or a source folder that the user gave.
    Local {
        /// Which.
        path: PathBuf,
        /// How it was built, if it was source.
        build: Option<Build>,
    },
}

/// How a library was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// First line of the compiler's `--version`.
    pub compiler: String,
    /// Variables that were set, as NAME=VALUE; beside PATH, HOME, TMPDIR and LD_LIBRARY_PATH there were no others. Builds of
    /// earlier versions, which had all that their users had, tell none.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Commands in order, with the source folder as the working folder.
    pub commands: Vec<Vec<String>>,
}

impl Provenance {
    /// How it was built, where that is known.
    pub fn build(&self) -> Option<&Build> {
        match self {
            Self::Crate { build, .. } | Self::Git { build, .. } => Some(build),
            Self::Local { build, .. } => build.as_ref(),
            Self::Host { .. } | Self::DebianPackage { .. } => None,
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { path } => write!(f, "installed on this host ({})", path.display()),
            Self::DebianPackage { suite, package, version, .. } => {
                write!(f, "package {package} {version} of {suite}")
            }
            Self::Crate { name, version, build, .. } => {
                write!(f, "source in crate {name} {version}, built with {}", build.compiler)
            }
            Self::Git { url, commit, build } => {
                write!(f, "{url} at {}, built with {}", commit.get(..12).unwrap_or(commit), build.compiler)
            }
            Self::Local { path, build: None } => write!(f, "given library {}", path.display()),
            Self::Local { path, build: Some(build) } => {
                write!(f, "given source {}, built with {}", path.display(), build.compiler)
            }
        }
    }
}
