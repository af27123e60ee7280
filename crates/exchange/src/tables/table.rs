//! A table with a header, read row by row.

use csv::{ByteRecord, Reader, ReaderBuilder};
use heaptrial_model::units;

use super::time::{Clock, NOT_A_TIME, Timezone};
use super::{Content, Rows, Times};
use crate::ImportError;
use crate::problem::{Place, ProblemKind, Problems, escape};

const TIME_OPTION: &str = "--time COLUMN";
/// Separators of fields. A file's is the one that its header has most often.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// What some editors put at the start of a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Rows of a CSV file. Lines that start with `#` are comments, empty lines are passed over.
pub(crate) struct Table<'a> {
    pub file: &'a str,
    bytes: &'a [u8],
    delimiter: u8,
    reader: Reader<&'a [u8]>,
    pub header: Vec<String>,
    header_line: u64,
    /// Whether fields are texts, which may span lines.
    pub has_texts: bool,
    /// Rows read, malformed ones included; one that takes in several lines and cannot be understood is as many.
    pub rows: u64,
    pub skipped: u64,
    /// Those of them that cannot be understood; the others say that there was nothing to measure.
    pub not_understood: u64,
    clock: Clock<'a>,
    problems: &'a mut Problems,
}

/// One column with date and time, or two.
#[derive(Clone, Copy)]
pub(super) enum TimeColumns {
    One(usize),
    Two(usize, usize),
}

impl<'a> Table<'a> {
    /// Reads the header. `expected` says what it should have.
    pub fn open(
        content: Content<'a>,
        expected: &str,
        timezone: &'a Timezone,
        problems: &'a mut Problems,
    ) -> Result<Self, ImportError> {
        let (file, bytes) =
            (content.file, content.bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content.bytes));
        let delimiter = delimiter(bytes);
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .buffer_capacity(64 * 1024)
            .from_reader(bytes);
        let mut record = ByteRecord::new();
        if !next(&mut reader, &mut record) {
            return Err(ImportError::Refused(format!(
                "{file}: empty; expected a header line with {expected}"
            )));
        }
        let name = |field: &[u8]| String::from_utf8_lossy(field.trim_ascii()).to_ascii_lowercase();
        let header = record.iter().map(name).collect();
        let header_line = line(bytes, &record);
        Ok(Self {
            file,
            bytes,
            delimiter,
            reader,
            header,
            header_line,
            has_texts: false,
            rows: 0,
            skipped: 0,
            not_understood: 0,
            clock: Clock::new(timezone),
            problems,
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
            let advice = match option {
                "" => String::new(),
                option => format!("; name it with {option} (`heaptrial import csv`)"),
            };
            ImportError::Refused(format!(
                "{}:{}: no column of {what}: looked for {}; the header has: {}{advice}",
                self.file,
                self.header_line,
                names.join(" or "),
                self.found()
            ))
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
    pub fn next(&mut self, record: &mut ByteRecord) -> Result<bool, ImportError> {
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
            let value = record.iter().collect::<Vec<_>>().join(&self.delimiter);
            let line = line(self.bytes, record);
            let place = Place { file: self.file, line, column: None, value: &value };
            self.problems.report(place, ProblemKind::MalformedRow, &what)?;
            self.problems.count_more(ProblemKind::MalformedRow, lines - 1);
            self.rows += lines - 1;
            self.skipped += lines;
            self.not_understood += lines;
        }
    }

    /// Counts this row as malformed because of one field.
    pub fn skip(&mut self, record: &ByteRecord, column: usize, what: &str) -> Result<(), ImportError> {
        self.not_understood += 1;
        self.leave_out(record, column, what)
    }

    /// Counts this row as malformed because one field has no reading, as of a service that did not run.
    pub fn leave_out(&mut self, record: &ByteRecord, column: usize, what: &str) -> Result<(), ImportError> {
        self.skipped += 1;
        self.report(record, column, ProblemKind::MalformedRow, what)
    }

    /// Reports something about a field.
    pub fn report(
        &mut self,
        record: &ByteRecord,
        column: usize,
        kind: ProblemKind,
        what: &str,
    ) -> Result<(), ImportError> {
        let place = Place {
            file: self.file,
            line: line(self.bytes, record),
            column: Some((column, self.header.get(column).map_or("", String::as_str))),
            value: record.get(column).unwrap_or_default(),
        };
        self.problems.report(place, kind, what)
    }

    /// The columns with the time; `given` is the one that somebody named.
    pub fn time_columns(&self, given: Option<&str>) -> Result<TimeColumns, ImportError> {
        match (given, self.column(&["date"]), self.column(&["time"])) {
            (None, Some(date), Some(time)) => Ok(TimeColumns::Two(date, time)),
            (Some(given), ..) => self.require("times", &[given], TIME_OPTION).map(TimeColumns::One),
            (None, ..) => {
                let usual = ["timestamp", "time", "datetime", "date"];
                self.require("times", &usual, TIME_OPTION).map(TimeColumns::One)
            }
        }
    }

    /// The time of a row; a malformed one is reported and gives `None`.
    pub fn time(&mut self, record: &ByteRecord, columns: TimeColumns) -> Result<Option<i64>, ImportError> {
        let (column, wall_us) = match columns {
            TimeColumns::One(column) => (column, self.clock.read(&record[column])),
            TimeColumns::Two(date, time) => (date, self.clock.read_parts(&record[date], &record[time])),
        };
        if wall_us.is_none() {
            self.skip(record, column, NOT_A_TIME)?;
        }
        Ok(wall_us)
    }

    /// How many rows there were, and what was learnt from their times.
    pub fn finish(self) -> (Rows, Times) {
        (Rows { read: self.rows, skipped: self.skipped }, self.clock.times)
    }
}

fn delimiter(bytes: &[u8]) -> u8 {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let header = lines.find(|line| !line.is_empty() && !line.starts_with(b"#")).unwrap_or_default();
    let count = |delimiter: &u8| header.iter().filter(|byte| *byte == delimiter).count();
    // With equal counts the last one wins, so the comma is last.
    DELIMITERS.into_iter().rev().max_by_key(count).unwrap_or(b',')
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
