//! `diagnostics.csv`: the host, and its memory over time.
//!
//! Its column `allocator` tells what the script guessed, not what the relays ran: it is never used.

use std::collections::BTreeSet;

use csv::ByteRecord;
use serde_json::{Map, Value, json};

use super::number::whole;
use super::table::Table;
use super::time::Clock;
use super::unified::TimeColumns;
use crate::ImportError;
use crate::problem::Problems;

const MIB: u64 = 1 << 20;

/// The host at the last row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostAtLast {
    /// Microseconds since 1970; `None` if the file has no row.
    pub wall_us: Option<i64>,
    /// Facts by name: `os`, `kernel`, `hostname`, `tor_version`.
    pub facts: Vec<(&'static str, String)>,
    /// Amounts in bytes by name: `ram_bytes`, `available_bytes`, `swap_bytes`, `swap_free_bytes`.
    pub bytes: Vec<(&'static str, u64)>,
    /// How many relays there were.
    pub relay_count: Option<u64>,
    /// Names of all hosts, where the file is about several: then there are no amounts, since those of one are not of all.
    pub several: Vec<String>,
}

const FACTS: [(&str, &str); 4] =
    [("os_release", "os"), ("kernel", "kernel"), ("hostname", "hostname"), ("tor_version", "tor_version")];

const AMOUNTS: [(&str, &str); 4] = [
    ("mem_total_mb", "ram_bytes"),
    ("mem_available_mb", "available_bytes"),
    ("swap_total_mb", "swap_bytes"),
    ("swap_free_mb", "swap_free_bytes"),
];

/// Reads the file: the host at its last row, how many rows there were, and how many were malformed.
pub(crate) fn read(
    file: &str,
    bytes: &[u8],
    clock: &mut Clock<'_>,
    problems: &mut Problems,
) -> Result<(HostAtLast, u64, u64), ImportError> {
    let mut table = Table::open(file, bytes, "`date,time,...` and columns such as `mem_total_mb`")?;
    let time = TimeColumns::of(&table)?;
    let facts = FACTS.map(|(column, fact)| (table.column(&[column]), fact));
    let amounts = AMOUNTS.map(|(column, fact)| (table.column(&[column]), fact));
    let relays = table.column(&["relay_count"]);
    let mut last = HostAtLast::default();
    let mut hosts = BTreeSet::new();
    let mut record = ByteRecord::new();
    'rows: while table.next(&mut record, problems)? {
        let Some(wall_us) = time.read(&mut table, &record, clock, problems)? else { continue };
        let mut host = HostAtLast { wall_us: Some(wall_us), ..HostAtLast::default() };
        for (column, name) in amounts {
            let Some(column) = column.filter(|column| !record[*column].trim_ascii().is_empty()) else {
                continue;
            };
            match whole(&record[column]).filter(|number| *number <= i64::MAX as u64 / MIB) {
                Some(number) => host.bytes.push((name, number * MIB)),
                None => {
                    table.skip(&record, column, "expected a whole number of MiB", problems)?;
                    continue 'rows;
                }
            }
        }
        for (column, name) in facts {
            let Some(column) = column else { continue };
            let text = crate::problem::escape(record[column].trim_ascii());
            if !text.is_empty() {
                if name == "hostname" {
                    hosts.insert(text.clone());
                }
                host.facts.push((name, text));
            }
        }
        host.relay_count = relays.and_then(|column| whole(&record[column]));
        if last.wall_us <= host.wall_us {
            last = host;
        }
    }
    if hosts.len() > 1 {
        last.bytes.clear();
        last.facts.clear();
        last.relay_count = None;
        last.several = hosts.into_iter().collect();
    }
    Ok((last, table.rows, table.skipped))
}

impl HostAtLast {
    /// As facts about a host, in the names that lab runs use.
    pub fn to_json(&self) -> Value {
        let mut facts = Map::new();
        for (name, text) in &self.facts {
            facts.insert((*name).to_owned(), json!(text));
        }
        for (name, bytes) in &self.bytes {
            facts.insert((*name).to_owned(), json!(bytes));
        }
        if let Some(count) = self.relay_count {
            facts.insert("relay_count".to_owned(), json!(count));
        }
        if let Some(wall_us) = self.wall_us {
            facts.insert("told_at_wall_us".to_owned(), json!(wall_us));
        }
        Value::Object(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timezone;

    #[test]
    fn the_memory_of_one_host_is_not_taken_for_that_of_several() {
        let zone = Timezone::utc();
        let mut problems = Problems::new(false);
        let text = "date,time,hostname,mem_available_mb\n\
                    2026-01-10,22:00:00,go,30000\n2026-01-10,22:00:00,ams,12000\n";
        let (host, ..) = read("d.csv", text.as_bytes(), &mut Clock::new(&zone), &mut problems).unwrap();
        assert_eq!((host.several.len(), host.bytes.len()), (2, 0));
        assert_eq!(host.to_json().as_object().unwrap().keys().collect::<Vec<_>>(), ["told_at_wall_us"]);
    }

    #[test]
    fn the_last_row_is_kept_and_the_guessed_allocator_is_not() {
        let zone = Timezone::utc();
        let mut problems = Problems::new(false);
        let text = "date,time,hostname,os_release,kernel,allocator,mem_total_mb,mem_available_mb,relay_count\n\
                    2026-01-10,22:21:40,go,Debian 13,6.12,glibc,983819,308979,200\n\
                    2025-12-25,19:03:49,go,Debian 13,6.12,glibc,786961,441475,120\n\
                    2026-01-11,00:00:00,go,Debian 13,6.12,glibc,many,1,200\n";
        let mut clock = Clock::new(&zone);
        let (host, rows, skipped) = read("d.csv", text.as_bytes(), &mut clock, &mut problems).unwrap();
        assert_eq!((rows, skipped), (3, 1));
        let facts = host.to_json();
        assert_eq!(facts["ram_bytes"], 983_819 * MIB);
        assert_eq!((&facts["os"], &facts["relay_count"]), (&json!("Debian 13"), &json!(200)));
        assert!(!facts.to_string().contains("glibc"));
    }
}
