//! Why an allocator could not be obtained.

use heaptrial_model::{Classified, ErrorClass};

use crate::cache::CacheError;
use crate::elf::ElfError;
use crate::resolve::ResolveError;
use crate::tool::ToolError;
use crate::verify::VerifyError;

#[derive(Debug)]
pub struct Attempt {
    pub source: String,
    pub why: SourceError,
}

#[derive(Debug, thiserror::Error)]
pub enum ObtainError {
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error("cannot obtain `{spec}`; tried:{}\n  next: {next}", listed(.attempts))]
    NoSource { spec: String, attempts: Vec<Attempt>, next: String },
    #[error("`{spec}` does not run as asked: {source}")]
    Settings { spec: String, source: VerifyError },
}

impl Classified for ObtainError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Resolve(error) => error.class(),
            Self::Settings { .. } => ErrorClass::Refused,
            // Where all that was there is something else, it was refused; what could not be had is a failure.
            Self::NoSource { attempts, .. } => {
                let all = attempts.iter().all(|attempt| matches!(attempt.why, SourceError::Refused(_)));
                if all && !attempts.is_empty() { ErrorClass::Refused } else { ErrorClass::Failed }
            }
            Self::Cache(error) => error.class(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("{0}")]
    NotThere(String),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl SourceError {
    pub(super) fn checksum(what: &str, expected: &str, found: &str) -> Self {
        Self::Refused(format!("{what} has SHA-256 {found}, pinned is {expected}; it is not used"))
    }
}

impl From<ElfError> for SourceError {
    fn from(error: ElfError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<VerifyError> for SourceError {
    fn from(VerifyError(why): VerifyError) -> Self {
        Self::Refused(why)
    }
}

fn listed(attempts: &[Attempt]) -> String {
    if attempts.is_empty() {
        return "\n  - nothing: every source of it is excluded by the options".to_owned();
    }
    attempts.iter().map(|attempt| format!("\n  - {}: {}", attempt.source, attempt.why)).collect()
}
