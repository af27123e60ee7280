//! Measurements of many services, gathered from one or several files.

use std::collections::{HashMap, HashSet};

use heaptrial_model::ServiceName;
use heaptrial_store::{AggregateRow, ImportedSample};

use crate::ImportError;
use crate::problem::{Place, ProblemKind, Problems};

/// The measurements of one service.
#[derive(Debug, Clone, Default)]
pub struct MeasuredService {
    /// Its name in a trial: the nickname, with a suffix where several services share it.
    pub name: String,
    /// The relay's nickname.
    pub nickname: String,
    /// The server that it runs on; empty where the file does not tell.
    pub server: String,
    /// The relay's fingerprint; empty where the file does not tell.
    pub fingerprint: String,
    /// Its readings in order of time, one per time.
    pub samples: Vec<ImportedSample>,
    /// Groups that the file itself names: since when, and which.
    pub groups: Vec<(i64, String)>,
}

/// What the files tell.
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
    /// Which file, by position.
    file: u16,
    line: u32,
}

/// A service while its readings are gathered. Its texts are raw until they are known to be a name.
#[derive(Debug)]
struct Series {
    nickname: String,
    server: String,
    fingerprint: String,
    entries: Vec<Entry>,
    groups: Vec<(i64, String)>,
}

/// Gathers rows into series.
#[derive(Debug, Default)]
pub(crate) struct Gatherer {
    series: Vec<Series>,
    by_key: HashMap<Box<[u8]>, usize>,
    key: Vec<u8>,
    aggregates: Vec<AggregateRow>,
    files: Vec<String>,
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
                self.series.push(Series {
                    nickname,
                    server,
                    fingerprint,
                    entries: Vec::new(),
                    groups: Vec::new(),
                });
                self.by_key.insert(usual.into(), self.series.len() - 1);
                self.series.len() - 1
            }
        };
        self.by_key.insert(self.key.as_slice().into(), index);
        Ok(index)
    }

    /// Adds a reading.
    pub fn push(&mut self, series: usize, sample: ImportedSample, line: u64) {
        let file = self.files.len().saturating_sub(1) as u16;
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        self.series[series].entries.push(Entry { sample, file, line });
    }

    /// Notes the group that a row names.
    pub fn group(&mut self, series: usize, wall_us: i64, group: &[u8]) {
        let groups = &mut self.series[series].groups;
        let same = groups.last().is_some_and(|(_, last)| last.as_bytes() == group);
        let not_yet_in_any = group.is_empty() && groups.is_empty();
        if same || not_yet_in_any {
            return;
        }
        groups.push((wall_us, String::from_utf8_lossy(group).into_owned()));
    }

    /// Adds sums over services.
    pub fn aggregate(&mut self, row: AggregateRow) {
        self.aggregates.push(row);
    }

    /// Orders everything, and gives each service its name.
    pub fn finish(mut self, problems: &mut Problems) -> Result<Measurements, ImportError> {
        self.join_series_without_fingerprint();
        let names = self.names(problems)?;
        let mut measurements = Measurements::default();
        let files = std::mem::take(&mut self.files);
        for (series, name) in self.series.into_iter().zip(names) {
            let (samples, duplicates) = distinct(series.entries, &name, &files, problems)?;
            measurements.duplicates += duplicates;
            let mut groups = series.groups;
            groups.sort_by_key(|(since, _)| *since);
            groups.dedup_by(|later, earlier| later.1 == earlier.1);
            measurements.services.push(MeasuredService {
                name,
                nickname: series.nickname,
                server: series.server,
                fingerprint: series.fingerprint,
                samples,
                groups,
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

    /// Rows from before the scripts told fingerprints belong to the one relay of that name on that server.
    fn join_series_without_fingerprint(&mut self) {
        let mut position: HashMap<(String, String), Vec<usize>> = HashMap::new();
        for (index, series) in self.series.iter().enumerate() {
            position.entry((series.nickname.clone(), series.server.clone())).or_default().push(index);
        }
        let mut gone = vec![false; self.series.len()];
        for indices in position.into_values() {
            let [a, b] = indices[..] else { continue };
            let (bare, full) =
                match (self.series[a].fingerprint.is_empty(), self.series[b].fingerprint.is_empty()) {
                    (true, false) => (a, b),
                    (false, true) => (b, a),
                    _ => continue,
                };
            // The place of the one that was named first is kept.
            let (kept, other) = (bare.min(full), bare.max(full));
            self.series[kept].fingerprint = std::mem::take(&mut self.series[full].fingerprint);
            let moved = std::mem::take(&mut self.series[other].entries);
            self.series[kept].entries.extend(moved);
            let moved = std::mem::take(&mut self.series[other].groups);
            self.series[kept].groups.extend(moved);
            gone[other] = true;
        }
        let mut index = 0;
        self.series.retain(|_| {
            index += 1;
            !gone[index - 1]
        });
    }

    /// A name for each series; a nickname that several share gets a suffix.
    fn names(&self, problems: &mut Problems) -> Result<Vec<String>, ImportError> {
        let mut shared: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut on_server: HashMap<(&str, &str), usize> = HashMap::new();
        for (index, series) in self.series.iter().enumerate() {
            shared.entry(&series.nickname).or_default().push(index);
            *on_server.entry((&series.nickname, &series.server)).or_default() += 1;
        }
        let mut names: Vec<String> = self.series.iter().map(|series| series.nickname.clone()).collect();
        let mut taken: HashSet<String> = shared
            .iter()
            .filter(|(_, indices)| indices.len() == 1)
            .map(|(name, _)| (*name).to_owned())
            .collect();
        for (index, series) in self.series.iter().enumerate() {
            let sharing = &shared[series.nickname.as_str()];
            if sharing.len() == 1 {
                continue;
            }
            let by_fingerprint = on_server[&(series.nickname.as_str(), series.server.as_str())] > 1;
            names[index] = unique(series, by_fingerprint, &mut taken);
            if sharing[0] == index {
                let what = "this nickname stands for several services; they are told apart as NICKNAME@SERVER, \
                            on one server by the start of the fingerprint";
                let entry = series.entries.first();
                let place = Place {
                    file: entry.map_or("", |entry| &self.files[usize::from(entry.file)]),
                    line: entry.map_or(0, |entry| u64::from(entry.line)),
                    column: None,
                    value: series.nickname.as_bytes(),
                };
                problems.report(place, ProblemKind::Note, what)?;
            }
        }
        Ok(names)
    }
}

fn unique(series: &Series, by_fingerprint: bool, taken: &mut HashSet<String>) -> String {
    // A service's name has 255 characters at most.
    let mut name: String = series.nickname.chars().take(130).collect();
    if !series.server.is_empty() {
        name = format!("{name}@{}", series.server.chars().take(64).collect::<String>());
    }
    if by_fingerprint && !series.fingerprint.is_empty() {
        let short = format!("{name}@{}", &series.fingerprint[..8]);
        if taken.insert(short.clone()) {
            return short;
        }
        name = format!("{name}@{}", series.fingerprint);
    }
    // Only nicknames that look like one of these names, or are very long, are still taken here.
    let mut candidate = name.clone();
    let mut number = 2;
    while !taken.insert(candidate.clone()) {
        candidate = format!("{name}@{number}");
        number += 1;
    }
    candidate
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

/// In order of time; of several readings at one time the first.
fn distinct(
    mut entries: Vec<Entry>,
    name: &str,
    files: &[String],
    problems: &mut Problems,
) -> Result<(Vec<ImportedSample>, u64), ImportError> {
    if !entries.is_sorted_by_key(|entry| entry.sample.wall_us) {
        // Stable: the first of a file stays the first.
        entries.sort_by_key(|entry| entry.sample.wall_us);
    }
    let mut samples: Vec<ImportedSample> = Vec::with_capacity(entries.len());
    let mut duplicates = 0;
    for entry in entries {
        match samples.last() {
            Some(last) if *last == entry.sample => duplicates += 1,
            Some(last) if last.wall_us == entry.sample.wall_us => {
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
            _ => samples.push(entry.sample),
        }
    }
    Ok((samples, duplicates))
}

#[cfg(test)]
mod tests {
    use super::*;

    const F1: &[u8] = b"A1B2C3D4E5F67890A1B2C3D4E5F67890A1B2C3D4";
    const F2: &[u8] = b"B1B2C3D4E5F67890A1B2C3D4E5F67890A1B2C3D4";

    fn gather(keys: &[(&[u8], &[u8], &[u8])]) -> (Measurements, Problems) {
        let mut gatherer = Gatherer::default();
        let mut problems = Problems::new(false);
        gatherer.begin_file("m.csv");
        for (line, (server, nickname, fingerprint)) in keys.iter().enumerate() {
            let series = gatherer.series(ServiceKey { server, nickname, fingerprint }).unwrap();
            let sample =
                ImportedSample { wall_us: line as i64, rss_bytes: 1, vsize_bytes: None, hwm_bytes: None };
            gatherer.push(series, sample, line as u64 + 2);
        }
        (gatherer.finish(&mut problems).unwrap(), problems)
    }

    fn names(keys: &[(&[u8], &[u8], &[u8])]) -> Vec<String> {
        gather(keys).0.services.into_iter().map(|service| service.name).collect()
    }

    #[test]
    fn a_nickname_names_a_service_unless_several_share_it() {
        assert_eq!(names(&[(b"go", b"one", b""), (b"go", b"one", F1)]), ["one"]);
        assert_eq!(names(&[(b"go", b"one", b""), (b"co", b"one", b"")]), ["one@go", "one@co"]);
        assert_eq!(
            names(&[(b"go", b"one", F1), (b"go", b"one", F2)]),
            ["one@go@A1B2C3D4", "one@go@B1B2C3D4"]
        );
        assert_eq!(names(&[(b"", b"one", F1), (b"", b"one", F2), (b"", b"one", b"")])[2], "one");
        let (measurements, problems) =
            gather(&[(b"go", b"one", F1), (b"co", b"one", F1), (b"go", b"one@go", b"")]);
        assert_eq!(problems.count(ProblemKind::Note), 1);
        let mut names: Vec<String> = measurements.services.into_iter().map(|service| service.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3);
    }

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
