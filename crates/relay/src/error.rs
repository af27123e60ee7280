use std::io;
use std::path::PathBuf;

use heaptrial_model::{Classified, ErrorClass};

use crate::Endpoint;

/// Why a relay, or a program of the Tor package, could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TorError {
    /// A program of the Tor package is missing.
    #[error(
        "`{program}` cannot be started: {source}; it comes with the Debian package `tor`: apt-get install tor"
    )]
    Program { program: String, source: io::Error },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// A file does not hold what it should.
    #[error("{path}: {problem}")]
    Content { path: PathBuf, problem: String },
    /// A socket could not be opened.
    #[error("{address}: {source}")]
    Socket { address: Endpoint, source: io::Error },
    /// A relay answered something else than expected.
    #[error("the relay at {address} {problem}")]
    Protocol { address: Endpoint, problem: String },
    /// A relay answered a request with an error, the code of control-spec first.
    #[error("the relay at {address} answered `{answer}`")]
    Refused { address: Endpoint, answer: String },
    /// A program of the Tor package failed, or keys could not be made.
    #[error("{0}")]
    Failed(String),
}

impl Classified for TorError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Failed
    }
}

impl TorError {
    /// Turns an error of a file into one that names it.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
