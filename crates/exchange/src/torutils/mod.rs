//! The files of the TorUtils memory scripts: readers without a database.
//!
//! Columns are taken by name, so that their order and further columns do not matter. A row that cannot be
//! understood is left out, counted and told; nothing in a file can make a reader panic.

mod aggregate;
mod config;
mod diagnostics;
mod events;
mod groups;
mod number;
mod table;
mod time;
mod unified;
mod unit;
mod wide;

use jiff::civil::Date;

pub use config::{RelayConfig, read_config};
pub use diagnostics::HostAtLast;
pub use events::OperatorEvent;
pub use groups::{GroupFile, read_group};
pub use number::{MemoryUnit, MemoryUnitError};
pub(crate) use time::Clock;
pub use time::{Timezone, read_time};
pub(crate) use unit::Plausible;

use crate::ImportError;
use crate::measured::{Gatherer, Measurements};
use crate::problem::Problems;
use table::Table;

/// A file's name and content.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    /// Its name, as problems tell it.
    pub file: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// How many rows a file has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rows {
    /// Rows that were read, malformed ones included.
    pub read: u64,
    pub skipped: u64,
    /// The unit in which its memory was read; `None` where it has none.
    pub unit: Option<MemoryUnit>,
}

/// What was learnt from the times in files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// Times that were read without an offset.
    pub local: u64,
    /// Offsets, in seconds, of times that had one.
    pub offsets: std::collections::BTreeSet<i32>,
}

impl Times {
    fn add(&mut self, clock: Clock<'_>) {
        self.local += clock.local;
        self.offsets.extend(clock.offsets);
    }
}

/// Reads files with memory measurements, each in whichever of the three formats its header tells. A file is refused where more
/// than half of its rows cannot be understood: what the others say would be told of a fleet that they are a remnant of.
///
/// `first_day` is the date of the column `day0` in the format with a column per day; `unit` that of the memory, where it is not
/// what the columns' names say. Without it a file is refused with figures that no process has.
pub fn read_memory(
    contents: &[Content<'_>],
    timezone: &Timezone,
    first_day: Option<Date>,
    unit: Option<MemoryUnit>,
    problems: &mut Problems,
) -> Result<(Measurements, Vec<Rows>, Times), ImportError> {
    let mut gatherer = Gatherer::default();
    let mut rows = Vec::new();
    let mut times = Times::default();
    for content in contents {
        gatherer.begin_file(content.file);
        let mut clock = Clock::new(timezone);
        let mut table =
            Table::open(content.file, content.bytes, "columns such as `timestamp,nickname,rss_kb`")?;
        table.unit = unit;
        let usual = if unified::is_unified(&table) {
            unified::read(&mut table, &mut clock, &mut gatherer, problems)?;
            unified::UNIT
        } else if aggregate::is_aggregate(&table) {
            aggregate::read(&mut table, &mut clock, &mut gatherer, problems)?;
            unified::UNIT
        } else if wide::is_wide(&table) {
            wide::read(&mut table, timezone, first_day, &mut gatherer, problems)?;
            wide::UNIT
        } else {
            return Err(table.unknown_format());
        };
        if unit.is_none() {
            unit::check_too_large(&table, usual)?;
        }
        // Of a file without a readable row it is told that there is no measurement in it.
        if table.not_understood < table.rows && table.rows < 2 * table.not_understood {
            return Err(ImportError::MostlyMalformed {
                file: content.file.to_owned(),
                skipped: table.not_understood,
                rows: table.rows,
                first: problems.first_of(content.file),
            });
        }
        rows.push(Rows { read: table.rows, skipped: table.skipped, unit: Some(unit.unwrap_or(usual)) });
        times.add(clock);
    }
    Ok((gatherer.finish(problems)?, rows, times))
}

/// Reads `events.csv`: the events in order of time.
pub fn read_events(
    content: Content<'_>,
    timezone: &Timezone,
    problems: &mut Problems,
) -> Result<(Vec<OperatorEvent>, Rows, Times), ImportError> {
    let mut clock = Clock::new(timezone);
    let (events, read, skipped) = events::read(content.file, content.bytes, &mut clock, problems)?;
    let mut times = Times::default();
    times.add(clock);
    Ok((events, Rows { read, skipped, unit: None }, times))
}

/// Reads `diagnostics.csv`: the host at its last row.
pub fn read_diagnostics(
    content: Content<'_>,
    timezone: &Timezone,
    problems: &mut Problems,
) -> Result<(HostAtLast, Rows), ImportError> {
    let mut clock = Clock::new(timezone);
    let (host, read, skipped) = diagnostics::read(content.file, content.bytes, &mut clock, problems)?;
    Ok((host, Rows { read, skipped, unit: None }))
}
