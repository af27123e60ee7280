//! Readers of CSV files with measurements and of the files of relay operators beside them, without a database.
//!
//! Columns are taken by name, so that their order and further columns do not matter. A row that cannot be
//! understood is skipped, counted and reported; nothing in a file can make a reader panic.

mod diagnostics;
mod events;
mod mapping;
mod measurements;
mod number;
mod table;
mod time;

pub use diagnostics::read_diagnostics;
pub use events::{OperatorEvent, read_events};
pub use mapping::Mapping;
pub use number::Unit;
pub use time::{Timezone, read_time};

use crate::ImportError;
use crate::measured::Measurements;
use crate::problem::Problems;
use table::Table;

/// A file's name and content.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    pub file: &'a str,
    pub bytes: &'a [u8],
}

/// How many rows a file has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rows {
    pub read: u64,
    pub skipped: u64,
}

/// What was learnt from the times in files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    pub local: u64,
    pub offsets: std::collections::BTreeSet<i32>,
}

impl Times {
    pub(crate) fn add(&mut self, other: Self) {
        self.local += other.local;
        self.offsets.extend(other.offsets);
    }
}

/// Reads files with memory measurements. A file is refused where more than half of its rows cannot be understood: the others are
/// no picture of the fleet.
pub fn read_memory(
    contents: &[Content<'_>],
    mapping: &Mapping,
    timezone: &Timezone,
    problems: &mut Problems,
) -> Result<(Measurements, Vec<Rows>, Times), ImportError> {
    let mut measurements = Measurements::default();
    let mut rows = Vec::new();
    let mut times = Times::default();
    for content in contents {
        let expected = "columns such as `timestamp,nickname,rss_kb`";
        let mut table = Table::open(*content, expected, timezone, problems)?;
        measurements::read(&mut table, mapping, &mut measurements)?;
        let not_understood = table.not_understood;
        let (counted, of_file) = table.finish();
        // A file without any readable row has no measurement, which is an error of its own.
        if not_understood < counted.read && counted.read < 2 * not_understood {
            return Err(ImportError::Refused(format!(
                "{}: {} of {} rows cannot be understood{}; nothing was imported: mend these rows, or take them out if the rest is \
                 what you measured",
                content.file,
                not_understood,
                counted.read,
                problems.first_of(content.file)
            )));
        }
        rows.push(counted);
        times.add(of_file);
    }
    Ok((measurements, rows, times))
}
