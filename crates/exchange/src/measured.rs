//! Measurements of many services, gathered from one or several files.

use std::collections::HashMap;

use heaptrial_model::ServiceName;
use heaptrial_store::{AggregateRow, ImportedSample};

use crate::ImportError;
use crate::problem::{Place, ProblemKind, Problems};

/// Readings of one nickname, under one label of a server and with one fingerprint. A service may have several of these.
#[derive(Debug, Clone, Default)]
pub struct MeasuredService {
    pub nickname: String,
    /// The label of the server that it runs on; empty where the file does not tell.
    pub server: String,
    /// The relay's fingerprint; empty where the file does not tell.
    pub fingerprint: String,
    /// Its readings in order of time, one per time.
    pub samples: Vec<ImportedSample>,
    /// Groups that the file itself names: since when, and which.
    pub groups: Vec<(i64, String)>,
    /// The file and the line that name it first.
    pub first_row: (String, u64),
}

#[derive(Debug, Clone, Default)]
pub struct Measurements {
    /// The services, in the order in which the files name them first.
    pub services: Vec<MeasuredService>,
    /// Sums over all services of a server, in order of time.
    pub aggregates: Vec<AggregateRow>,
    /// Readings that were there twice with the same values.
    pub duplicates: u64,
}

/// One reading with the line that it came from.
#[derive(Debug, Clone, Copy)]
struct Entry {
    sample: ImportedSample,
    file: u16,
    line: u32,
    /// The group that the row names, by position; 0 is none.
    group: u32,
}

/// A service while its readings are gathered. Its texts are raw until they are known to be a name.
#[derive(Debug)]
struct Series {
    nickname: String,
    server: String,
    fingerprint: String,
    entries: Vec<Entry>,
    /// By how much the time of the last one is later than its local time read for the first time, where that was decided by what
    /// is usual; else 0.
    guessed_us: i64,
}

/// The last reading of a series in the order of the rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Last {
    pub sample: ImportedSample,
    /// The shorter of the two distances before it: one may have been missed.
    pub step_us: Option<i64>,
    /// By how much its time would be earlier, where that was a guess; else 0.
    pub guessed_us: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Gatherer {
    series: Vec<Series>,
    by_key: HashMap<Box<[u8]>, usize>,
    key: Vec<u8>,
    aggregates: Vec<AggregateRow>,
    files: Vec<String>,
    groups: Vec<String>,
    group_places: HashMap<Box<[u8]>, u32>,
}

/// Which service a row is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServiceKey<'a> {
    pub server: &'a [u8],
    pub nickname: &'a [u8],
    pub fingerprint: &'a [u8],
}

/// Why a nickname cannot name a service.
pub(crate) const NOT_A_NICKNAME: &str = "expected a nickname of 1 to 255 of the characters a-z A-Z 0-9 : - _ . @ \\, not starting with `-` or `.`";

/// A server's name has the same characters as a service's, or is empty.
pub(crate) const NOT_A_SERVER: &str = "expected a host name, or nothing";

/// A fingerprint is 40 hexadecimal digits, or empty.
pub(crate) const NOT_A_FINGERPRINT: &str = "expected a fingerprint of 40 hexadecimal digits, or nothing";

/// Which part of a key is wrong, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadKey {
    Nickname,
    Server,
    Fingerprint,
}

impl Gatherer {
    /// From here on, rows come from this file.
    pub fn begin_file(&mut self, file: &str) {
        self.files.push(file.to_owned());
    }

    /// The series of a service, made at its first row.
    pub fn series(&mut self, key: ServiceKey<'_>) -> Result<usize, BadKey> {
        self.key.clear();
        for part in [key.nickname, key.server, key.fingerprint] {
            self.key.extend_from_slice(part);
            self.key.push(b'\n');
        }
        if let Some(index) = self.by_key.get(self.key.as_slice()) {
            return Ok(*index);
        }
        let nickname = name(key.nickname).ok_or(BadKey::Nickname)?;
        let server = match key.server.trim_ascii() {
            b"" => String::new(),
            server => name(server).ok_or(BadKey::Server)?,
        };
        let fingerprint = fingerprint(key.fingerprint).ok_or(BadKey::Fingerprint)?;
        // Spelled differently (spaces, case of a fingerprint) it may be known already.
        let usual =
            [nickname.as_bytes(), b"\n", server.as_bytes(), b"\n", fingerprint.as_bytes(), b"\n"].concat();
        let index = match self.by_key.get(usual.as_slice()) {
            Some(index) => *index,
            None => {
                let (entries, guessed_us) = (Vec::new(), 0);
                self.series.push(Series { nickname, server, fingerprint, entries, guessed_us });
                self.by_key.insert(usual.into(), self.series.len() - 1);
                self.series.len() - 1
            }
        };
        self.by_key.insert(self.key.as_slice().into(), index);
        Ok(index)
    }

    /// Adds a reading; `group` is what the row names, or nothing.
    pub fn push(&mut self, series: usize, sample: ImportedSample, line: u64, group: &[u8]) {
        let file = self.files.len().saturating_sub(1) as u16;
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        let group = self.group(group.trim_ascii());
        self.series[series].entries.push(Entry { sample, file, line, group });
        self.series[series].guessed_us = 0;
    }

    /// The last reading of a series.
    pub fn last(&self, series: usize) -> Option<Last> {
        let Series { entries, guessed_us, .. } = &self.series[series];
        let sample = entries.last()?.sample;
        let times = || entries.iter().rev().map(|entry| entry.sample.wall_us);
        let steps = times().zip(times().skip(1)).map(|(after, before)| after - before);
        let step_us = steps.filter(|step_us| *step_us > 0).take(2).min();
        Some(Last { sample, step_us, guessed_us: *guessed_us })
    }

