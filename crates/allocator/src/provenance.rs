//! Where an obtained allocator came from, in enough detail to get the same one again.

use std::fmt;
use std::path::PathBuf;

use heaptrial_host::{HostRoot, Package, packages_of};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    #[serde(flatten)]
    pub origin: Origin,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    Host {
        path: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        package: Option<String>,
    },
    DebianPackage {
        suite: String,
        package: String,
        version: String,
        sha256: String,
    },
    Crate {
        name: String,
        version: String,
        sha256: String,
    },
    Git {
        url: String,
        commit: String,
    },
    Local {
        path: PathBuf,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    pub compiler: String,
    /// Variables that were set, as NAME=VALUE; apart from PATH, HOME, TMPDIR and LD_LIBRARY_PATH there were no others.
    pub environment: Vec<String>,
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
        Self { origin: Origin::Host { path, package: package.map(shown) }, build: None }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Host { path, package } => {
                let package = package.as_ref().map_or(String::new(), |package| format!(" of {package}"));
                write!(f, "installed {}{package}", path.display())?;
            }
            Origin::DebianPackage { suite, package, version, .. } => {
                write!(f, "package {package} {version} of {suite}")?;
            }
            Origin::Crate { name, version, .. } => write!(f, "source in crate {name} {version}")?,
            Origin::Git { url, commit } => write!(f, "{url} at {}", commit.get(..12).unwrap_or(commit))?,
            Origin::Local { path } => write!(f, "given {}", path.display())?,
        }
        self.build.as_ref().map_or(Ok(()), |build| write!(f, ", built with {}", build.compiler))
    }
}
