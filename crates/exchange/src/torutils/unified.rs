//! The unified format: a row per relay and collection, and a row of sums per collection.

use csv::ByteRecord;
use heaptrial_store::{AggregateRow, ImportedSample};

use super::number::{MemoryUnit, whole};
use super::table::Table;
use super::time::{Clock, Moment, NOT_A_TIME};
use crate::ImportError;
use crate::measured::{BadKey, Gatherer, Last, NOT_A_FINGERPRINT, NOT_A_NICKNAME, NOT_A_SERVER, ServiceKey};
use crate::problem::{Place, ProblemKind, Problems};

/// An RSS beyond this is a misreading.
pub(super) const RSS_AT_MOST: u64 = 4 << 40;
/// The unit of columns such as `rss_kb`.
pub(super) const UNIT: MemoryUnit = MemoryUnit::Kib;
/// A peak below this share of the present RSS is a misreading.
const PEAK_SHARE: f64 = 0.9;

const NICKNAME: [&str; 3] = ["nickname", "relay", "name"];
const RSS: [&str; 2] = ["rss_kb", "vmrss_kb"];

struct Columns {
    time: TimeColumns,
    server: Option<usize>,
    kind: Option<usize>,
    fingerprint: Option<usize>,
    nickname: usize,
    group: Option<usize>,
    rss: usize,
    vsize: Option<usize>,
    hwm: Option<usize>,
    /// `count`, `total_kb`, `avg_kb`, `min_kb`, `max_kb`, where all are there.
    sums: Option<[usize; 5]>,
}

/// One column with date and time, or two.
#[derive(Clone, Copy)]
pub(super) enum TimeColumns {
    One(usize),
    Two(usize, usize),
}

impl TimeColumns {
    pub fn of(table: &Table<'_>) -> Result<Self, ImportError> {
        if let (Some(date), Some(time)) = (table.column(&["date"]), table.column(&["time"])) {
            return Ok(Self::Two(date, time));
        }
        table.require(&["timestamp", "datetime", "time"]).map(Self::One)
    }

    /// The time of a row; a malformed one is reported and gives `None`.
    pub fn read(
        self,
        table: &mut Table<'_>,
        record: &ByteRecord,
        clock: &mut Clock<'_>,
        problems: &mut Problems,
    ) -> Result<Option<i64>, ImportError> {
        Ok(self.read_moment(table, record, clock, problems)?.map(|moment| moment.wall_us))
    }

    /// The same, with what is not certain of a local time that occurred twice.
    fn read_moment(
        self,
        table: &mut Table<'_>,
        record: &ByteRecord,
        clock: &mut Clock<'_>,
        problems: &mut Problems,
    ) -> Result<Option<Moment>, ImportError> {
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
        Ok(Some(moment))
    }
}

/// Whether a local time that occurred twice is meant the second time: that is nearer to the usual distance from the reading
/// before, as those of the service are apart, or as the rows before it are.
fn is_second_time(last: Last, step_us: i64, sample: ImportedSample, later_us: i64) -> bool {
    let usual = last.step_us.unwrap_or(step_us);
    let [first, second] = [sample.wall_us, later_us].map(|wall_us| wall_us - last.sample.wall_us);
    sample != last.sample
        && first >= 0
        && (second - usual).abs() < (first - usual).abs()
        && second <= 2 * usual
}

