//! The files of the TorUtils memory scripts: readers without a database.
//!
//! Columns are taken by name, so that their order and further columns do not matter. A row that cannot be
//! understood is left out, counted and told; nothing in a file can make a reader panic.

mod config;
mod diagnostics;
mod events;
mod groups;
mod number;
mod table;
mod time;
mod unified;

pub use config::{RelayConfig, read_config};
pub use diagnostics::HostAtLast;
pub use events::OperatorEvent;
pub use groups::{GroupFile, read_group};
pub(crate) use time::Clock;
pub use time::{Timezone, read_time};

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
    fn of(clock: Clock<'_>) -> Self {
        Self { local: clock.local, offsets: clock.offsets }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.local += other.local;
        self.offsets.extend(other.offsets);
    }
}

/// Reads files with memory measurements. A file is refused where more than half of its rows cannot be understood: the others are
/// no picture of the fleet.
pub fn read_memory(
    contents: &[Content<'_>],
    timezone: &Timezone,
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
        unified::read(&mut table, &mut clock, &mut gatherer, problems)?;
        // Of a file without a readable row it is told that there is no measurement in it.
        if table.not_understood < table.rows && table.rows < 2 * table.not_understood {
            return Err(ImportError::MostlyMalformed {
                file: content.file.to_owned(),
                skipped: table.not_understood,
                rows: table.rows,
                first: problems.first_of(content.file),
            });
        }
        rows.push(Rows { read: table.rows, skipped: table.skipped });
        times.add(Times::of(clock));
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
    Ok((events, Rows { read, skipped }, Times::of(clock)))
}

/// Reads `diagnostics.csv`: the host at its last row.
pub fn read_diagnostics(
    content: Content<'_>,
    timezone: &Timezone,
    problems: &mut Problems,
) -> Result<(HostAtLast, Rows, Times), ImportError> {
    let mut clock = Clock::new(timezone);
    let (host, read, skipped) = diagnostics::read(content.file, content.bytes, &mut clock, problems)?;
    Ok((host, Rows { read, skipped }, Times::of(clock)))
}
