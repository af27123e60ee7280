//! Memory measurements: a row per service and reading.

use csv::ByteRecord;
use heaptrial_store::ImportedSample;

use super::mapping::{Mapping, further_memory};
use super::number::{Unit, amount};
use super::table::Table;
use super::time::{Clock, NOT_A_TIME};
use crate::ImportError;
use crate::measured::{BadKey, Gatherer, NOT_A_FINGERPRINT, NOT_A_NICKNAME, NOT_A_SERVER, ServiceKey};
use crate::problem::{Place, ProblemKind, Problems};

/// An RSS beyond this is a misreading.
const RSS_AT_MOST: u64 = 4 << 40;
/// A peak below this share of the present RSS is a misreading.
const PEAK_SHARE: f64 = 0.9;

struct Columns {
    time: TimeColumns,
    service: usize,
    memory: (usize, Unit),
    server: Option<usize>,
    kind: Option<usize>,
    fingerprint: Option<usize>,
    group: Option<usize>,
    vsize: Option<(usize, Unit)>,
    hwm: Option<(usize, Unit)>,
}

/// One column with date and time, or two.
#[derive(Clone, Copy)]
pub(super) enum TimeColumns {
    One(usize),
    Two(usize, usize),
}

impl TimeColumns {
    pub fn of(table: &Table<'_>, mapping: &Mapping) -> Result<Self, ImportError> {
        match (&mapping.time, table.column(&["date"]), table.column(&["time"])) {
            (None, Some(date), Some(time)) => Ok(Self::Two(date, time)),
            _ => mapping.time(table).map(Self::One),
        }
    }

    /// The time of a row; a malformed one is reported and gives `None`.
    pub fn read(
        self,
        table: &mut Table<'_>,
        record: &ByteRecord,
        clock: &mut Clock<'_>,
        problems: &mut Problems,
    ) -> Result<Option<i64>, ImportError> {
        let (column, moment) = match self {
            Self::One(column) => (column, clock.read(&record[column])),
            Self::Two(date, time) => (date, clock.read_parts(&record[date], &record[time])),
        };
        let Some(moment) = moment else {
            table.skip(record, column, NOT_A_TIME, problems)?;
            return Ok(None);
        };
        if let Some(note) = moment.note {
            problems.report(table.place(record, column), ProblemKind::Note, note)?;
        }
        Ok(Some(moment.wall_us))
    }
}

pub(super) fn read(
    table: &mut Table<'_>,
    mapping: &Mapping,
    clock: &mut Clock<'_>,
    gatherer: &mut Gatherer,
    problems: &mut Problems,
) -> Result<(), ImportError> {
    let columns = Columns {
        time: TimeColumns::of(table, mapping)?,
        service: mapping.service(table)?,
        memory: mapping.memory(table)?,
        server: table.column(&["server", "hostname", "host"]),
        kind: table.column(&["type"]),
        fingerprint: table.column(&["fingerprint"]),
        group: table.column(&["group", "arm"]),
        vsize: further_memory(table, &["vmsize", "vsize"]),
        hwm: further_memory(table, &["hwm", "vmhwm"]),
    };
    let mut record = ByteRecord::new();
    while table.next(&mut record, problems)? {
        // Sums over the relays of a collection, which their own rows have.
        let is_sum = columns.kind.is_some_and(|column| record[column].trim_ascii() == b"aggregate");
        if !is_sum {
            row(table, &record, &columns, clock, gatherer, problems)?;
        }
    }
    Ok(())
}

fn row(
    table: &mut Table<'_>,
    record: &ByteRecord,
    columns: &Columns,
    clock: &mut Clock<'_>,
    gatherer: &mut Gatherer,
    problems: &mut Problems,
) -> Result<(), ImportError> {
    let Some(wall_us) = columns.time.read(table, record, clock, problems)? else { return Ok(()) };
    let (memory, unit) = columns.memory;
    let rss_bytes = match amount(&record[memory], unit) {
        Ok(Some(bytes)) if bytes > 0 => bytes,
        Ok(Some(_)) => return table.leave_out(record, memory, "no memory: there was no process", problems),
        Ok(None) => return table.leave_out(record, memory, "no value", problems),
        Err(what) => return table.skip(record, memory, what, problems),
    };
    let mut optional = [None; 2];
    for (bytes, column) in optional.iter_mut().zip([columns.vsize, columns.hwm]) {
        let Some((column, unit)) = column else { continue };
        match amount(&record[column], unit) {
            // No process has a size of 0: the script could not read it.
            Ok(read) => *bytes = read.filter(|bytes| *bytes > 0),
            Err(what) => return table.skip(record, column, what, problems),
        }
    }
    if rss_bytes > RSS_AT_MOST {
        return table.skip(record, memory, "more than 4 TiB in one process", problems);
    }
    if optional[0].is_some_and(|vsize_bytes| vsize_bytes < rss_bytes) {
        return table.skip(record, memory, "more than the virtual size: one of the two is wrong", problems);
    }
    // The kernel counts both a little apart; a peak far below the present is no peak, and would look like a restart.
    if let Some(hwm_bytes) =
        optional[1].filter(|hwm_bytes| (*hwm_bytes as f64) < PEAK_SHARE * rss_bytes as f64)
    {
        let shown = hwm_bytes.to_string();
        let column = columns.hwm.map_or(0, |(column, _)| column);
        let place = Place { value: shown.as_bytes(), ..table.place(record, column) };
        problems.report(
            place,
            ProblemKind::Note,
            "a peak below the present RSS, in bytes; taken as not known",
        )?;
        optional[1] = None;
    }
    let field = |column: Option<usize>| column.map_or(&b""[..], |column| &record[column]);
    let key = ServiceKey {
        server: field(columns.server),
        nickname: &record[columns.service],
        fingerprint: field(columns.fingerprint),
    };
    let series = match gatherer.series(key) {
        Ok(series) => series,
        Err(bad) => {
            let (column, what) = match bad {
                BadKey::Nickname => (Some(columns.service), NOT_A_NICKNAME),
                BadKey::Server => (columns.server, NOT_A_SERVER),
                BadKey::Fingerprint => (columns.fingerprint, NOT_A_FINGERPRINT),
            };
            return table.skip(record, column.unwrap_or_default(), what, problems);
        }
    };
    let sample = ImportedSample {
        wall_us,
        rss_bytes,
        vsize_bytes: optional[0],
        hwm_bytes: optional[1],
        ..ImportedSample::default()
    };
    gatherer.push(series, sample, table.line(record), field(columns.group));
    Ok(())
}
