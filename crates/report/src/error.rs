//! Why a report could not be made.

use std::io;
use std::path::{Path, PathBuf};

use heaptrial_evaluate::judgement::JudgementError;
use heaptrial_model::{Classified, ErrorClass};
use heaptrial_store::StoreError;

/// Why a report could not be made or written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The database could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Judgement(#[from] JudgementError),
    /// A stored look that this version cannot read.
    #[error("look {number} cannot be read as it is stored: {source}")]
    StoredLook { number: u32, source: serde_json::Error },
    /// A file or folder of the report could not be written.
    #[error("cannot write {}: {source}; the database is untouched, so the report can be made again", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the report could not be turned into JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Classified for ReportError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Store(error) => error.class(),
            Self::Judgement(error) => error.class(),
            Self::StoredLook { .. } | Self::Write { .. } | Self::Json(_) => ErrorClass::Failed,
        }
    }
}

impl ReportError {
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}
