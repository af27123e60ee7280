//! Data out: a CSV, a row per sample.

mod csv;
mod series;

use std::io::Write;

use heaptrial_store::Store;

use crate::ExportError;
use series::Trial;

/// Writes all samples of a trial, of a lab run as of an import, in the columns that an import takes and all others; gives how many
/// there were.
///
/// Samples are passed on one by one, so that memory does not grow with them.
pub fn export(store: &Store, trial_id: i64, writer: &mut dyn Write) -> Result<u64, ExportError> {
    csv::write(store, &Trial::read(store, trial_id)?, writer)
}
