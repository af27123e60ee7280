//! A build that a package of `heaptrial allocators package` installed: a host without compiler and network has exactly
//! the build that was packaged elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_model::{AllocatorSpec, Version};
use serde::Deserialize;

use super::{Attempt, ObtainError, Obtainer, SourceError, expected};
use crate::cache::failure;
use crate::digest;
use crate::obtained::Obtained;
use crate::provenance::Provenance;
use crate::resolve::Resolved;

/// Where packages have their documents.
const DOCUMENTS: &str = "/usr/share/doc";
const BUILD_INFO: &str = "buildinfo.json";

/// What a package says of its build.
#[derive(Debug, Deserialize)]
struct PackagedBuild {
    spec: String,
    version: Option<Version>,
    library: PackagedLibrary,
    source: Provenance,
}

#[derive(Debug, Deserialize)]
struct PackagedLibrary {
    path: PathBuf,
    sha256: String,
}

impl Obtainer {
    /// The first installed build of this very spec that proves to be it.
    pub(super) fn try_package(
        &self,
        resolved: &Resolved,
        attempts: &mut Vec<Attempt>,
    ) -> Result<Option<Obtained>, ObtainError> {
        for build in builds(Path::new(DOCUMENTS), &resolved.spec) {
            match self.packaged_library(resolved, &build) {
                Ok(obtained) => return self.check_settings(resolved, obtained).map(Some),
                Err(why) => {
                    let source = format!("packaged {}", build.library.path.display());
                    attempts.push(Attempt { source, why });
                }
            }
        }
        Ok(None)
    }

    fn packaged_library(&self, resolved: &Resolved, build: &PackagedBuild) -> Result<Obtained, SourceError> {
        let PackagedLibrary { path, sha256 } = &build.library;
        let found = digest::of_file(path).map_err(failure("reading", path))?;
        if found != *sha256 {
            return Err(SourceError::Checksum {
                what: path.display().to_string(),
                expected: sha256.clone(),
                found,
            });
        }
        let obtained = self.host_library(resolved, path)?;
        let version = obtained.version.or_else(|| build.version.clone());
        let expected = expected(resolved, version.as_ref(), Some(path));
        let provenance = build.source.packaged();
        let verification = obtained.verification.resting_on(&expected, &provenance);
        Ok(Obtained { version, verification, provenance, ..obtained })
    }
}

/// Installed builds of a spec, by the names of their packages.
fn builds(documents: &Path, spec: &AllocatorSpec) -> Vec<PackagedBuild> {
    let spec = spec.without_settings().to_string();
    let entries = fs::read_dir(documents).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("heaptrial-"))
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    let read = |folder: PathBuf| {
        serde_json::from_str::<PackagedBuild>(&fs::read_to_string(folder.join(BUILD_INFO)).ok()?).ok()
    };
    folders.into_iter().filter_map(read).filter(|build| build.spec == spec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_builds_of_the_very_spec_count() {
        let folder = tempfile::tempdir().unwrap();
        let info = |package: &str, spec: &str| {
            let folder = folder.path().join(package);
            fs::create_dir(&folder).unwrap();
            let text = format!(
                r#"{{"spec": "{spec}", "version": "2.0.9", "library": {{"path": "/l/{package}.so", "sha256": "0"}},
                    "source": {{"kind": "host", "path": "/l/x.so"}}}}"#
            );
            fs::write(folder.join(BUILD_INFO), text).unwrap();
        };
        info("heaptrial-mimalloc-2.0.9-secure-b", "mimalloc@2.0.9+secure");
        info("heaptrial-mimalloc-2.0.9-secure-a", "mimalloc@2.0.9+secure");
        info("heaptrial-mimalloc-2.0.9-c", "mimalloc@2.0.9");
        info("another", "mimalloc@2.0.9+secure");
        fs::create_dir(folder.path().join("heaptrial-x")).unwrap();
        fs::write(folder.path().join("heaptrial-x").join(BUILD_INFO), "{").unwrap();
        let found = |spec: &str| -> Vec<String> {
            let builds = builds(folder.path(), &spec.parse().unwrap());
            builds.iter().map(|build| build.library.path.display().to_string()).collect()
        };
        assert_eq!(
            found("mimalloc@2.0.9+secure?purge_delay=0"),
            ["/l/heaptrial-mimalloc-2.0.9-secure-a.so", "/l/heaptrial-mimalloc-2.0.9-secure-b.so"]
        );
        assert_eq!(found("mimalloc@2.0.9"), ["/l/heaptrial-mimalloc-2.0.9-c.so"]);
        assert!(found("mimalloc").is_empty());
    }
}
