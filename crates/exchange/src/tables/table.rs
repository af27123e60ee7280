//! A table with a header, read row by row.

use csv::{ByteRecord, Reader, ReaderBuilder};
use heaptrial_model::units;

use super::Rows;
use crate::ImportError;
use crate::problem::{Place, ProblemKind, Problems, escape};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Without the mark that some editors put at the start of a text.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)
}

/// Rows of a CSV file. Lines that start with `#` are comments, empty lines are passed over.
pub(crate) struct Table<'a> {
    pub file: &'a str,
    bytes: &'a [u8],
    reader: Reader<&'a [u8]>,
    /// Names of the columns in lower case.
    pub header: Vec<String>,
    header_line: u64,
    /// Whether fields are texts, which may span lines.
    pub has_texts: bool,
    /// Rows read, malformed ones included; one that takes in several lines and cannot be understood is as many.
    pub rows: u64,
    /// Rows of which something was left out.
    pub skipped: u64,
    /// Those of them that cannot be understood; the others say that there was nothing to measure.
    pub not_understood: u64,
}

impl<'a> Table<'a> {
    /// Reads the header. `expected` says what it should have.
    pub fn open(file: &'a str, bytes: &'a [u8], expected: &str) -> Result<Self, ImportError> {
        let bytes = without_mark(bytes);
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .buffer_capacity(64 * 1024)
            .from_reader(bytes);
        let mut record = ByteRecord::new();
        if !next(&mut reader, &mut record) {
            return Err(ImportError::Empty { file: file.to_owned(), expected: expected.to_owned() });
        }
        let name = |field: &[u8]| String::from_utf8_lossy(field.trim_ascii()).to_ascii_lowercase();
        let header = record.iter().map(name).collect();
        let header_line = line(bytes, &record);
        Ok(Self {
            file,
            bytes,
            reader,
            header,
            header_line,
            has_texts: false,
            rows: 0,
            skipped: 0,
            not_understood: 0,
        })
    }

    /// The position of the column with the first of these names that is there. `RSS (KB)` is `rss_kb`.
    pub fn column(&self, names: &[&str]) -> Option<usize> {
        let find = |name: &&str| self.header.iter().position(|own| words_of(own) == words_of(name));
        names.iter().find_map(find)
    }

    /// The same, an error where there is none: it says what the column is for, and which option names it.
    pub fn require(
        &self,
        what: &'static str,
        names: &[&str],
        option: &'static str,
    ) -> Result<usize, ImportError> {
        self.column(names).ok_or_else(|| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            ImportError::MissingColumn {
                file: self.file.to_owned(),
                line: self.header_line,
                what,
                needed: names.join(" or "),
                found: self.found(),
                option,
            }
        })
    }

    /// The columns as an error lists them.
    fn found(&self) -> String {
        let mut shown: Vec<String> =
            self.header.iter().take(40).map(|name| escape(name.as_bytes())).collect();
        if self.header.len() > shown.len() {
            shown.push(format!("… ({} columns)", self.header.len()));
        }
        shown.join(",")
    }

    /// The next row that has as many fields as the header, on one line unless they are texts; `false` at the end.
    pub fn next(&mut self, record: &mut ByteRecord, problems: &mut Problems) -> Result<bool, ImportError> {
        loop {
            if !next(&mut self.reader, record) {
                return Ok(false);
            }
            self.rows += 1;
            let lines = lines(record);
            let fields = record.len() == self.header.len();
            if fields && (lines == 1 || self.has_texts) {
                return Ok(true);
            }
            let mut what = Vec::new();
            if !fields {
                what.push(format!("{} fields where the header has {}", record.len(), self.header.len()));
            }
            // A quote that is not closed takes all the lines after it in.
            if lines > 1 {
                what.push(format!(
                    "a quote opens here and closes on a later line or never: {} lines are in this row",
                    units::count(lines)
                ));
            }
            let what = what.join("; ");
            let value = record.iter().collect::<Vec<_>>().join(&b',');
            let place = Place { file: self.file, line: self.line(record), column: None, value: &value };
            problems.report(place, ProblemKind::MalformedRow, &what)?;
            problems.count_more(ProblemKind::MalformedRow, lines - 1);
            self.rows += lines - 1;
            self.skipped += lines;
            self.not_understood += lines;
        }
    }

    /// Counts this row as malformed because of one field.
    pub fn skip(
        &mut self,
        record: &ByteRecord,
        column: usize,
        what: &str,
        problems: &mut Problems,
    ) -> Result<(), ImportError> {
        self.not_understood += 1;
        self.leave_out(record, column, what, problems)
    }

    /// Counts this row as malformed because one field has no reading, as of a service that did not run.
    pub fn leave_out(
        &mut self,
        record: &ByteRecord,
        column: usize,
        what: &str,
        problems: &mut Problems,
    ) -> Result<(), ImportError> {
        self.skipped += 1;
        problems.report(self.place(record, column), ProblemKind::MalformedRow, what)
    }

    /// How many rows there were so far.
    pub fn counted(&self) -> Rows {
        Rows { read: self.rows, skipped: self.skipped }
    }

    /// The line on which a row starts, counted from 1.
    pub fn line(&self, record: &ByteRecord) -> u64 {
        line(self.bytes, record)
    }

    pub fn place<'r>(&'r self, record: &'r ByteRecord, column: usize) -> Place<'r> {
        let name = self.header.get(column).map_or("", String::as_str);
        Place {
            file: self.file,
            line: self.line(record),
            column: Some((column, name)),
            value: record.get(column).unwrap_or_default(),
        }
    }
}

/// A column's name as words in lower case with `_` between them.
pub(super) fn words_of(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_lowercase()
}

/// How many lines a row takes in.
fn lines(record: &ByteRecord) -> u64 {
    let text = record.as_slice();
    let within = text.strip_suffix(b"\n").unwrap_or(text);
    1 + within.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Where a row starts. The reader knows where it began to look for it, before comments and empty lines.
fn line(bytes: &[u8], record: &ByteRecord) -> u64 {
    let Some(position) = record.position() else { return 0 };
    let mut line = position.line();
    let mut rest =
        usize::try_from(position.byte()).ok().and_then(|byte| bytes.get(byte..)).unwrap_or_default();
    loop {
        match rest.first() {
            Some(b'\n') => line += 1,
            Some(b'\r') => {}
            Some(b'#') => {
                let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len() - 1);
                rest = &rest[end..];
                line += 1;
            }
            _ => return line,
        }
        rest = &rest[1..];
    }
}

/// Bytes in memory cannot fail to be read, and with `flexible` no row is an error.
fn next(reader: &mut Reader<&[u8]>, record: &mut ByteRecord) -> bool {
    reader.read_byte_record(record).unwrap_or(false)
}
