//! Which columns of a table with measurements hold time, service and memory.

use super::number::Unit;
use super::table::{Table, words_of};
use crate::ImportError;

/// Columns that somebody named; the others are found by common names.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    pub time: Option<String>,
    pub service: Option<String>,
    /// Each file is of one service and named after it.
    pub service_by_file: bool,
    pub memory: Option<String>,
    /// Unit of the memory; `None` takes it from the end of the column's name, such as `rss_kb`.
    pub unit: Option<Unit>,
}

const SERVICE: [&str; 10] = [
    "nickname",
    "name",
    "service",
    "relay",
    "container",
    "container_name",
    "instance",
    "process",
    "process_name",
    "pid",
];
const MEMORY: [&str; 4] = ["rss", "vmrss", "memory", "memory_usage"];

impl Mapping {
    /// `None` where it is the file that names the service.
    pub(super) fn service(&self, table: &Table<'_>) -> Result<Option<usize>, ImportError> {
        if self.service_by_file {
            return Ok(None);
        }
        let option = "--service COLUMN, or give --service-by-file if each file is of one service";
        table.require("services", &given_or(&self.service, &SERVICE), option).map(Some)
    }

    /// The column of the memory and its unit.
    pub(super) fn memory(&self, table: &Table<'_>) -> Result<(usize, Unit), ImportError> {
        let guessed = self.memory.is_none().then(|| column_of(table, &MEMORY)).flatten();
        let column = match guessed {
            Some((column, _)) => column,
            None => table.require("memory", &given_or(&self.memory, &MEMORY), "--memory COLUMN")?,
        };
        let name = &table.header[column];
        let unit = self.unit.or_else(|| stem_and_unit(name).1);
        let unit = unit.ok_or_else(|| {
            ImportError::Refused(format!(
                "{}: the column `{}` does not name its unit; give it with --unit bytes, KiB, MiB or GiB (`heaptrial import csv`)",
                table.file,
                crate::problem::escape(name.as_bytes())
            ))
        })?;
        Ok((column, unit))
    }
}

fn given_or<'n>(given: &'n Option<String>, usual: &[&'n str]) -> Vec<&'n str> {
    given.as_deref().map_or_else(|| usual.to_vec(), |name| vec![name])
}

/// A further column of memory that names its unit; without one it is passed over.
pub(super) fn further_memory(table: &Table<'_>, stems: &[&str]) -> Option<(usize, Unit)> {
    column_of(table, stems).and_then(|(column, unit)| Some((column, unit?)))
}

/// The column called by the first of these words that is there, with or without a unit behind it.
fn column_of(table: &Table<'_>, stems: &[&str]) -> Option<(usize, Option<Unit>)> {
    stems.iter().find_map(|stem| {
        let mut columns = table.header.iter().map(|name| stem_and_unit(name)).enumerate();
        columns.find(|(_, (own, _))| own == stem).map(|(column, (_, unit))| (column, unit))
    })
}

/// `rss_kb` is `rss` in KiB.
fn stem_and_unit(name: &str) -> (String, Option<Unit>) {
    let words = words_of(name);
    match words.rsplit_once('_').and_then(|(stem, last)| Some((stem, last.parse().ok()?))) {
        Some((stem, unit)) => (stem.to_owned(), Some(unit)),
        None => (words, None),
    }
}
