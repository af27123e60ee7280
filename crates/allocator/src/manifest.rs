//! What the cache keeps of an obtained allocator beside its files.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::cache::{CacheError, Staging, failure};
use crate::digest;
use crate::elf::LibraryFacts;
use crate::licence::LicenceText;
use crate::provenance::Provenance;
use crate::verify::Verification;

/// Its name in an entry's folder.
pub(crate) const FILE_NAME: &str = "manifest.json";

/// What is known of an obtained allocator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    pub(crate) spec: String,
    pub(crate) files: Vec<CachedFile>,
    /// The library to preload; for a C library, its `libc.so.6`.
    pub(crate) main: String,
    /// The dynamic loader of a C library.
    pub(crate) loader: Option<String>,
    /// GNU build id of the main file.
    pub(crate) build_id: Option<String>,
    /// The newest glibc whose symbols the main file needs.
    pub(crate) needed_glibc: Option<heaptrial_model::Version>,
    pub(crate) provenance: Provenance,
    pub(crate) licences: Vec<LicenceText>,
    /// What the probe found before it entered the cache.
    pub(crate) verification: Verification,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CachedFile {
    pub(crate) name: String,
    pub(crate) sha256: String,
}

impl Manifest {
    /// Describes the files of a staging folder.
    pub(crate) fn describe(
        spec: String,
        staging: &Staging<'_>,
        main: &str,
        loader: Option<&str>,
        facts: LibraryFacts,
        provenance: Provenance,
        verification: Verification,
    ) -> Result<Self, CacheError> {
        let folder = staging.files();
        let mut files = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failure("reading", &folder))? {
            let path = entry.map_err(failure("reading", &folder))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push(CachedFile {
                name,
                sha256: digest::of_file(&path).map_err(failure("reading", &path))?,
            });
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self {
            schema_version: 1,
            spec,
            files,
            main: main.to_owned(),
            loader: loader.map(ToOwned::to_owned),
            build_id: facts.build_id,
            needed_glibc: facts.needed_glibc,
            provenance,
            licences: Vec::new(),
            verification,
        })
    }

    pub(crate) fn main_sha256(&self) -> &str {
        self.files.iter().find(|file| file.name == self.main).map_or("", |file| &file.sha256)
    }
}
