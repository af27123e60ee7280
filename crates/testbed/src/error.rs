use std::io;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

/// This machine cannot boot containers; the text says what is missing and how to get it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// What went wrong with a container.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// This machine cannot boot containers.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("{action} {}: {source}", path.display())]
    File {
        /// What was tried, such as `cannot read`.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: io::Error },
    /// A program ended with an error.
    #[error("{command}: {status}\n{output}")]
    Failed { command: String, status: String, output: String },
    /// Something did not happen in time.
    #[error("{what} did not happen within {limit:?}\n{said}")]
    Timeout {
        what: String,
        limit: Duration,
        /// What is known about why.
        said: String,
    },
    /// An option or name that cannot be used.
    #[error("{0}")]
    Refused(String),
}

impl TestbedError {
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> TestbedError {
        let path = path.into();
        move |source| TestbedError::File { action, path, source }
    }
}

/// Runs a program to its end and gives its standard output, or all that it said if it failed.
pub(crate) fn succeed(command: &mut Command) -> Result<String, TestbedError> {
    let output = output(command)?;
    succeeded(command, &output)
}

/// Runs a program to its end.
pub(crate) fn output(command: &mut Command) -> Result<Output, TestbedError> {
    command.output().map_err(|source| TestbedError::Start {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })
}

/// The standard output of a program that succeeded.
pub(crate) fn succeeded(command: &Command, output: &Output) -> Result<String, TestbedError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    Err(TestbedError::Failed {
        command: words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "),
        status: output.status.to_string(),
        output: format!("{}{}", text(&output.stdout), text(&output.stderr)),
    })
}
