//! Numbers in what the load writes.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};
use std::path::PathBuf;

use heaptrial_model::WorkMeasure;
use regex::{Captures, Regex};
use serde_json::Value;

use super::{Reading, Work, WorkSource};

/// A line longer than this is no line that a tool writes for people.
const LONGEST_LINE: usize = 1 << 20;

/// Gives the lines that were written to a file since they were asked for last. A line ends with `\n`, or with `\r` as tools
/// write that renew a line.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    read: u64,
    begun: Vec<u8>,
}

impl Tail {
    pub(crate) fn of(path: PathBuf) -> Self {
        Self { path, read: 0, begun: Vec::new() }
    }

    /// The lines that were ended since; of a file that is not there, none.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        let before = self.begun.len();
        // What was read before an error counts as read; the rest comes with the next look.
        let _ = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read))?;
            file.read_to_end(&mut self.begun)
        });
        self.read += (self.begun.len() - before) as u64;
        let Some(end) = self.begun.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')) else {
            if self.begun.len() > LONGEST_LINE {
                self.begun.clear();
            }
            return Vec::new();
        };
        let ended: Vec<u8> = self.begun.drain(..=end).collect();
        let lines = ended.split(|byte| matches!(byte, b'\n' | b'\r'));
        lines.filter(|line| !line.is_empty()).map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    /// What is left after the last line, once nothing more will be written.
    pub(crate) fn rest(&mut self) -> Option<String> {
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned();
        (!rest.is_empty()).then_some(rest)
    }
}

/// Finds the numbers of measures in lines.
#[derive(Debug)]
pub(crate) struct OutputReader {
    work: Vec<Work>,
    /// Of each table the place of the column, once its headings were read.
    places: Vec<Option<usize>>,
    /// Of each whether the lines at this place are of something else.
    aside: Vec<bool>,
}

impl OutputReader {
    /// Of those whose source is what the load writes.
    pub(crate) fn of(work: &[Work]) -> Self {
        let work: Vec<Work> = work.iter().filter(|work| work.source.is_of_load()).cloned().collect();
        Self { places: vec![None; work.len()], aside: vec![false; work.len()], work }
    }

    pub(crate) fn work(&self) -> &[Work] {
        &self.work
    }

    /// Every number of a line, with the position in [`Self::work`] that it is of.
    pub(crate) fn read(&mut self, line: &str) -> Vec<(usize, Reading)> {
        for (work, place) in self.work.iter().zip(&mut self.places) {
            let WorkSource::Table { column, .. } = &work.source else { continue };
            let headings = line.split("  ").map(str::trim).filter(|heading| !heading.is_empty());
            *place = headings.into_iter().position(|heading| heading == column).or(*place);
        }
        for (work, aside) in self.work.iter().zip(&mut self.aside) {
            let Some(known) = &work.aside else { continue };
            *aside = known.begins.is_match(line) || *aside && !known.ends.is_match(line);
        }
        let object = line.trim_start().starts_with('{').then(|| serde_json::from_str(line).ok()).flatten();
        let reading = |(index, work): (usize, &Work)| match &work.source {
            WorkSource::Line(pattern) => Some((index, of_line(&work.measure, pattern, line)?)),
            WorkSource::JsonLine(field) => Some((index, work.reading(number_at(object.as_ref()?, field)?))),
            WorkSource::Table { row, .. } => {
                let mut cells = line.split_whitespace();
                let own = cells.next().is_some_and(|first| first == row);
                // What was not measured stands as dashes.
                let cell = cells.nth(self.places[index]?.checked_sub(1)?).filter(|_| own)?;
                Some((index, work.reading(cell.parse().ok()?)))
            }
            _ => None,
        };
        self.work.iter().enumerate().filter(|(index, _)| !self.aside[*index]).filter_map(reading).collect()
    }
}

fn of_line(measure: &WorkMeasure, pattern: &Regex, line: &str) -> Option<Reading> {
    let found = pattern.captures(line)?;
    let mut measure = measure.clone();
    if let Some(name) = found.name("name") {
        // A tool that runs several tests gives a number of each.
        measure.name = format!("{} {}", name.as_str(), measure.name);
    }
    let value = numbered(pattern, &found)? * factor(unit(pattern, &found).unwrap_or_default())?;
    value.is_finite().then_some(Reading { measure, value })
}

