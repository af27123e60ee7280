//! The sources of a release and their order.

use super::compile;
use super::debian::HostSystem;
use crate::catalog::{Commit, CrateSource, DebianPackage, Family, Release};
use crate::provenance::{Build, Provenance};
use crate::resolve::Resolved;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// A build that a package of `heaptrial allocators package` installed.
    Package,
    /// A library that is installed on this host.
    Host,
    /// A package of the host's suite or of another.
    Debian,
    Crate,
    Git,
}

pub(super) enum Source<'a> {
    Debian(&'a DebianPackage),
    Crate(&'a CrateSource),
    Git(&'a str, &'a Commit),
}

/// The sources of a release, in order of preference: packages of the host's suite, packages of
/// others, the crate, upstream. Packages hold plain builds only.
pub(super) fn sources<'a>(
    family: &'a Family,
    release: Option<&'a Release>,
    variant: bool,
) -> Vec<Source<'a>> {
    let mut packages: Vec<&DebianPackage> = match release {
        _ if variant => Vec::new(),
        Some(release) => release.debian.iter().collect(),
        None => family.unversioned.iter().collect(),
    };
    let suite = HostSystem::read().map(|system| system.suite);
    packages.sort_by_key(|package| suite.as_deref() != Some(package.suite.as_str()));
    let mut sources: Vec<Source<'_>> = packages.into_iter().map(Source::Debian).collect();
    if let Some(release) = release {
        sources.extend(release.crate_source.as_ref().map(Source::Crate));
        if let (Some(url), Some(commit)) = (&family.git, &release.commit) {
            sources.push(Source::Git(url, commit));
        }
    }
    sources
}

impl Source<'_> {
    /// The name of the cache entry of what comes from here, below that of the spec.
    pub(super) fn key(&self, of_spec: &str) -> String {
        match self {
            Self::Debian(package) => format!("{of_spec}-debian-{}", package.suite),
            Self::Crate(_) => format!("{of_spec}-crate"),
            Self::Git(..) => format!("{of_spec}-git"),
        }
    }

    /// Whether something came from here, and would come in the same way today.
    pub(super) fn gives(&self, provenance: &Provenance, resolved: &Resolved) -> bool {
        let current = |build: &Build| {
            resolved
                .family
                .build
                .as_ref()
                .is_some_and(|recipe| compile::is_current(build, recipe, &resolved.variants))
        };
        match (self, provenance) {
            (Self::Debian(wanted), Provenance::DebianPackage { suite, package, .. }) => {
                (suite, package) == (&wanted.suite, &wanted.package)
            }
            (Self::Crate(source), Provenance::Crate { name, version, sha256, build }) => {
                (name, version, sha256) == (&source.name, &source.version, &source.sha256) && current(build)
            }
            (Self::Git(_, pinned), Provenance::Git { commit, build, .. }) => {
                *commit == pinned.id && current(build)
            }
            _ => false,
        }
    }

    pub(super) fn kind(&self) -> SourceKind {
        match self {
            Self::Debian(_) => SourceKind::Debian,
            Self::Crate(_) => SourceKind::Crate,
            Self::Git(..) => SourceKind::Git,
        }
    }
}

impl std::fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Debian(package) => write!(f, "package {} of {}", package.package, package.suite),
            Self::Crate(source) => write!(f, "source in crate {} {}", source.name, source.version),
            Self::Git(url, commit) => write!(f, "{url} at {}", commit.tag),
        }
    }
}
