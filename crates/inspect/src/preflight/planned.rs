//! What is to be applied.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use heaptrial_allocator::{Expected, Obtained};
use heaptrial_model::Version;

/// What is to be applied to a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedTreatment {
    /// The allocator; `None` leaves the service with what it has.
    pub preload: Option<PlannedPreload>,
    pub torrc: BTreeMap<String, String>,
    pub unit_files: Vec<PathBuf>,
    /// Unit files of earlier treatments that would stay in force alongside it.
    pub left_overs: Vec<PathBuf>,
    /// Whether they take the place of what an ended trial left.
    pub replaces: bool,
}

/// An allocator that is to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedPreload {
    /// What the process must run. Its object is where the library will be; `None` for the service's own C library.
    pub expected: Expected,
    /// The file that is there now and will be installed as that object.
    pub source: Option<PathBuf>,
    /// Environment variables that will be removed.
    pub unset: Vec<String>,
    /// The C library that it has to run under, where that is not the service's own.
    pub other_glibc: Option<Version>,
}

impl PlannedPreload {
    /// An obtained allocator whose library will be installed at `library`.
    pub fn of(obtained: &Obtained, library: Option<PathBuf>) -> Self {
        let expected = match &obtained.library {
            Some(_) => Expected { object: library, ..obtained.expected() },
            None => Expected::own_c_library(obtained.spec.clone(), obtained.settings.clone()),
        };
        Self {
            expected,
            source: obtained.library.clone(),
            unset: Vec::new(),
            other_glibc: obtained.loader.as_ref().map(|loader| loader.version.clone()),
        }
    }

    pub(crate) fn library(&self) -> Option<&Path> {
        self.expected.object.as_deref()
    }

    /// The environment variables that the drop-in will set.
    pub fn environment(&self) -> Vec<(String, String)> {
        self.environment_with(self.library())
    }

    /// The same with the library somewhere else.
    pub(crate) fn environment_with(&self, library: Option<&Path>) -> Vec<(String, String)> {
        let preload = library.map(|path| ("LD_PRELOAD".to_owned(), path.to_string_lossy().into_owned()));
        preload.into_iter().chain(self.expected.settings.iter().cloned()).collect()
    }
}
