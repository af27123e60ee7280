//! What is to be applied.

use std::collections::BTreeMap;
use std::path::PathBuf;

use heaptrial_allocator::{Obtained, check_library};
use heaptrial_model::{AllocatorSpec, HumanDuration, Version};

/// What is to be applied to a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedTreatment {
    /// The allocator; `None` leaves the service with what it has.
    pub preload: Option<PlannedPreload>,
    /// torrc options, name to value.
    pub torrc: BTreeMap<String, String>,
    /// Restart the service this often.
    pub restart_every: Option<HumanDuration>,
    /// Unit files and drop-ins that will be written.
    pub unit_files: Vec<PathBuf>,
    /// Unit files of earlier treatments that would stay in force beside it.
    pub left_overs: Vec<PathBuf>,
    /// Whether they take the place of what an ended trial left.
    pub replaces: bool,
}

/// An allocator that is to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedPreload {
    /// The spec as asked for.
    pub spec: AllocatorSpec,
    /// Version, where it is known.
    pub version: Option<Version>,
    /// Where the library will be; `None` for the service's own C library.
    pub library: Option<PathBuf>,
    /// The file that is there now and will be installed as `library`.
    pub source: Option<PathBuf>,
    /// Environment variables that carry the settings.
    pub settings: Vec<(String, String)>,
    /// Environment variables that will be removed.
    pub unset: Vec<String>,
    /// The newest glibc whose symbols the library needs.
    pub needed_glibc: Option<Version>,
    /// The C library that it has to run under, where that is not the service's own.
    pub other_glibc: Option<Version>,
}

impl PlannedPreload {
    /// An obtained allocator whose library will be installed at `library`.
    pub fn of(obtained: &Obtained, library: Option<PathBuf>) -> Self {
        let source = obtained.library.clone();
        let needed = source.as_ref().and_then(|path| check_library(path).ok()?.needed_glibc);
        Self {
            spec: obtained.spec.clone(),
            version: obtained.version.clone(),
            library: library.filter(|_| source.is_some()),
            source,
            settings: obtained.settings.clone(),
            unset: Vec::new(),
            needed_glibc: needed,
            other_glibc: obtained.loader.as_ref().map(|loader| loader.version.clone()),
        }
    }

    /// The environment variables that the drop-in will set.
    pub fn environment(&self) -> Vec<(String, String)> {
        let preload =
            self.library.iter().map(|path| ("LD_PRELOAD".to_owned(), path.to_string_lossy().into_owned()));
        preload.chain(self.settings.iter().cloned()).collect()
    }

    pub(crate) fn unsets(&self, name: &str) -> bool {
        self.unset.iter().any(|unset| unset == name)
    }
}
