//! Why no package could be made.

use std::io;
use std::path::PathBuf;

use crate::ElfError;
use heaptrial_model::{Classified, ErrorClass};

/// Why no package could be made. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A C library is no library to preload.
    #[error(
        "{spec} cannot be packaged: it is the C library itself and no library to preload; install another C library with the system it belongs to"
    )]
    NoLibrary { spec: String },
    #[error("{0}")]
    Refused(String),
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    /// The library cannot be read as ELF.
    #[error(transparent)]
    Elf(#[from] ElfError),
    #[error("SOURCE_DATE_EPOCH is `{text}`; give seconds since 1970, or unset it")]
    Time { text: String },
    #[error("cannot put the package together: {0}")]
    Archive(#[from] io::Error),
    #[error("cannot write the build information: {0}")]
    BuildInfo(#[from] serde_json::Error),
}

impl Classified for PackageError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Time { .. } => ErrorClass::Usage,
            Self::Read { .. } | Self::Archive(_) | Self::BuildInfo(_) => ErrorClass::Failed,
            Self::NoLibrary { .. } | Self::Refused(_) | Self::Elf(_) => ErrorClass::Refused,
        }
    }
}
