//! The first format: sums over all relays, without a row per relay.

use csv::ByteRecord;

use super::table::Table;
use super::time::Clock;
use super::unified::{TimeColumns, sums, sums_row};
use crate::ImportError;
use crate::measured::Gatherer;
use crate::problem::Problems;

/// Whether a header is of this format.
pub(super) fn is_aggregate(table: &Table<'_>) -> bool {
    table.column(&["num_relays"]).is_some()
}

pub(super) fn read(
    table: &mut Table<'_>,
    clock: &mut Clock<'_>,
    gatherer: &mut Gatherer,
    problems: &mut Problems,
) -> Result<(), ImportError> {
    let time = TimeColumns::of(table)?;
    // The columns in MB say less than those in KiB, and are not needed.
    for needed in ["total_kb", "avg_kb", "min_kb", "max_kb"] {
        table.require(&[needed])?;
    }
    let Some(sums) = sums(table) else { return Err(table.unknown_format()) };
    let mut record = ByteRecord::new();
    while table.next(&mut record, problems)? {
        let Some(wall_us) = time.read(table, &record, clock, problems)? else { continue };
        if let Some(row) = sums_row(table, &record, sums, wall_us, String::new(), problems)? {
            gatherer.aggregate(row);
        }
    }
    Ok(())
}