/// Groups without a name, in order.
fn unnamed<'h>(pattern: &Regex, found: &Captures<'h>) -> Vec<&'h str> {
    let names = pattern.capture_names().skip(1);
    let groups = names.zip(found.iter().skip(1)).filter(|(name, _)| name.is_none());
    groups.filter_map(|(_, group)| Some(group?.as_str())).collect()
}

fn numbered(pattern: &Regex, found: &Captures<'_>) -> Option<f64> {
    // A comma may be of thousands or decimal: a number with one is none.
    unnamed(pattern, found).first()?.trim_end_matches(',').parse().ok()
}

fn unit<'h>(pattern: &Regex, found: &Captures<'h>) -> Option<&'h str> {
    let named = found.name("unit").map(|group| group.as_str());
    named.or_else(|| unnamed(pattern, found).get(1).copied())
}

/// Times in milliseconds, and the multiples that tools write.
fn factor(unit: &str) -> Option<f64> {
    Some(match unit {
        "" | "ms" | "msec" => 1.0,
        "ns" => 1e-6,
        "us" | "µs" | "μs" | "usec" => 1e-3,
        "s" | "sec" | "secs" => 1e3,
        "m" | "min" => 60e3,
        "h" | "hr" => 3600e3,
        "10 sec" => 10e3,
        "10 min" => 600e3,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    })
}

/// The number at `a.b` of a document; a number as text is one too. An empty field is the document itself.
pub(super) fn number_at(document: &Value, field: &str) -> Option<f64> {
    let inner = match field {
        "" => document,
        field => field.split('.').try_fold(document, |inner, name| match inner {
            Value::Array(items) => items.get(name.parse::<usize>().ok()?),
            inner => inner.get(name),
        })?,
    };
    let number = match inner {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn read(work: &[&str], line: &str) -> Vec<(String, f64)> {
        let work: Vec<Work> = work.iter().map(|text| text.parse().unwrap()).collect();
        let mut reader = OutputReader::of(&work);
        let readings = reader.read(line).into_iter().map(|(_, reading)| reading);
        readings.map(|reading| (reading.measure.to_string(), reading.value)).collect()
    }

    #[test]
    fn a_group_is_the_number_and_another_its_unit() {
        assert_eq!(read(&["tps=tps = ([0-9.]+)"], "tps = 12.5 (x)"), [("tps".to_owned(), 12.5)]);
        let latency = ["less:latency_ms=Latency +([0-9.]+)(us|ms|s)"];
        assert_eq!(read(&latency, "  Latency   250us"), [("less:latency_ms".to_owned(), 0.25)]);
        assert_eq!(read(&latency, "  Latency   2s"), [("less:latency_ms".to_owned(), 2000.0)]);
        let named = [r"requests=^(?P<name>\w+): ([0-9.,]+) requests"];
        assert_eq!(read(&named, "SET: 1200.5 requests"), [("SET requests".to_owned(), 1200.5)]);
        assert_eq!(read(&named, "SET: 1,200 requests"), []);
        assert_eq!(read(&named, "SET: none"), []);
    }

    #[test]
    fn lines_of_json_have_fields() {
        let work = ["rps=json:load.rps", "less:p99=json:p99.0"];
        let line = r#"{"load": {"rps": 5, "other": 1}, "p99": ["0.25"]}"#;
        assert_eq!(read(&work, line), [("rps".to_owned(), 5.0), ("less:p99".to_owned(), 0.25)]);
        assert_eq!(read(&work, "load.rps 5"), []);
    }

    #[test]
    fn lines_come_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut tail = Tail::of(path.clone());
        assert!(tail.lines().is_empty());
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(tail.lines(), ["one"]);
        file.write_all(b"o\rthree\n\nfo\xffr").unwrap();
        assert_eq!(tail.lines(), ["two", "three"]);
        assert!(tail.lines().is_empty());
        assert_eq!(tail.rest().as_deref(), Some("fo\u{fffd}r"));
        assert_eq!(tail.rest(), None);
    }
}
