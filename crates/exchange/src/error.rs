//! Why an import or an export could not be done.

use std::path::PathBuf;

use heaptrial_model::{Classified, ErrorClass};
use heaptrial_store::StoreError;

use crate::{Problem, PrometheusError};

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be read.
    #[error("{path}: cannot be read: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// A file without even a header.
    #[error("{file}: empty; expected a header line with {expected}")]
    Empty {
        file: String,
        /// The columns that are needed.
        expected: String,
    },
    /// The header lacks a column.
    #[error("{file}:{line}: no column {needed}; the header has: {found}")]
    MissingColumn {
        file: String,
        line: u64,
        /// The column's name, or the names that would do.
        needed: String,
        /// The columns that are there.
        found: String,
    },
    /// Strict mode: the first problem.
    #[error("{0}\n  nothing was imported; without strict mode this row is left out and told")]
    Strict(Box<Problem>),
    #[error(
        "`{0}` is not a timezone; expected an offset such as -08:00, UTC, or a name such as America/Los_Angeles"
    )]
    Timezone(String),
    /// Times without an offset beside others that have one.
    #[error(
        "some times have no offset, and others have {offset}; nothing was imported: give --timezone {offset} or another, or \
         --timezone UTC"
    )]
    NoOffset {
        /// The offset that other times have.
        offset: String,
    },
    /// The request names no file with measurements.
    #[error("no file with memory measurements was named")]
    NoMemoryFile,
    /// Nothing was measured in the files.
    #[error("{files}: no measurement in it; {problems} rows were left out{first}")]
    NoMeasurement {
        files: String,
        /// How many malformed rows there are.
        problems: u64,
        /// The first of them, as the end of a sentence; empty without any.
        first: String,
    },
    /// A file most of whose rows cannot be understood.
    #[error(
        "{file}: {skipped} of {rows} rows cannot be understood{first}; nothing was imported: mend these rows, or take them \
         out if the rest is what you measured"
    )]
    MostlyMalformed {
        file: String,
        skipped: u64,
        rows: u64,
        /// The first of them, as the end of a clause; empty without any.
        first: String,
    },
    /// A list most of whose lines name no service.
    #[error(
        "{file}: no list of services: {skipped} of {rows} lines are no nickname; expected one nickname a line"
    )]
    NotAList {
        file: String,
        /// Lines that name no service.
        skipped: u64,
        rows: u64,
    },
    /// No service of any list was measured.
    #[error("no service of the lists is in the measurements, which have {measured} others, such as {some}")]
    NobodyMeasured { measured: usize, some: String },
    /// A list none of whose members was measured.
    #[error(
        "{file}: the list `{list}` {what}; nothing was imported: mend its names{rows}, or leave the list out"
    )]
    ListNotMeasured {
        /// Where the list comes from.
        file: String,
        /// The arm that it is.
        list: String,
        /// Whom it names, and what the measurements have.
        what: String,
        /// The rows that were left out, which may be of its services; empty without any.
        rows: String,
    },
    /// Figures that no service has.
    #[error(
        "{file}: half of the readings in the column `rss_kb` are {shown}; nothing was imported: the column is in KiB, so \
         multiply figures in MiB by 1024, and divide figures in bytes by 1024"
    )]
    Unit {
        file: String,
        /// Such as `below 1 MiB`.
        shown: &'static str,
    },
    /// Two lists of one name.
    #[error("two lists of services are called `{0}`; give each list (arm) a name of its own")]
    DuplicateList(String),
    /// A name that cannot name an arm or a trial.
    #[error("`{0}` cannot be a name; expected 1 to 120 printable characters without spaces at either end")]
    Name(String),
    /// The control is none of the arms.
    #[error("no arm is called `{control}`; the arms are: {arms}")]
    UnknownControl { control: String, arms: String },
    /// A trial of the given name was not imported.
    #[error("a trial `{0}` exists that was not imported this way; give another --name")]
    NameTaken(String),
    /// What a store of series tells, or does not.
    #[error(transparent)]
    Prometheus(#[from] PrometheusError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Classified for ImportError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Store(error) => error.class(),
            Self::Prometheus(error) => error.class(),
            _ => ErrorClass::Refused,
        }
    }
}

/// Why an export was not completed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is no such trial.
    #[error("the database has no trial {0}")]
    NoTrial(i64),
    /// The output cannot be written.
    #[error("writing the export: {0}")]
    Write(#[from] std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Classified for ExportError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Store(error) => error.class(),
            _ => ErrorClass::Failed,
        }
    }
}
