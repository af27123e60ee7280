//! The files of one import, read and parsed.

use std::path::Path;

use heaptrial_store::ImportSource;
use sha2::{Digest, Sha256};

use super::{TimezoneSource, TorUtilsImport};
use crate::ImportError;
use crate::measured::Measurements;
use crate::problem::{Place, ProblemKind, Problems};
use crate::torutils::{
    Content, GroupFile, HostAtLast, OperatorEvent, Plausible, RelayConfig, Rows, Timezone, read_config,
    read_diagnostics, read_events, read_group, read_memory,
};

/// Microseconds of a day: clocks of others may be ahead by less.
const DAY_US: i64 = 86_400_000_000;

/// What the files of an import tell.
pub(super) struct Files {
    pub measurements: Measurements,
    /// Lists by name, with the file they come from.
    pub groups: Vec<(String, String, GroupFile)>,
    pub config: Option<(String, Vec<RelayConfig>)>,
    pub events: Option<Vec<OperatorEvent>>,
    pub host: Option<HostAtLast>,
    pub timezone: Timezone,
    pub timezone_source: TimezoneSource,
    /// The offset of other times in the events, where it is another one.
    pub other_timezone: Option<String>,
    /// How many times were read in that timezone; the rows of a collection share one.
    pub local_times: u64,
    /// What is told of figures that are unusual for the unit in which they are read.
    pub doubtful_unit: Option<String>,
    pub sources: Vec<ImportSource>,
    first_stem: String,
}

impl Files {
    /// Reads all files before anything is decided.
    pub fn read(request: &TorUtilsImport, problems: &mut Problems) -> Result<Self, ImportError> {
        let Some(first) = request.memory.first() else { return Err(ImportError::NoMemoryFile) };
        let mut sources = Vec::new();

        let mut groups = Vec::new();
        for path in &request.groups {
            let file = File::read(path)?;
            let group = read_group(&file.name, &file.bytes, problems)?;
            sources
                .push(file.source("groups", Rows { read: group.rows, skipped: group.skipped, unit: None }));
            groups.push((stem(path), file.name, group));
        }
        let config = match &request.config {
            None => None,
            Some(path) => {
                let file = File::read(path)?;
                let (relays, read, skipped) = read_config(&file.name, &file.bytes, problems)?;
                sources.push(file.source("config", Rows { read, skipped, unit: None }));
                Some((file.name, relays))
            }
        };

        let events_file = request.events.as_deref().map(File::read).transpose()?;
        let told = events_file.as_ref().and_then(offset_of);
        let (timezone, timezone_source) = timezone(request, told.clone());
        let other_timezone = told.map(|told| told.to_string()).filter(|told| *told != timezone.to_string());
        let mut local_times = 0;
        let events = match events_file {
            None => None,
            Some(file) => {
                let (events, rows, times) = read_events(file.content(), &timezone, problems)?;
                local_times += times.local;
                sources.push(file.source("events", rows));
                Some(events)
            }
        };
        let host = match &request.diagnostics {
            None => None,
            Some(path) => {
                let file = File::read(path)?;
                let (host, rows) = read_diagnostics(file.content(), &timezone, problems)?;
                sources.push(file.source("diagnostics", rows));
                Some(host)
            }
        };

        let memory = request.memory.iter().map(|path| File::read(path)).collect::<Result<Vec<_>, _>>()?;
        let contents: Vec<Content<'_>> = memory.iter().map(File::content).collect();
        let (mut measurements, mut rows, times) =
            read_memory(&contents, &timezone, request.first_day, request.unit, problems)?;
        local_times += times.local;
        if let Some(now_wall_us) = request.now_wall_us {
            rows[0].skipped += drop_future(&mut measurements, &memory[0].name, now_wall_us, problems)?;
        }
        if measurements.services.is_empty() && measurements.aggregates.is_empty() {
            let files: Vec<&str> = memory.iter().map(|file| file.name.as_str()).collect();
            return Err(ImportError::NoMeasurement {
                files: files.join(", "),
                problems: rows.iter().map(|rows| rows.skipped).sum(),
                first: problems
                    .details
                    .first()
                    .map(|first| format!("; the first: {first}"))
                    .unwrap_or_default(),
            });
        }
        let unit = rows.first().and_then(|rows| rows.unit).filter(|_| request.unit.is_none());
        let doubtful_unit = match unit {
            Some(unit) => {
                let ram =
                    host.as_ref().and_then(|host| host.bytes.iter().find(|(name, _)| *name == "ram_bytes"));
                let plausible =
                    Plausible { file: &memory[0].name, unit, host_bytes: ram.map(|(_, bytes)| *bytes) };
                let samples = measurements.services.iter().flat_map(|service| &service.samples);
                plausible.check(samples.map(|sample| sample.rss_bytes).collect())?
            }
            None => None,
        };
        sources.splice(0..0, memory.iter().zip(rows).map(|(file, rows)| file.source("memory", rows)));
        Ok(Self {
            measurements,
            groups,
            config,
            events,
            host,
            timezone,
            timezone_source,
            other_timezone,
            local_times,
            doubtful_unit,
            sources,
            first_stem: stem(first),
        })
    }

    /// The name of a trial that was given none.
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
        let bytes =
            std::fs::read(path).map_err(|source| ImportError::Read { path: path.to_owned(), source })?;
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
    measurements.aggregates.retain(|row| row.wall_us <= latest);
    Ok(dropped)
}

/// The one offset that times in the events have.
fn offset_of(events: &File) -> Option<Timezone> {
    let (_, _, times) = read_events(events.content(), &Timezone::utc(), &mut Problems::new(false)).ok()?;
    match Vec::from_iter(times.offsets).as_slice() {
        [offset] => Timezone::fixed(*offset),
        _ => None,
    }
}

/// The timezone of times without an offset.
///
/// Operators write some times with an offset into the same files; if these agree, the others were taken on the same
/// clock.
fn timezone(request: &TorUtilsImport, told: Option<Timezone>) -> (Timezone, TimezoneSource) {
    match (&request.timezone, told, &request.host_timezone) {
        (Some(given), _, _) => (given.clone(), TimezoneSource::Given),
        (None, Some(told), _) => (told, TimezoneSource::OtherTimes),
        (None, None, Some(host)) => (host.clone(), TimezoneSource::Host),
        (None, None, None) => (Timezone::utc(), TimezoneSource::Assumed),
    }
}
