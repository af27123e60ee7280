//! Data out: the Tor operators' CSV and Parquet.

mod parquet;
mod series;
mod torutils;

use std::fmt;
use std::io::Write;
use std::str::FromStr;

use heaptrial_store::Store;

use crate::ExportError;
use series::Trial;

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// The unified CSV of the TorUtils scripts.
    TorUtils,
    /// Apache Parquet, a row per sample.
    Parquet,
}

impl ExportFormat {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TorUtils => "torutils",
            Self::Parquet => "parquet",
        }
    }

    /// The usual ending of a file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Self::TorUtils => "csv",
            Self::Parquet => "parquet",
        }
    }
}

impl fmt::Display for ExportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "torutils" | "csv" => Ok(Self::TorUtils),
            "parquet" => Ok(Self::Parquet),
            _ => Err(format!("`{text}` is not an export format; expected torutils (or csv) or parquet")),
        }
    }
}

/// Writes all samples of a trial, of a lab run as of an import; gives how many there were.
///
/// Samples are passed on one by one, or for Parquet in groups of 65,536, so that memory does not grow with them.
pub fn export(
    store: &Store,
    trial_id: i64,
    format: ExportFormat,
    writer: &mut (dyn Write + Send),
) -> Result<u64, ExportError> {
    let trial = Trial::read(store, trial_id)?;
    match format {
        ExportFormat::TorUtils => torutils::write(store, &trial, writer),
        ExportFormat::Parquet => parquet::write(store, &trial, writer),
    }
}
