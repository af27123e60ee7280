//! The files of one import, read and parsed.

use std::path::Path;

use heaptrial_store::ImportSource;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::CsvImport;
use super::lists::ServiceList;
use crate::ImportError;
use crate::measured::Measurements;
use crate::problem::{Place, ProblemKind, Problems};
use crate::tables::{
    Content, OperatorEvent, Rows, Times, Timezone, read_diagnostics, read_events, read_memory,
};

/// Microseconds of a day: clocks of others may be ahead by less.
const DAY_US: i64 = 86_400_000_000;

/// Half of the readings of a fleet are not below this: a program that does nothing has more.
const LEAST_RSS: u64 = 1 << 20;
/// Nor are half of them above this.
const MOST_RSS: u64 = 1 << 40;

/// What the files of an import have.
pub(super) struct Files {
    pub measurements: Measurements,
    pub groups: Vec<ServiceList>,
    pub events: Option<Vec<OperatorEvent>>,
    /// Facts of the host, in the names that lab runs use.
    pub host: Option<Value>,
    pub timezone: Timezone,
    pub local_times: u64,
    pub sources: Vec<ImportSource>,
    first_stem: String,
}

impl Files {
    pub fn read(request: &CsvImport, problems: &mut Problems) -> Result<Self, ImportError> {
        let Some(first) = request.memory.first() else {
            return Err(ImportError::Refused("no file with memory measurements was named".into()));
        };
        let mut sources = Vec::new();

        let mut groups = Vec::new();
        for path in &request.groups {
            let file = File::read(path)?;
            let group = ServiceList::of(path, &file.bytes);
            sources.push(file.source("groups", Rows { read: group.members.len() as u64, skipped: 0 }));
            groups.push(group);
        }

        let timezone = request.timezone.clone().unwrap_or_else(Timezone::utc);
        let mut times = Times::default();
        let events = match &request.events {
            None => None,
            Some(path) => {
                let file = File::read(path)?;
                let (events, rows, of_events) = read_events(file.content(), &timezone, problems)?;
                times.add(of_events);
                sources.push(file.source("events", rows));
                Some(events)
            }
        };
        let host = match &request.diagnostics {
            None => None,
            Some(path) => {
                let file = File::read(path)?;
                let (host, rows, of_host) = read_diagnostics(file.content(), &timezone, problems)?;
                times.add(of_host);
                sources.push(file.source("diagnostics", rows));
                Some(host)
            }
        };

        let memory = request.memory.iter().map(|path| File::read(path)).collect::<Result<Vec<_>, _>>()?;
        let contents: Vec<Content<'_>> = memory.iter().map(File::content).collect();
        let (mut measurements, mut rows, of_memory) =
            read_memory(&contents, &request.mapping, &timezone, problems)?;
        times.add(of_memory);
        if request.timezone.is_none() {
            check_offsets(&times)?;
        }
        if let Some(now_wall_us) = request.now_wall_us {
            rows[0].skipped += drop_future(&mut measurements, &memory[0].name, now_wall_us, problems)?;
        }
        if measurements.services.is_empty() {
            let files: Vec<&str> = memory.iter().map(|file| file.name.as_str()).collect();
            let first = files.iter().map(|file| problems.first_of(file)).find(|first| !first.is_empty());
            return Err(ImportError::Refused(format!(
                "{}: no measurement in it; {} rows were excluded{}",
                files.join(", "),
                rows.iter().map(|rows| rows.skipped).sum::<u64>(),
                first.unwrap_or_default()
            )));
        }
        check_unit(&measurements, &memory[0].name)?;
        sources.splice(0..0, memory.iter().zip(rows).map(|(file, rows)| file.source("memory", rows)));
        Ok(Self {
            measurements,
            groups,
            events,
            host,
            timezone,
            local_times: times.local,
            sources,
            first_stem: stem(first),
        })
    }

    pub fn default_name(&self) -> String {
        let name: String = self.first_stem.chars().filter(|c| !c.is_control()).take(110).collect();
        match name.trim() {
            "" => "import".to_owned(),
            name => name.to_owned(),
        }
    }
}

struct File {
    name: String,
    bytes: Vec<u8>,
}

impl File {
    fn read(path: &Path) -> Result<Self, ImportError> {
        let bytes = std::fs::read(path).map_err(|error| ImportError::unreadable(path, &error))?;
        Ok(Self { name: path.display().to_string(), bytes })
    }

    fn content(&self) -> Content<'_> {
        Content { file: &self.name, bytes: &self.bytes }
    }

    fn source(&self, role: &str, rows: Rows) -> ImportSource {
        ImportSource {
            file: self.name.clone(),
            role: role.to_owned(),
            sha256: hex::encode(Sha256::digest(&self.bytes)),
            rows: rows.read,
            skipped: rows.skipped,
        }
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A clock that was set wrong writes readings of times to come, which would stretch every chart. How many there were.
fn drop_future(
    measurements: &mut Measurements,
    file: &str,
    now_wall_us: i64,
    problems: &mut Problems,
) -> Result<u64, ImportError> {
    let latest = now_wall_us.saturating_add(DAY_US);
    let mut dropped = 0;
    for service in &mut measurements.services {
        let before = service.samples.len();
        service.samples.retain(|sample| sample.wall_us <= latest);
        for _ in service.samples.len()..before {
            dropped += 1;
            let place = Place { file, line: 0, column: None, value: service.nickname.as_bytes() };
            problems.report(place, ProblemKind::MalformedRow, "a reading of a time to come")?;
        }
    }
    measurements.services.retain(|service| !service.samples.is_empty());
    Ok(dropped)
}

/// Refuses files in which some times have an offset and others have none: read as UTC, the others would be hours away.
fn check_offsets(times: &Times) -> Result<(), ImportError> {
    let offset =
        times.offsets.iter().find(|offset| **offset != 0).and_then(|offset| Timezone::fixed(*offset));
    match offset.filter(|_| times.local > 0) {
        Some(offset) => Err(ImportError::Refused(format!(
            "some times have no offset, and others have {offset}; nothing was imported: give --timezone {offset} or another, or \
             --timezone UTC"
        ))),
        None => Ok(()),
    }
}

/// Refuses readings half of which no service has: the column is in another unit.
fn check_unit(measurements: &Measurements, file: &str) -> Result<(), ImportError> {
    let samples = measurements.services.iter().flat_map(|service| &service.samples);
    match unusual_size(samples.map(|sample| sample.rss_bytes)) {
        Some(shown) => Err(ImportError::Refused(format!(
            "{file}: half of the readings are {shown}; nothing was imported: the column of memory is in another unit, which \
             `heaptrial import csv` takes by --unit bytes, KiB, MiB or GiB"
        ))),
        None => Ok(()),
    }
}

/// In which way half of the readings, in bytes, are such as no service has.
pub(crate) fn unusual_size(readings: impl Iterator<Item = u64>) -> Option<&'static str> {
    let mut readings: Vec<u64> = readings.collect();
    let middle = readings.len() / 2;
    match *readings.select_nth_unstable(middle).1 {
        median if median < LEAST_RSS => Some("below 1 MiB"),
        median if median > MOST_RSS => Some("above 1 TiB"),
        _ => None,
    }
}
