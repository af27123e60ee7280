//! Measures of well-known load generators.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::{Aside, Work};

/// A load generator whose output is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkPreset(&'static Preset);

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Preset {
    name: String,
    work: Vec<String>,
    /// Headings between which numbers are of something else.
    aside: Option<[String; 2]>,
}

/// Lines in which load generators count requests.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RequestLines {
    pub(super) failed: Vec<String>,
    pub(super) tried: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Presets {
    preset: Vec<Preset>,
    pub(super) requests: RequestLines,
}

/// A test reads all of them.
pub(super) static PRESETS: LazyLock<Presets> =
    LazyLock::new(|| toml::from_str(include_str!("presets.toml")).unwrap_or_default());

impl FromStr for WorkPreset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = PRESETS.preset.iter().find(|preset| preset.name == text);
        known.map(Self).ok_or_else(|| {
            let names: Vec<&str> = PRESETS.preset.iter().map(|preset| preset.name.as_str()).collect();
            format!("`{text}` is no preset; there are {}", names.join(", "))
        })
    }
}

impl fmt::Display for WorkPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

impl WorkPreset {
    pub fn work(self) -> Vec<Work> {
        // A test reads each of them.
        let heading = |text: &str| Regex::new(text).ok();
        let aside = self
            .0
            .aside
            .as_ref()
            .and_then(|[begins, ends]| Some(Aside { begins: heading(begins)?, ends: heading(ends)? }));
        let work = self.0.work.iter().filter_map(|text| text.parse::<Work>().ok());
        work.map(|work| Work { optional: true, aside: aside.clone(), ..work }).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::OutputReader;
    use super::*;

    fn assert_reads(preset: &str, output: &str, expected: &[(&str, f64)]) {
        let mut reader = OutputReader::of(&preset.parse::<WorkPreset>().unwrap().work());
        let readings = output.split(['\n', '\r']).flat_map(|line| reader.read(line));
        let found: Vec<(String, f64)> =
            readings.map(|(_, reading)| (reading.measure.to_string(), reading.value)).collect();
        let expected: Vec<(String, f64)> = expected.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        assert_eq!(found, expected, "{preset}");
    }

    #[test]
    fn every_pattern_can_be_read() {
        assert_eq!(PRESETS.preset.len(), 8);
        for known in &PRESETS.preset {
            let preset: WorkPreset = known.name.parse().unwrap();
            assert_eq!(preset.work().len(), known.work.len(), "{preset}");
            let aside = preset.work().iter().all(|work| work.aside.is_some());
            assert_eq!(aside, known.aside.is_some(), "{preset}");
        }
        assert!("siege".parse::<WorkPreset>().unwrap_err().to_string().contains("pgbench, wrk"));
    }

    #[derive(Deserialize)]
    struct Output {
        preset: String,
        file: String,
        figures: Vec<(String, f64)>,
    }

    #[test]
    fn outputs_of_load_generators_are_read() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/work/outputs");
        let text = include_str!("outputs/expected.toml");
        let outputs: BTreeMap<String, Vec<Output>> = toml::from_str(text).unwrap();
        for Output { preset, file, figures } in &outputs["output"] {
            let figures: Vec<(&str, f64)> =
                figures.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            assert_reads(preset, &std::fs::read_to_string(folder.join(file)).unwrap(), &figures);
        }
    }

    #[test]
    fn figures_of_a_part_of_the_requests_are_not_read() {
        let wrk2 = "  Latency Distribution (HdrHistogram - Recorded Latency)\n 99.000%    8.20ms\n\n\
            Latency Distribution (HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account))\n \
            99.000%    1.20ms\n  60000 requests in 20.00s, 15.23MB read\nRequests/sec:   3000.00\n";
        assert_reads("wrk2", wrk2, &[("less:p99_ms", 8.2), ("requests", 3000.0)]);
        let oha = "Response time distribution:\n  99.00% in 40.0000 ms\n\n\
            Response time distribution (2xx only):\n  99.00% in 42.0000 ms\n\n\
            Details (average, fastest, slowest):\nSummary:\n  Average:\t0.0123 10 sec\n";
        assert_reads("oha", oha, &[("less:p99_ms", 40.0), ("less:latency_ms", 123.0)]);
        let whole = include_str!("outputs/memtier.txt");
        let best = whole.replace("38471.05", "9.00").replace("ALL STATS", "BEST RUN RESULTS");
        let all = whole.replace("ALL STATS", "AGGREGATED AVERAGE RESULTS (2 runs)");
        let expected = [("requests", 38471.05), ("less:latency_ms", 0.17335), ("less:p99_ms", 1.791)];
        assert_reads("memtier", &(best + &all), &expected);
    }
}
