//! Our block in an operator's torrc.

use std::collections::BTreeMap;

use super::{reserved, torrc};

const BEGIN: &[u8] = b"# heaptrial begin ";
const END: &[u8] = b"# heaptrial end\n";
/// Why a torrc is not edited. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TorrcRefusal {
    /// The option is not one that a trial may set.
    #[error("a trial cannot set {option}: {reason}")]
    Option { option: String, reason: &'static str },
    /// The value cannot be written as it is.
    #[error("the value `{value}` of {option} cannot be written into a torrc: {reason}")]
    Value { option: String, value: String, reason: &'static str },
    /// The marker cannot be written into one comment.
    #[error("`{0}` cannot mark a block in a torrc: it is empty, or has a control character")]
    Marker(String),
    /// There already is a block.
    #[error("the torrc already has a block of heaptrial: `{0}`; stop that trial first")]
    Taken(String),
    /// Tor reads a torrc up to its first NUL byte.
    #[error("the torrc has a NUL byte, behind which tor reads nothing")]
    Nul,
}

/// A change of a torrc: some options of a trial behind everything else. Tor takes the last value of an option that may
/// be given once.
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
            return Err(TorrcRefusal::Marker(marker.escape_debug().to_string()));
        }
        let mut names = Vec::new();
        for (option, value) in options {
            check_option(option)?;
            check_value(option, value)?;
            let name = option.to_ascii_lowercase();
            if names.contains(&name) {
                let reason = "it is given twice, with different capitals";
                return Err(TorrcRefusal::Option { option: option.clone(), reason });
            }
            names.push(name);
        }
        Ok(Self { marker: marker.to_owned(), options: options.clone() })
    }

    /// The new bytes: those of `original`, what its last line lacks as an end, and our block.
    pub fn apply(&self, original: &[u8]) -> Result<Vec<u8>, TorrcRefusal> {
        if let Some(marker) = Self::marker(original) {
            return Err(TorrcRefusal::Taken(marker));
        }
        if original.contains(&0) {
            return Err(TorrcRefusal::Nul);
        }
        let mut bytes = [original, torrc::missing_ending(original).as_bytes(), BEGIN].concat();
        bytes.extend(format!("{}\n", self.marker).bytes());
        for (option, value) in &self.options {
            bytes.extend(format!("{option} {value}\n").bytes());
        }
        bytes.extend(END);
        Ok(bytes)
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

fn check_option(option: &str) -> Result<(), TorrcRefusal> {
    let refuse = |reason| Err(TorrcRefusal::Option { option: option.escape_debug().to_string(), reason });
    if option.is_empty() {
        return refuse("it has no name");
    }
    if let Some(reason) = reserved::reason(option) {
        return refuse(reason);
    }
    if !option.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return refuse("names of options have letters and digits only");
    }
    Ok(())
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
    Err(TorrcRefusal::Value { option: option.to_owned(), value: value.escape_debug().to_string(), reason })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn a_second_block_is_refused_with_the_name_of_the_first() {
        let taken = edit().apply(applied("").as_bytes()).unwrap_err();
        assert_eq!(taken, TorrcRefusal::Taken("five-way 7f3a".to_owned()));
        // Also one that somebody cut off.
        let taken = edit().apply(b"# heaptrial begin other\nDirCache 0\n").unwrap_err();
        assert_eq!(taken, TorrcRefusal::Taken("other".to_owned()));
        assert_eq!(edit().apply(b"A b\0"), Err(TorrcRefusal::Nul));
    }

    #[test]
    fn values_that_tor_would_read_otherwise_are_refused() {
        for value in ["", "1\nUser root", "1 # comment", "\"1\"", "1\\", " 1", "1\r"] {
            let options = BTreeMap::from([("NumCPUs".to_owned(), value.to_owned())]);
            let refused = TorrcEdit::new("t", &options).unwrap_err();
            assert!(matches!(refused, TorrcRefusal::Value { .. }), "{refused}");
        }
        for option in ["", "ORPort", "+DirCache", "Dir Cache", "DirCache\nUser"] {
            let options = BTreeMap::from([(option.to_owned(), "1".to_owned())]);
            let refused = TorrcEdit::new("t", &options).unwrap_err();
            assert!(matches!(refused, TorrcRefusal::Option { .. }), "{refused}");
        }
        let twice = BTreeMap::from([("DirCache", "1"), ("dircache", "0")])
            .into_iter()
            .map(|(option, value)| (option.to_owned(), value.to_owned()))
            .collect();
        assert!(TorrcEdit::new("t", &twice).is_err());
        for marker in ["", "a\nb", " a"] {
            assert!(TorrcEdit::new(marker, &BTreeMap::new()).is_err(), "{marker:?}");
        }
    }

    fn torrc_like() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just("DirCache 1".to_owned()),
            Just("# heaptrial end".to_owned()),
            Just("# heaptrial begi".to_owned()),
            "[ #\"\\\\\r\n\ta-b]{0,6}",
            Just("\n".to_owned()),
            Just("\\\n".to_owned()),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn whatever_was_there_stays_in_front(original in torrc_like()) {
            match edit().apply(&original) {
                Ok(bytes) => prop_assert!(bytes.starts_with(&original)),
                Err(refused) => prop_assert!(matches!(refused, TorrcRefusal::Taken(_) | TorrcRefusal::Nul)),
            }
        }

        #[test]
        fn our_options_are_the_last_lines_of_whatever_can_be_read(original in torrc_like()) {
            if torrc::lines(&original).is_ok() {
                let edited = torrc::lines(&edit().apply(&original).unwrap()).unwrap();
                let last: Vec<&str> = edited[edited.len() - 2..].iter().map(|line| line.option.as_str()).collect();
                prop_assert_eq!(last, ["DirCache", "MaxMemInQueues"]);
                let before = torrc::lines(&original).unwrap();
                prop_assert_eq!(&edited[..edited.len() - 2], &before[..]);
            }
        }
    }
}
