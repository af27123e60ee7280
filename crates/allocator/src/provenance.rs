//! Where an obtained allocator came from, in enough detail to get the same one again.

use std::fmt;
use std::path::PathBuf;

use heaptrial_host::{HostRoot, Package, packages_of};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Provenance {
    Host {
        /// The library, or the C library.
        path: PathBuf,
        /// The package that it is of, with its version, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        package: Option<String>,
        /// Whether that host is another one, where it was packaged.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        elsewhere: bool,
    },
    /// A package of a Debian or Ubuntu suite.
    DebianPackage {
        /// Code name of the suite.
        suite: String,
        package: String,
        version: String,
        sha256: String,
    },
    /// The source inside a crate, compiled here.
    Crate {
        name: String,
        version: String,
        sha256: String,
        build: Build,
    },
    Git {
        url: String,
        commit: String,
        build: Build,
    },
    /// A library or a source folder that the user gave.
    Local {
        path: PathBuf,
        /// How it was built, if it was source.
        build: Option<Build>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// First line of the compiler's `--version`.
    pub compiler: String,
    /// Variables that were set, as NAME=VALUE; beside PATH, HOME, TMPDIR and LD_LIBRARY_PATH there were no others.
    pub environment: Vec<String>,
    /// Commands in order, with the source folder as the working folder.
    pub commands: Vec<Vec<String>>,
}

impl Provenance {
    /// A library, or the C library, that is installed on this host.
    pub(crate) fn of_host(path: PathBuf) -> Self {
        let package = packages_of(&HostRoot::default(), &[&path]).into_values().next();
        let shown = |package: Package| match package.version {
            Some(version) => format!("{} {version}", package.name),
            None => package.name,
        };
        Self::Host { path, package: package.map(shown), elsewhere: false }
    }

    /// The same as another host sees it that has the build by a package.
    pub(crate) fn packaged(&self) -> Self {
        match self.clone() {
            Self::Host { path, package, .. } => Self::Host { path, package, elsewhere: true },
            other => other,
        }
    }

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
            Self::Host { path, package, elsewhere } => {
                let host = if *elsewhere { "the host where it was packaged" } else { "this host" };
                let package = package.as_ref().map_or(String::new(), |package| format!(", {package}"));
                write!(f, "installed on {host} ({}{package})", path.display())
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packaged_elsewhere_is_not_told_as_installed_here() {
        let plain: Provenance = serde_json::from_str(r#"{"kind": "host", "path": "/l/x.so"}"#).unwrap();
        assert_eq!(plain.to_string(), "installed on this host (/l/x.so)");
        assert_eq!(plain.packaged().to_string(), "installed on the host where it was packaged (/l/x.so)");
        let package = Some("libx 1-2".to_owned());
        let shown = Provenance::Host { path: "/l/x.so".into(), package, elsewhere: false };
        assert_eq!(shown.to_string(), "installed on this host (/l/x.so, libx 1-2)");
    }
}
