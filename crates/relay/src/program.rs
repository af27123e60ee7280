//! Programs of the Tor package that run for a moment.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::TorError;

/// A program and its arguments.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its path, or a name in the search path.
    pub path: PathBuf,
    pub arguments: Vec<OsString>,
}

impl Program {
    /// The same, run by another user through `runuser`.
    pub fn by_user(self, user: &str) -> Self {
        let mut arguments: Vec<OsString> = ["-u", user, "--"].map(OsString::from).into();
        arguments.push(self.path.into());
        arguments.extend(self.arguments);
        Self { path: PathBuf::from("runuser"), arguments }
    }

    /// Runs it, with an environment as a system service has it, and gives its standard output. A failure
    /// has its warnings and errors.
    pub fn run(&self, timeout: Duration) -> Result<String, TorError> {
        self.run_reading(Stdio::null(), timeout)
    }

    /// The same, with something to read on its standard input.
    pub fn run_reading(&self, input: Stdio, timeout: Duration) -> Result<String, TorError> {
        let name = || self.name();
        let failed = |source| TorError::Program { program: name(), source };
        let mut child = Command::new(&self.path)
            .args(&self.arguments)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let output = reader(child.stdout.take());
        let errors = reader(child.stderr.take());
        let Some(status) = wait(&mut child, timeout).map_err(failed)? else {
            // A process that has ended meanwhile cannot be killed, and need not.
            let _ = child.kill();
            let _ = child.wait();
            let seconds = timeout.as_secs();
            return Err(TorError::Failed(format!(
                "`{}` did not end within {seconds} seconds and was killed",
                name()
            )));
        };
        let output = output.join().unwrap_or_default();
        if status.success() {
            return Ok(output);
        }
        let errors = errors.join().unwrap_or_default();
        Err(TorError::Failed(format!("`{}` failed: {}", name(), complaints(&output, &errors))))
    }

    fn name(&self) -> String {
        let words =
            std::iter::once(self.path.as_os_str()).chain(self.arguments.iter().map(OsString::as_os_str));
        words.map(|word| Path::new(word).display().to_string()).collect::<Vec<_>>().join(" ")
    }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is all there is.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, timeout: Duration) -> std::io::Result<Option<std::process::ExitStatus>> {
    let until = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Tor's warnings and errors, or all that a program said.
fn complaints(output: &str, errors: &str) -> String {
    let lines = || output.lines().chain(errors.lines()).map(str::trim).filter(|line| !line.is_empty());
    let marked: Vec<&str> =
        lines().filter(|line| line.contains("[warn]") || line.contains("[err]")).collect();
    let said = if marked.is_empty() { lines().collect() } else { marked };
    if said.is_empty() { "it said nothing".to_owned() } else { said.join("; ") }
}
