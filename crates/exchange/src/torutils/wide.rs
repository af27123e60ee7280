//! The hand-made format: a row per relay, a column per day (`day0`, `day1`, ...), RSS in GiB.

use csv::ByteRecord;
use heaptrial_store::ImportedSample;
use jiff::civil::Date;

use super::number::MemoryUnit;
use super::table::Table;
use super::time::Timezone;
use super::unified::RSS_AT_MOST;
use crate::ImportError;
use crate::measured::{Gatherer, NOT_A_NICKNAME, ServiceKey};
use crate::problem::Problems;

/// The unit of its columns.
pub(super) const UNIT: MemoryUnit = MemoryUnit::Gib;

const NICKNAME: [&str; 3] = ["relay", "nickname", "name"];

/// A day's number and its column; numbers beyond ten years are no days of an experiment.
fn days(table: &Table<'_>) -> Vec<(i64, usize)> {
    let number = |name: &str| name.strip_prefix("day")?.parse::<u16>().ok().filter(|day| *day < 3_660);
    let days = table.header.iter().enumerate();
    days.filter_map(|(column, name)| Some((i64::from(number(name)?), column))).collect()
}

/// Whether a header is of this format.
pub(super) fn is_wide(table: &Table<'_>) -> bool {
    table.column(&NICKNAME).is_some() && !days(table).is_empty()
}

/// Reads all rows; `day0` is midnight of `first_day` in the timezone.
pub(super) fn read(
    table: &mut Table<'_>,
    timezone: &Timezone,
    first_day: Option<Date>,
    gatherer: &mut Gatherer,
    problems: &mut Problems,
) -> Result<(), ImportError> {
    let first_day = first_day.ok_or_else(|| ImportError::FirstDay { file: table.file.to_owned() })?;
    let nickname = table.require(&NICKNAME)?;
    let group = table.column(&["group"]);
    let server = table.column(&["server"]);
    let mut days: Vec<(i64, usize)> = days(table)
        .into_iter()
        .filter_map(|(day, column)| {
            let date = first_day.checked_add(jiff::Span::new().days(day)).ok()?;
            let midnight = timezone.zone().to_ambiguous_timestamp(date.at(0, 0, 0, 0)).compatible().ok()?;
            Some((midnight.as_microsecond(), column))
        })
        .collect();
    days.sort_unstable();
    let mut record = ByteRecord::new();
    while table.next(&mut record, problems)? {
        let key = ServiceKey {
            server: server.map_or(b"", |column| &record[column]),
            nickname: &record[nickname],
            fingerprint: b"",
        };
        let Ok(series) = gatherer.series(key) else {
            table.skip(&record, nickname, NOT_A_NICKNAME, problems)?;
            continue;
        };
        let line = table.line(&record);
        for (wall_us, column) in &days {
            let rss_bytes = match table.unit.unwrap_or(UNIT).read(&record[*column]) {
                Ok(Some(bytes)) if bytes > RSS_AT_MOST => {
                    table.skip_too_large(&record, *column, problems)?;
                    continue;
                }
                Ok(Some(bytes)) if bytes > 0 => bytes,
                // A relay that was not measured that day.
                Ok(None) => continue,
                Ok(Some(_)) => {
                    table.leave_out(&record, *column, "0 GiB: there was no process", problems)?;
                    continue;
                }
                Err(what) => {
                    table.skip(&record, *column, what, problems)?;
                    continue;
                }
            };
            let sample = ImportedSample {
                wall_us: *wall_us,
                rss_bytes,
                vsize_bytes: None,
                hwm_bytes: None,
                ..ImportedSample::default()
            };
            gatherer.push(series, sample, line, group.map_or(b"", |group| &record[group]));
        }
    }
    Ok(())
}