/// When a local time is meant that may have occurred twice, and by how much later than its first time where that is a guess. Rows
/// are in order of time: one that would be before a reading of which the second time was guessed shows that it was the first.
fn occurrence(
    gatherer: &mut Gatherer,
    series: usize,
    clock: &mut Clock<'_>,
    mut sample: ImportedSample,
    moment: Moment,
) -> (i64, i64) {
    let Moment { mut later_us, guessed_us, .. } = moment;
    let Some(last) = gatherer.last(series) else { return (sample.wall_us, guessed_us) };
    if guessed_us > 0 {
        // Another service's guess.
        later_us = Some(sample.wall_us);
        sample.wall_us -= guessed_us;
    }
    let latest_us = later_us.unwrap_or(sample.wall_us);
    let guessed = last.guessed_us > 0 && sample.wall_us <= last.sample.wall_us;
    if guessed
        && latest_us >= last.sample.wall_us
        && last.sample == (ImportedSample { wall_us: last.sample.wall_us, ..sample })
    {
        // The same row again.
        return (last.sample.wall_us, last.guessed_us);
    }
    if guessed && latest_us > last.sample.wall_us - last.guessed_us {
        gatherer.take_back(series);
        clock.take_later(latest_us, 0);
        return (latest_us, 0);
    }
    match later_us.filter(|later_us| is_second_time(last, clock.step_us, sample, *later_us)) {
        Some(later_us) => {
            let guessed_us = later_us - sample.wall_us;
            clock.take_later(later_us, guessed_us);
            (later_us, guessed_us)
        }
        None => (sample.wall_us, 0),
    }
}

/// Whether a header is of this format.
pub(super) fn is_unified(table: &Table<'_>) -> bool {
    table.column(&NICKNAME).is_some() && table.column(&RSS).is_some()
}

pub(super) fn read(
    table: &mut Table<'_>,
    clock: &mut Clock<'_>,
    gatherer: &mut Gatherer,
    problems: &mut Problems,
) -> Result<(), ImportError> {
    let columns = Columns {
        time: TimeColumns::of(table)?,
        server: table.column(&["server", "hostname", "host"]),
        kind: table.column(&["type"]),
        fingerprint: table.column(&["fingerprint"]),
        nickname: table.require(&NICKNAME)?,
        group: table.column(&["group"]),
        rss: table.require(&RSS)?,
        vsize: table.column(&["vmsize_kb", "vsize_kb"]),
        hwm: table.column(&["hwm_kb", "vmhwm_kb"]),
        sums: sums(table),
    };
    let mut record = ByteRecord::new();
    while table.next(&mut record, problems)? {
        let kind = columns.kind.map_or(&b"relay"[..], |column| record[column].trim_ascii());
        match kind.to_ascii_lowercase().as_slice() {
            b"relay" => relay(table, &record, &columns, clock, gatherer, problems)?,
            b"aggregate" => aggregate(table, &record, &columns, clock, gatherer, problems)?,
            _ => {
                let column = columns.kind.unwrap_or_default();
                table.skip(&record, column, "expected `relay` or `aggregate`", problems)?;
            }
        }
    }
    Ok(())
}

fn relay(
    table: &mut Table<'_>,
    record: &ByteRecord,
    columns: &Columns,
    clock: &mut Clock<'_>,
    gatherer: &mut Gatherer,
    problems: &mut Problems,
) -> Result<(), ImportError> {
    let Some(moment) = columns.time.read_moment(table, record, clock, problems)? else { return Ok(()) };
    let unit = table.unit.unwrap_or(UNIT);
    let rss_bytes = match unit.read(&record[columns.rss]) {
        Ok(Some(bytes)) if bytes > 0 => bytes,
        Ok(Some(_)) => return table.leave_out(record, columns.rss, "0 KiB: there was no process", problems),
        Ok(None) => return table.leave_out(record, columns.rss, "no value", problems),
        Err(what) => return table.skip(record, columns.rss, what, problems),
    };
    let mut optional = [None; 2];
    for (bytes, column) in optional.iter_mut().zip([columns.vsize, columns.hwm]) {
        let Some(column) = column else { continue };
        match unit.read(&record[column]) {
            // No process has a size of 0: the script could not read it.
            Ok(read) => *bytes = read.filter(|bytes| *bytes > 0),
            Err(what) => return table.skip(record, column, what, problems),
        }
    }
    if rss_bytes > RSS_AT_MOST {
        return table.skip_too_large(record, columns.rss, problems);
    }
    if optional[0].is_some_and(|vsize_bytes| vsize_bytes < rss_bytes) {
        return table.skip(
            record,
            columns.rss,
            "more than the virtual size: one of the two is wrong",
            problems,
        );
    }
    // The kernel counts both a little apart; a peak far below the present is no peak, and would look like a restart.
    if let Some(hwm_bytes) =
        optional[1].filter(|hwm_bytes| (*hwm_bytes as f64) < PEAK_SHARE * rss_bytes as f64)
    {
        let told = hwm_bytes.to_string();
        let place = Place { value: told.as_bytes(), ..table.place(record, columns.hwm.unwrap_or_default()) };
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
        nickname: &record[columns.nickname],
        fingerprint: field(columns.fingerprint),
    };
    let series = match gatherer.series(key) {
        Ok(series) => series,
        Err(bad) => {
            let (column, what) = match bad {
                BadKey::Nickname => (Some(columns.nickname), NOT_A_NICKNAME),
                BadKey::Server => (columns.server, NOT_A_SERVER),
                BadKey::Fingerprint => (columns.fingerprint, NOT_A_FINGERPRINT),
            };
            return table.skip(record, column.unwrap_or_default(), what, problems);
        }
    };
    let mut sample = ImportedSample {
        wall_us: moment.wall_us,
        rss_bytes,
        vsize_bytes: optional[0],
        hwm_bytes: optional[1],
        ..ImportedSample::default()
    };
    let (wall_us, guessed_us) = occurrence(gatherer, series, clock, sample, moment);
    sample.wall_us = wall_us;
    gatherer.push(series, sample, table.line(record), field(columns.group));
    gatherer.is_guess(series, guessed_us);
    Ok(())
}

