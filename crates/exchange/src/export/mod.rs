//! Data out: CSV and Parquet.

mod csv;
mod parquet;
mod series;

use std::io::Write;

use heaptrial_store::Store;

use crate::ExportError;
use series::Trial;

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// A row per sample, in the columns that an import takes and all others.
    Csv,
    /// Apache Parquet, a row per sample.
    Parquet,
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
        ExportFormat::Csv => csv::write(store, &trial, writer),
        ExportFormat::Parquet => parquet::write(store, &trial, writer),
    }
}
