//! Measurements of many services, gathered from one or several files.

use std::collections::HashMap;

use heaptrial_model::ServiceName;
use heaptrial_store::ImportedSample;

use crate::ImportError;
use crate::problem::{Place, ProblemKind, Problems};

/// Readings of one nickname, under one label of a server and with one fingerprint. A service may be made of several of these.
#[derive(Debug, Clone, Default)]
pub struct MeasuredService {
    pub nickname: String,
    /// The label of the server that it runs on; empty where the file does not have it.
    pub server: String,
    /// The relay's fingerprint; empty where the file does not have it.
    pub fingerprint: String,
    /// Its readings in order of time, one per time.
    pub samples: Vec<ImportedSample>,
    /// Groups that the file itself names: since when, and which.
    pub groups: Vec<(i64, String)>,
    /// The file that names it first.
    pub file: String,
}

impl MeasuredService {
    /// Times of the first and the last reading.
    pub fn span(&self) -> (i64, i64) {
        let time = |sample: Option<&ImportedSample>| sample.map_or(0, |sample| sample.wall_us);
        (time(self.samples.first()), time(self.samples.last()))
    }
}

#[derive(Debug, Clone, Default)]
pub struct Measurements {
    /// The services, in the order in which the files name them first.
    pub services: Vec<MeasuredService>,
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
}

#[derive(Debug, Default)]
pub(crate) struct Gatherer {
    series: Vec<Series>,
    by_key: HashMap<Box<[u8]>, usize>,
    key: Vec<u8>,
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
                self.series.push(Series { nickname, server, fingerprint, entries: Vec::new() });
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

    pub fn finish(self, problems: &mut Problems) -> Result<Measurements, ImportError> {
        let mut measurements = Measurements::default();
        let files = self.files;
        for series in self.series {
            let first = series.entries.first();
            let file = first.map_or_else(String::new, |entry| files[usize::from(entry.file)].clone());
            let (entries, duplicates) = distinct(series.entries, &series.nickname, &files, problems)?;
            measurements.duplicates += duplicates;
            measurements.services.push(MeasuredService {
                nickname: series.nickname,
                server: series.server,
                fingerprint: series.fingerprint,
                groups: groups(&entries, &self.groups),
                samples: entries.into_iter().map(|entry| entry.sample).collect(),
                file,
            });
        }
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
    fn bad_keys_are_found() {
        let mut gatherer = Gatherer::default();
        let key = ServiceKey { server: b"go", nickname: b"one", fingerprint: b"" };
        assert_eq!(gatherer.series(ServiceKey { nickname: b"a b", ..key }), Err(BadKey::Nickname));
        assert_eq!(gatherer.series(ServiceKey { nickname: b"\xff", ..key }), Err(BadKey::Nickname));
        assert_eq!(gatherer.series(ServiceKey { server: b"a/b", ..key }), Err(BadKey::Server));
        assert_eq!(gatherer.series(ServiceKey { fingerprint: b"xyz", ..key }), Err(BadKey::Fingerprint));
    }
}
