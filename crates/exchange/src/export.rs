//! Data out: a CSV, a row per sample, in the columns that an import takes and all others that were read.

use std::io::Write;

use heaptrial_store::Store;

use crate::ExportError;

/// Writes all samples of a trial, of a lab run as of an import, in order of time; gives how many there were. Times are in UTC and say
/// so, because the zone that a file was imported in need not be the reader's.
///
/// Samples are passed on one by one, so that memory does not grow with them.
pub fn export(store: &Store, trial_id: i64, writer: &mut dyn Write) -> Result<u64, ExportError> {
    let mut csv = csv::Writer::from_writer(writer);
    let mut lines = 0;
    store.each_sample(trial_id, |row| {
        csv.write_record(row).map_err(io)?;
        lines += 1;
        Ok::<(), ExportError>(())
    })?;
    csv.flush()?;
    Ok(lines - 1)
}

fn io(error: csv::Error) -> ExportError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => ExportError::Write(error),
        other => ExportError::Write(std::io::Error::other(format!("{other:?}"))),
    }
}
