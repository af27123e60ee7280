//! Why an import or an export could not be done.

use std::path::Path;

use heaptrial_model::{Classified, ErrorClass};
use heaptrial_store::StoreError;

use crate::PrometheusError;

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The files or options do not make a trial: what, where, and what to do.
    #[error("{0}")]
    Refused(String),
    /// A file without even a header.
    #[error("{file}: empty; expected a header line with {expected}")]
    Empty {
        file: String,
        /// The columns that are needed.
        expected: String,
    },
    /// The header lacks a column.
    #[error(
        "{file}:{line}: no column of {what}: looked for {needed}; the header has: {found}{}",
        by_option(option)
    )]
    MissingColumn {
        file: String,
        line: u64,
        /// What the column is for.
        what: &'static str,
        /// The names that would do.
        needed: String,
        /// The columns that are there.
        found: String,
        /// The option that names it; empty without one.
        option: &'static str,
    },
    #[error(
        "{file}: the column `{column}` does not name its unit; give it with --unit bytes, KiB, MiB or GiB (`heaptrial import csv`)"
    )]
    NoUnit { file: String, column: String },
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
    /// A trial of the given name was not imported.
    #[error("a trial `{0}` exists that was not imported this way; give another --name")]
    NameTaken(String),
    #[error(transparent)]
    Prometheus(#[from] PrometheusError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn by_option(option: &str) -> String {
    if option.is_empty() {
        String::new()
    } else {
        format!("; name it with {option} (`heaptrial import csv`)")
    }
}

impl ImportError {
    pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self::Refused(format!("{}: cannot be read: {error}", path.display()))
    }
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
