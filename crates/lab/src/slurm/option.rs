//! Options that are passed on to `sbatch`.

use std::fmt;
use std::str::FromStr;

/// An option of `sbatch` in its long form, such as `partition=short` or `exclusive`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitOption(String);

/// Why a text is no option that can be passed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitOptionError {
    #[error(
        "`{0}` is no option of sbatch: NAME=VALUE or NAME in its long form, such as partition=short or exclusive"
    )]
    Form(String),
    #[error("{0} is decided by the run; leave it out")]
    Decided(String),
}

/// What a [`crate::slurm::Request`] says itself.
const DECIDED: [&str; 16] = [
    "array",
    "chdir",
    "dependency",
    "error",
    "export",
    "export-file",
    "help",
    "input",
    "job-name",
    "no-requeue",
    "ntasks",
    "open-mode",
    "output",
    "parsable",
    "test-only",
    "wrap",
];

impl FromStr for SubmitOption {
    type Err = SubmitOptionError;

    fn from_str(text: &str) -> Result<Self, SubmitOptionError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let is_name = name.len() > 1
            && name.starts_with(|letter: char| letter.is_ascii_lowercase())
            && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
        let is_value = value.is_none_or(|value| !value.is_empty() && !value.contains(char::is_control));
        if !is_name || !is_value {
            return Err(SubmitOptionError::Form(text.to_owned()));
        }
        if DECIDED.contains(&name) {
            return Err(SubmitOptionError::Decided(name.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for SubmitOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_they_are_written() {
        for text in ["partition=short", "exclusive", "cpus-per-task=4", "constraint=intel&fast", "mem=2G"] {
            assert_eq!(text.parse::<SubmitOption>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_none_or_is_decided_is_refused() {
        for text in ["", "p", "=x", "mem=", "--mem=1G", "Mem=1G", "mem=1\n2", "-p short"] {
            assert_eq!(text.parse::<SubmitOption>(), Err(SubmitOptionError::Form(text.to_owned())));
        }
        assert_eq!("array=1-9".parse::<SubmitOption>(), Err(SubmitOptionError::Decided("array".to_owned())));
    }
}
