//! Why no package could be made.

use std::io;
use std::path::PathBuf;

use heaptrial_allocator::ElfError;
use heaptrial_model::{Classified, ErrorClass};

/// Why no package could be made. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A C library is no library to preload.
    #[error(
        "{spec} cannot be packaged: it is the C library itself and no library to preload; install another C library with the system it belongs to"
    )]
    NoLibrary { spec: String },
    /// The library could not be read.
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    /// The library is no longer the one that was obtained.
    #[error(
        "{path} has SHA-256 {found}, and {expected} was obtained; somebody replaced it meanwhile, get it anew"
    )]
    Changed { path: PathBuf, expected: String, found: String },
    /// The library cannot be read as ELF.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// It needs a library of which no package is known.
    #[error(
        "{path} needs {needed}, and it is not known which Debian package has that; a package that does not name it could be installed where the library cannot be loaded"
    )]
    UnknownDependency { path: PathBuf, needed: String },
    /// The path could not stand in a unit file or a script as it is.
    #[error(
        "{path} cannot be packaged: its path may only have letters, digits and / + - _ . ~; rename the library"
    )]
    Path { path: PathBuf },
    #[error("SOURCE_DATE_EPOCH is `{text}`; give seconds since 1970, or unset it")]
    Time { text: String },
    /// The archive could not be put together.
    #[error("cannot put the package together: {0}")]
    Archive(#[from] io::Error),
    /// The build information could not be written as JSON.
    #[error("cannot write the build information: {0}")]
    BuildInfo(#[from] serde_json::Error),
}

impl Classified for PackageError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Time { .. } => ErrorClass::Usage,
            Self::Read { .. } | Self::Archive(_) | Self::BuildInfo(_) => ErrorClass::Failed,
            Self::NoLibrary { .. }
            | Self::Changed { .. }
            | Self::Elf(_)
            | Self::UnknownDependency { .. }
            | Self::Path { .. } => ErrorClass::Refused,
        }
    }
}
