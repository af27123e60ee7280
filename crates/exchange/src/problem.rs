//! What is wrong with parts of a file that is otherwise read.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::ImportError;

/// How many problems are kept in detail; all of them are counted.
pub const DETAILED_PROBLEMS: usize = 50;

const SHOWN_VALUE: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// A row that cannot be understood; it was left out.
    MalformedRow,
    /// Two readings of one service at one time with different values; the first was kept.
    ConflictingReading,
    /// Nothing was left out, but something had to be decided.
    Note,
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MalformedRow => "malformed row",
            Self::ConflictingReading => "conflicting reading",
            Self::Note => "note",
        })
    }
}

/// Something wrong at one place of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub kind: ProblemKind,
    pub file: String,
    /// The line on which the row starts, counted from 1; 0 for the file as a whole.
    pub line: u64,
    /// Number and name of the column, where it is about one: ``6 (`rss_kb`)``.
    pub column: Option<String>,
    pub what: String,
    pub value: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if let Some(column) = &self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.what)?;
        if !self.value.is_empty() {
            write!(f, ": `{}`", self.value)?;
        }
        Ok(())
    }
}

/// Collects problems; in strict mode the first one that is no note ends the import.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Problems {
    /// The first [`DETAILED_PROBLEMS`] of each kind.
    pub details: Vec<Problem>,
    pub counts: BTreeMap<ProblemKind, u64>,
    #[serde(skip)]
    strict: bool,
}

impl Problems {
    pub fn new(strict: bool) -> Self {
        Self { strict, ..Self::default() }
    }

    pub fn count(&self, kind: ProblemKind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// Counts as many more of a kind, one of which stands for all.
    pub(crate) fn count_more(&mut self, kind: ProblemKind, more: u64) {
        *self.counts.entry(kind).or_default() += more;
    }

    /// The first problem of a file that is no note, as the end of a clause; empty without any.
    pub(crate) fn first_of(&self, file: &str) -> String {
        let first =
            self.details.iter().find(|problem| problem.file == file && problem.kind != ProblemKind::Note);
        first.map(|first| format!("; the first: {first}")).unwrap_or_default()
    }

    /// Counts a problem, and keeps it if there is room for its kind.
    pub(crate) fn report(
        &mut self,
        place: Place<'_>,
        kind: ProblemKind,
        what: &str,
    ) -> Result<(), ImportError> {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let fatal = self.strict && kind != ProblemKind::Note;
        if *count as usize > DETAILED_PROBLEMS && !fatal {
            return Ok(());
        }
        let column =
            place.column.map(|(number, name)| format!("{} (`{}`)", number + 1, escape(name.as_bytes())));
        let problem = Problem {
            kind,
            file: place.file.to_owned(),
            line: place.line,
            column,
            what: what.to_owned(),
            value: escape(place.value),
        };
        if fatal {
            return Err(ImportError::Refused(format!(
                "{problem}\n  nothing was imported; without --strict this row is skipped and reported"
            )));
        }
        self.details.push(problem);
        Ok(())
    }
}

/// Where a problem is, without a copy of anything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub file: &'a str,
    pub line: u64,
    pub column: Option<(usize, &'a str)>,
    pub value: &'a [u8],
}

impl<'a> Place<'a> {
    pub fn of_file(file: &'a str) -> Self {
        Self { file, line: 0, column: None, value: b"" }
    }
}

/// A text from outside that may be shown: at most 60 characters, no control characters, no invalid UTF-8.
pub(crate) fn escape(bytes: &[u8]) -> String {
    // Four bytes a character at most; the rest need not be looked at.
    let head = &bytes[..bytes.len().min(4 * (SHOWN_VALUE + 1))];
    let text = String::from_utf8_lossy(head);
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == SHOWN_VALUE {
            shown.push('…');
            return shown;
        }
        push_shown(&mut shown, c);
    }
    if head.len() < bytes.len() {
        shown.push('…');
    }
    shown
}

/// A name from outside, whole: two that differ stay two.
pub(crate) fn escape_name(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    name.chars().for_each(|c| push_shown(&mut shown, c));
    shown
}

fn push_shown(shown: &mut String, c: char) {
    if c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    {
        shown.extend(c.escape_default());
    } else {
        shown.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shortened_and_escaped() {
        assert_eq!(escape(b"a\x00b\nc\xff"), "a\\u{0}b\\nc\u{fffd}");
        assert_eq!(escape(&[b'x'; 61]).chars().count(), 61);
        assert_eq!(escape(&[b'x'; 60]).chars().count(), 60);
        assert_eq!(escape(&vec![0xff; 1_000_000]).chars().count(), 61);
        assert_eq!(escape("a\u{202e}b".as_bytes()), "a\\u{202e}b");
    }

    #[test]
    fn all_are_counted_and_few_are_kept() {
        let mut problems = Problems::new(false);
        for line in 1..=200 {
            let place = Place { file: "f", line, column: Some((2, "rss_kb")), value: b"x" };
            problems.report(place, ProblemKind::MalformedRow, "not a number").unwrap();
        }
        problems.report(Place::of_file("f"), ProblemKind::Note, "n").unwrap();
        assert_eq!(problems.count(ProblemKind::MalformedRow), 200);
        assert_eq!(problems.details.len(), DETAILED_PROBLEMS + 1);
        assert_eq!(problems.details[0].to_string(), "f:1, column 3 (`rss_kb`): not a number: `x`");
    }
}
