//! `diagnostics.csv`: the host, and its memory at the last row.
//!
//! Its column `allocator` has what the script guessed, not what the relays ran: it is never used.

use std::collections::BTreeSet;

use csv::ByteRecord;
use serde_json::{Value, json};

use super::number::whole;
use super::table::Table;
use super::time::Timezone;
use super::{Content, Rows, Times};
use crate::ImportError;
use crate::problem::{Problems, escape};

const MIB: u64 = 1 << 20;

/// Reads `diagnostics.csv`: facts about the host at its last row, in the names that lab runs use. A file about several hosts is refused:
/// the memory of one is not that of all.
pub fn read_diagnostics(
    content: Content<'_>,
    timezone: &Timezone,
    problems: &mut Problems,
) -> Result<(Value, Rows, Times), ImportError> {
    let expected = "`date,time,...` and columns such as `mem_total_mb`";
    let mut table = Table::open(content, expected, timezone, problems)?;
    let time = table.time_columns(None)?;
    let [hostname, os, kernel] = ["hostname", "os_release", "kernel"].map(|name| table.column(&[name]));
    let amounts = ["mem_total_mb", "mem_available_mb"].map(|name| table.column(&[name]));
    let mut last: Option<(i64, Value)> = None;
    let mut hosts = BTreeSet::new();
    let mut record = ByteRecord::new();
    'rows: while table.next(&mut record)? {
        let Some(wall_us) = table.time(&record, time)? else { continue };
        let mut bytes = [None; 2];
        for (bytes, column) in bytes.iter_mut().zip(amounts) {
            let Some(column) = column.filter(|column| !record[*column].trim_ascii().is_empty()) else {
                continue;
            };
            *bytes = whole(&record[column])
                .filter(|number| *number <= i64::MAX as u64 / MIB)
                .map(|number| number * MIB);
            if bytes.is_none() {
                table.skip(&record, column, "expected a whole number of MiB")?;
                continue 'rows;
            }
        }
        let text = |column: Option<usize>| {
            Some(escape(record[column?].trim_ascii())).filter(|text| !text.is_empty())
        };
        hosts.extend(text(hostname));
        if last.as_ref().is_none_or(|(last_us, _)| *last_us <= wall_us) {
            let [ram_bytes, available_bytes] = bytes;
            let facts = json!({
                "os": text(os),
                "kernel": text(kernel),
                "ram_bytes": ram_bytes,
                "available_bytes": available_bytes,
                "told_at_wall_us": wall_us,
            });
            last = Some((wall_us, facts));
        }
    }
    if hosts.len() > 1 {
        return Err(ImportError::Refused(format!(
            "{}: diagnostics of {} hosts ({}), and the memory of one is not that of all; leave --diagnostics out, or import each host's \
             services by themselves",
            content.file,
            hosts.len(),
            Vec::from_iter(hosts).join(", ")
        )));
    }
    let mut facts = last.map_or_else(|| json!({}), |(_, facts)| facts);
    if let Some(facts) = facts.as_object_mut() {
        facts.retain(|_, value| !value.is_null());
    }
    let (rows, times) = table.finish();
    Ok((facts, rows, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_one_host_is_not_taken_for_that_of_several() {
        let zone = Timezone::utc();
        let mut problems = Problems::new(false);
        let text = "date,time,hostname,mem_available_mb\n\
                    2026-01-10,22:00:00,go,30000\n2026-01-10,22:00:00,ams,12000\n";
        let content = Content { file: "d.csv", bytes: text.as_bytes() };
        let error = read_diagnostics(content, &zone, &mut problems).unwrap_err().to_string();
        assert!(error.contains("diagnostics of 2 hosts (ams, go)"), "{error}");
    }

    #[test]
    fn the_last_row_is_kept_and_the_guessed_allocator_is_not() {
        let zone = Timezone::utc();
        let mut problems = Problems::new(false);
        let text = "date,time,hostname,os_release,kernel,allocator,mem_total_mb,mem_available_mb,relay_count\n\
                    2026-01-10,22:21:40,go,Debian 13,6.12,glibc,983819,308979,200\n\
                    2025-12-25,19:03:49,go,Debian 13,6.12,glibc,786961,441475,120\n\
                    2026-01-11,00:00:00,go,Debian 13,6.12,glibc,many,1,200\n";
        let content = Content { file: "d.csv", bytes: text.as_bytes() };
        let (facts, rows, _) = read_diagnostics(content, &zone, &mut problems).unwrap();
        assert_eq!(rows, Rows { read: 3, skipped: 1 });
        assert_eq!(facts["ram_bytes"], 983_819 * MIB);
        assert_eq!((&facts["os"], &facts["kernel"]), (&json!("Debian 13"), &json!("6.12")));
        assert!(!facts.to_string().contains("glibc"));
    }
}