fn aggregate(
    table: &mut Table<'_>,
    record: &ByteRecord,
    columns: &Columns,
    clock: &mut Clock<'_>,
    gatherer: &mut Gatherer,
    problems: &mut Problems,
) -> Result<(), ImportError> {
    let Some(sums) = columns.sums else {
        let column = columns.kind.unwrap_or_default();
        return table.skip(
            record,
            column,
            "an aggregate row in a file without the columns of sums",
            problems,
        );
    };
    let Some(wall_us) = columns.time.read(table, record, clock, problems)? else { return Ok(()) };
    let server = columns
        .server
        .map_or_else(String::new, |column| String::from_utf8_lossy(record[column].trim_ascii()).into_owned());
    if let Some(row) = sums_row(table, record, sums, wall_us, server, problems)? {
        gatherer.aggregate(row);
    }
    Ok(())
}

/// Positions of `count`, `total_kb`, `avg_kb`, `min_kb`, `max_kb`.
pub(super) fn sums(table: &Table<'_>) -> Option<[usize; 5]> {
    Some([
        table.column(&["count", "num_relays"])?,
        table.column(&["total_kb"])?,
        table.column(&["avg_kb"])?,
        table.column(&["min_kb"])?,
        table.column(&["max_kb"])?,
    ])
}

/// A row of sums; a malformed one is reported and gives `None`.
pub(super) fn sums_row(
    table: &mut Table<'_>,
    record: &ByteRecord,
    sums: [usize; 5],
    wall_us: i64,
    server: String,
    problems: &mut Problems,
) -> Result<Option<AggregateRow>, ImportError> {
    let Some(count) = whole(&record[sums[0]]).filter(|count| *count <= i64::MAX as u64) else {
        table.skip(record, sums[0], "expected the number of relays", problems)?;
        return Ok(None);
    };
    let unit = table.unit.unwrap_or(UNIT);
    let mut bytes = [0; 4];
    for (bytes, column) in bytes.iter_mut().zip(&sums[1..]) {
        match unit.read(&record[*column]) {
            Ok(Some(read)) => *bytes = read,
            Ok(None) => {
                table.leave_out(record, *column, "no value", problems)?;
                return Ok(None);
            }
            Err(what) => {
                table.skip(record, *column, what, problems)?;
                return Ok(None);
            }
        }
    }
    let [total_bytes, mean_bytes, min_bytes, max_bytes] = bytes;
    Ok(Some(AggregateRow { wall_us, server, count, total_bytes, mean_bytes, min_bytes, max_bytes }))
}
