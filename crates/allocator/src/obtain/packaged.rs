//! A build that a package of `heaptrial allocators package` installed: a host without compiler and network has exactly
//! the build that was packaged elsewhere.

use std::fs;
use std::path::PathBuf;

use heaptrial_model::{AllocatorSpec, Version};
use serde::Deserialize;

use super::{Obtainer, SourceError, host};
use crate::application::Application;
use crate::cache::failure;
use crate::digest;
use crate::obtained::Obtained;
use crate::provenance::Provenance;
use crate::resolve::Resolved;

const DOCUMENTS: &str = "/usr/share/doc";

/// What `buildinfo.json` of a package says of its build.
#[derive(Debug, Deserialize)]
pub(super) struct PackagedBuild {
    spec: String,
    version: Option<Version>,
    pub(super) library: PackagedLibrary,
    source: Provenance,
}

#[derive(Debug, Deserialize)]
pub(super) struct PackagedLibrary {
    pub(super) path: PathBuf,
    sha256: String,
}

impl Obtainer {
    pub(super) fn packaged_library(
        &self,
        resolved: &Resolved,
        build: &PackagedBuild,
    ) -> Result<Obtained, SourceError> {
        let PackagedLibrary { path, sha256 } = &build.library;
        let found = digest::of_file(path).map_err(failure("reading", path))?;
        if found != *sha256 {
            return Err(SourceError::checksum(&path.display().to_string(), sha256, &found));
        }
        let application = Application::preload(path);
        let obtained = self.asked(resolved, &resolved.spec, path, &application, build.source.clone())?;
        let version = obtained.version.or_else(|| build.version.clone());
        Ok(Obtained { version, licences: host::licences(path), ..obtained })
    }
}

/// Installed builds of exactly this spec, by the names of their packages.
pub(super) fn builds(spec: &AllocatorSpec) -> Vec<PackagedBuild> {
    let spec = spec.without_settings().to_string();
    let entries = fs::read_dir(DOCUMENTS).into_iter().flatten().flatten();
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("heaptrial-"));
    let mut files: Vec<PathBuf> = own.map(|entry| entry.path().join("buildinfo.json")).collect();
    files.sort();
    let read = |file: PathBuf| serde_json::from_slice::<PackagedBuild>(&fs::read(file).ok()?).ok();
    files.into_iter().filter_map(read).filter(|build| build.spec == spec).collect()
}