    /// The time of its last reading is a guess: it may be earlier by so much.
    pub fn is_guess(&mut self, series: usize, guessed_us: i64) {
        self.series[series].guessed_us = guessed_us;
    }

    pub fn take_back(&mut self, series: usize) {
        let guessed_us = std::mem::take(&mut self.series[series].guessed_us);
        let last_us = self.series[series].entries.last().map(|last| last.sample.wall_us);
        // It may be there twice.
        let entries = self.series[series].entries.iter_mut().rev();
        for entry in entries.take_while(|entry| Some(entry.sample.wall_us) == last_us) {
            entry.sample.wall_us -= guessed_us;
        }
    }

    fn group(&mut self, group: &[u8]) -> u32 {
        if group.is_empty() {
            return 0;
        }
        if let Some(place) = self.group_places.get(group) {
            return *place;
        }
        self.groups.push(String::from_utf8_lossy(group).into_owned());
        let place = self.groups.len() as u32;
        self.group_places.insert(group.into(), place);
        place
    }

    pub fn aggregate(&mut self, row: AggregateRow) {
        self.aggregates.push(row);
    }

    pub fn finish(mut self, problems: &mut Problems) -> Result<Measurements, ImportError> {
        let mut measurements = Measurements::default();
        let files = std::mem::take(&mut self.files);
        for series in self.series {
            let first = series.entries.first();
            let first_row = first.map_or((String::new(), 0), |entry| {
                (files[usize::from(entry.file)].clone(), u64::from(entry.line))
            });
            let (entries, duplicates) = distinct(series.entries, &series.nickname, &files, problems)?;
            measurements.duplicates += duplicates;
            measurements.services.push(MeasuredService {
                nickname: series.nickname,
                server: series.server,
                fingerprint: series.fingerprint,
                groups: groups(&entries, &self.groups),
                samples: entries.into_iter().map(|entry| entry.sample).collect(),
                first_row,
            });
        }
        self.aggregates.sort_by(|a, b| (a.wall_us, &a.server).cmp(&(b.wall_us, &b.server)));
        let before = self.aggregates.len();
        self.aggregates.dedup_by(|later, earlier| later == earlier);
        measurements.duplicates += (before - self.aggregates.len()) as u64;
        let mut conflicts = 0u64;
        self.aggregates.dedup_by(|later, earlier| {
            let twice = (later.wall_us, &later.server) == (earlier.wall_us, &earlier.server);
            conflicts += u64::from(twice);
            twice
        });
        for _ in 0..conflicts {
            let what = "two aggregate rows of one server at one time differ; the first was kept";
            let file = files.first().map_or("", String::as_str);
            problems.report(Place::of_file(file), ProblemKind::ConflictingReading, what)?;
        }
        measurements.aggregates = self.aggregates;
        Ok(measurements)
    }
}

fn name(field: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(field.trim_ascii()).ok()?;
    text.parse::<ServiceName>().ok().map(|name| name.as_str().to_owned())
}

fn fingerprint(field: &[u8]) -> Option<String> {
    let field = field.trim_ascii();
    let hexadecimal = field.iter().all(u8::is_ascii_hexdigit) && matches!(field.len(), 0 | 40);
    hexadecimal.then(|| String::from_utf8_lossy(field).to_ascii_uppercase())
}

/// Since when which group is named; a row that names none changes nothing before the first that does.
fn groups(entries: &[Entry], names: &[String]) -> Vec<(i64, String)> {
    let name = |group: u32| group.checked_sub(1).and_then(|place| names.get(place as usize)).cloned();
    let mut groups = Vec::new();
    let mut last = 0;
    for entry in entries {
        if entry.group != last {
            groups.push((entry.sample.wall_us, name(entry.group).unwrap_or_default()));
            last = entry.group;
        }
    }
    groups
}

/// In order of time; of several readings at one time the first.
fn distinct(
    mut entries: Vec<Entry>,
    name: &str,
    files: &[String],
    problems: &mut Problems,
) -> Result<(Vec<Entry>, u64), ImportError> {
    if !entries.is_sorted_by_key(|entry| entry.sample.wall_us) {
        // Stable: the first of a file stays the first.
        entries.sort_by_key(|entry| entry.sample.wall_us);
    }
    let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
    let mut duplicates = 0;
    for entry in entries {
        match kept.last() {
            Some(last) if last.sample == entry.sample => duplicates += 1,
            Some(last) if last.sample.wall_us == entry.sample.wall_us => {
                let place = Place {
                    file: &files[usize::from(entry.file)],
                    line: u64::from(entry.line),
                    column: None,
                    value: name.as_bytes(),
                };
                let what =
                    "a second reading of this service at this time with other values; the first was kept";
                problems.report(place, ProblemKind::ConflictingReading, what)?;
            }
            _ => kept.push(entry),
        }
    }
    Ok((kept, duplicates))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_keys_are_told() {
        let mut gatherer = Gatherer::default();
        let key = ServiceKey { server: b"go", nickname: b"one", fingerprint: b"" };
        assert_eq!(gatherer.series(ServiceKey { nickname: b"a b", ..key }), Err(BadKey::Nickname));
        assert_eq!(gatherer.series(ServiceKey { nickname: b"\xff", ..key }), Err(BadKey::Nickname));
        assert_eq!(gatherer.series(ServiceKey { server: b"a/b", ..key }), Err(BadKey::Server));
        assert_eq!(gatherer.series(ServiceKey { fingerprint: b"xyz", ..key }), Err(BadKey::Fingerprint));
    }
}
