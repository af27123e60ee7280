//! Which processes of a service count.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::str::FromStr;

use regex::bytes::Regex;

use crate::Process;

/// Processes whose command line, with spaces between its words as ps(1) shows it, has a match of a regular expression.
/// Programs that set their title show it there.
#[derive(Debug, Clone)]
pub struct ProcessPattern(Regex);

impl FromStr for ProcessPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let built = regex::bytes::RegexBuilder::new(text).unicode(false).build();
        built.map(Self).map_err(|error| error.to_string())
    }
}

impl fmt::Display for ProcessPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl ProcessPattern {
    /// Whether a process counts; one that has ended does not.
    pub(crate) fn holds(&self, process: &Process) -> bool {
        let Ok(words) = process.cmdline() else { return false };
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.0.is_match(&words.join(&b' '))
    }
}
