//! Our block in an operator's torrc.

use std::collections::BTreeMap;

use super::reserved;
use super::torrc::{self, Change, Line};

const BEGIN: &[u8] = b"# heaptrial begin ";
const END: &[u8] = b"# heaptrial end\n";

/// Why a torrc is not edited. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TorrcRefusal(String);

/// A change of a torrc: some options of a trial behind everything else. Tor takes the last value of an option
/// that may be given once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorrcEdit {
    marker: String,
    options: BTreeMap<String, String>,
}

impl TorrcEdit {
    /// `marker` says whose block it is, such as the trial's name and id; `options` are written as they are.
    pub fn new(marker: &str, options: &BTreeMap<String, String>) -> Result<Self, TorrcRefusal> {
        let is_plain = !marker.is_empty() && marker.trim() == marker && !marker.contains(char::is_control);
        if !is_plain {
            let marker = marker.escape_debug();
            return Err(TorrcRefusal(format!(
                "`{marker}` cannot mark a block in a torrc: it is empty, or has a control character"
            )));
        }
        let mut names = Vec::new();
        for (option, value) in options {
            check_option(option)?;
            check_value(option, value)?;
            let name = option.to_ascii_lowercase();
            if names.contains(&name) {
                return Err(refused(option, "it is given twice, with different capitals"));
            }
            names.push(name);
        }
        Ok(Self { marker: marker.to_owned(), options: options.clone() })
    }

    /// The new bytes: those of `original`, a line break where the last line has none, and our block.
    pub fn apply(&self, original: &[u8]) -> Result<Vec<u8>, TorrcRefusal> {
        if let Some(marker) = Self::marker(original) {
            return Err(TorrcRefusal(format!(
                "the torrc already has a block of heaptrial: `{marker}`; stop that trial first"
            )));
        }
        let read = |bytes: &[u8]| {
            torrc::lines(bytes).map_err(|malformed| {
                TorrcRefusal(format!("line {} of the torrc {}", malformed.line, malformed.problem))
            })
        };
        let mut expected = read(original)?;
        let mut bytes = original.to_vec();
        if !original.is_empty() && !original.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        bytes.extend(BEGIN);
        bytes.extend(format!("{}\n", self.marker).bytes());
        for (option, value) in &self.options {
            bytes.extend(format!("{option} {value}\n").bytes());
            let value = value.as_bytes().to_vec();
            expected.push(Line { change: Change::Set, option: option.clone(), value });
        }
        bytes.extend(END);
        // A backslash at the end would continue the last line, and tor reads nothing behind a NUL byte.
        match read(&bytes)? == expected {
            true => Ok(bytes),
            false => Err(TorrcRefusal(
                "lines behind the last one of the torrc would not be read as lines of their own: it has a NUL byte, or ends with \
                 a backslash"
                    .to_owned(),
            )),
        }
    }

    /// The marker of the block in `bytes`, also of one whose end is missing.
    pub fn marker(bytes: &[u8]) -> Option<String> {
        let line =
            bytes[begin(bytes)? + BEGIN.len()..].split(|byte| *byte == b'\n').next().unwrap_or_default();
        Some(String::from_utf8_lossy(line).trim_end_matches('\r').to_owned())
    }

    /// Why an option cannot be a treatment; `None` where it can.
    pub fn refusal(option: &str) -> Option<TorrcRefusal> {
        check_option(option).err()
    }
}

fn begin(bytes: &[u8]) -> Option<usize> {
    line_starts(bytes).find(|at| bytes[*at..].starts_with(BEGIN))
}

fn line_starts(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let behind = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(behind)
}

fn refused(option: &str, reason: &str) -> TorrcRefusal {
    TorrcRefusal(format!("a trial cannot set {}: {reason}", option.escape_debug()))
}

fn check_option(option: &str) -> Result<(), TorrcRefusal> {
    if option.is_empty() {
        return Err(refused(option, "it has no name"));
    }
    if let Some(reason) = reserved::reason(option) {
        return Err(refused(option, reason));
    }
    match option.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        true => Ok(()),
        false => Err(refused(option, "names of options have letters and digits only")),
    }
}

fn check_value(option: &str, value: &str) -> Result<(), TorrcRefusal> {
    let reason = if value.is_empty() {
        "it is empty, which would mean tor's default; give the default itself"
    } else if value.contains(char::is_control) {
        "it has a control character"
    } else if value.trim() != value {
        "it has a space at its start or end"
    } else if value.contains('#') {
        "a # begins a comment"
    } else if value.starts_with('"') {
        "a quotation mark begins a quoted value"
    } else if value.ends_with('\\') {
        "a backslash at the end of a line continues it"
    } else {
        return Ok(());
    };
    let value = value.escape_debug();
    Err(TorrcRefusal(format!("the value `{value}` of {option} cannot be written into a torrc: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit() -> TorrcEdit {
        let options = BTreeMap::from([
            ("DirCache".to_owned(), "0".to_owned()),
            ("MaxMemInQueues".to_owned(), "1 GB".to_owned()),
        ]);
        TorrcEdit::new("five-way 7f3a", &options).unwrap()
    }

    fn applied(original: &str) -> String {
        String::from_utf8(edit().apply(original.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn the_block_stands_behind_everything_else() {
        let block = "# heaptrial begin five-way 7f3a\nDirCache 0\nMaxMemInQueues 1 GB\n# heaptrial end\n";
        assert_eq!(applied("DirCache 1\n"), format!("DirCache 1\n{block}"));
        assert_eq!(applied("DirCache 1"), format!("DirCache 1\n{block}"));
        assert_eq!(TorrcEdit::marker(applied("DirCache 1").as_bytes()).unwrap(), "five-way 7f3a");
    }

    #[test]
    fn what_tor_would_read_otherwise_is_refused() {
        let refused = |original: &[u8]| edit().apply(original).unwrap_err().to_string();
        assert!(refused(applied("").as_bytes()).contains("block of heaptrial: `five-way 7f3a`"));
        // Also a block that somebody cut off.
        assert!(refused(b"# heaptrial begin other\nDirCache 0\n").contains("`other`"));
        for original in [&b"A b\0"[..], b"A b \\", b"A b \\\n", b"A b \\\n# inside"] {
            assert!(refused(original).contains("lines of their own"));
        }
        assert!(refused(b"A \"b\n").contains("line 1 of the torrc"));
    }

    #[test]
    fn options_and_values_that_tor_would_read_otherwise_are_refused() {
        let edit = |option: &str, value: &str| {
            TorrcEdit::new("t", &BTreeMap::from([(option.to_owned(), value.to_owned())]))
        };
        for value in ["", "1\nUser root", "1 # comment", "\"1\"", "1\\", " 1", "1\r"] {
            assert!(edit("NumCPUs", value).unwrap_err().to_string().contains("cannot be written"));
        }
        for option in ["", "ORPort", "+DirCache", "Dir Cache", "DirCache\nUser"] {
            assert!(edit(option, "1").unwrap_err().to_string().contains("cannot set"));
        }
        let twice = ["DirCache", "dircache"].map(|option| (option.to_owned(), "1".to_owned()));
        assert!(TorrcEdit::new("t", &BTreeMap::from(twice)).is_err());
        for marker in ["", "a\nb", " a"] {
            assert!(TorrcEdit::new(marker, &BTreeMap::new()).is_err(), "{marker:?}");
        }
    }
}
