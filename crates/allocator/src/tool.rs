//! Running the system's own clients (apt-get, cargo, git, compilers) without a shell.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program that is run to its end with its output collected.
#[derive(Debug)]
pub(crate) struct Tool {
    command: Command,
    program: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("`{program}` is not installed (or not in PATH)")]
    Missing { program: String },
    #[error("cannot start `{program}`: {source}")]
    Start { program: String, source: io::Error },
    #[error("`{line}` failed ({status}){}", indented(.output))]
    Failed { line: String, status: String, output: String },
}

impl ToolError {
    /// Whether the program failed because the disk is full.
    pub fn is_full_disk(&self) -> bool {
        let said = |output: &str| {
            ["No space left on device", "Disk quota exceeded"].iter().any(|text| output.contains(text))
        };
        matches!(self, Self::Failed { output, .. } if said(output))
    }
}

const KEPT_LINES: usize = 12;

/// What a build takes from this process's environment: where its programs and their libraries are, and where they may write.
/// Everything else may change what is built (CC, CFLAGS, LDFLAGS, CPATH, LIBRARY_PATH, CONFIG_SITE, MAKEFLAGS, ...).
const KEPT_BY_BUILDS: [&str; 4] = ["PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR"];

/// What each build has in its environment besides.
pub(crate) const OF_BUILDS: [(&str, &str); 2] = [("LC_ALL", "C.UTF-8"), ("SOURCE_DATE_EPOCH", "0")];

fn indented(output: &str) -> String {
    output.lines().map(|line| format!("\n    {line}")).collect()
}

impl Tool {
    pub(crate) fn new(program: &str) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).env("LC_ALL", "C.UTF-8").env_remove("LD_PRELOAD");
        // A hook of git has what would have git look into another repository than the one that it is given.
        let of_git =
            std::env::vars_os().map(|(name, _)| name).filter(|name| name.as_bytes().starts_with(b"GIT_"));
        of_git.for_each(|name| {
            command.env_remove(name);
        });
        Self { command, program: program.to_owned() }
    }

    /// A program of a build, in an environment that is the same each time.
    pub(crate) fn of_build(program: &str) -> Self {
        let mut tool = Self::new(program);
        tool.command.env_clear();
        let kept = KEPT_BY_BUILDS.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        tool.command.envs(kept).envs(OF_BUILDS);
        tool
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args<S: AsRef<std::ffi::OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn in_folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub(crate) fn run(mut self) -> Result<String, ToolError> {
        let output = self.command.output().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ToolError::Missing { program: self.program.clone() },
            _ => ToolError::Start { program: self.program.clone(), source },
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let arguments = self.command.get_args().map(|argument| argument.to_string_lossy().into_owned());
        let words: Vec<String> = std::iter::once(self.program.clone()).chain(arguments).collect();
        Err(ToolError::Failed {
            line: words.join(" "),
            status: output.status.to_string(),
            output: lines[lines.len().saturating_sub(KEPT_LINES)..].join("\n"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_has_nothing_of_the_environment_that_may_change_it() {
        let of = |tool: Tool| tool.run().unwrap();
        // Cargo sets the one, scripts/test.sh the other.
        let of_caller = of(Tool::new("env"));
        assert!(["CARGO_MANIFEST_DIR=", "HEAPTRIAL_SKIPPED="].iter().any(|name| of_caller.contains(name)));
        let of_build = of(Tool::of_build("env"));
        let names = of_build.lines().filter_map(|line| Some(line.split_once('=')?.0));
        let known =
            |name: &str| KEPT_BY_BUILDS.contains(&name) || OF_BUILDS.iter().any(|(own, _)| *own == name);
        assert_eq!(names.filter(|name| !known(name)).collect::<Vec<_>>(), [""; 0]);
        assert!(of_build.contains("PATH=") && of_build.contains("SOURCE_DATE_EPOCH=0"), "{of_build}");
    }
}
