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

/// How load generators count requests that failed.
#[derive(Debug, Default, Deserialize)]
pub(super) struct FailedLines {
    pub(super) among_tried: Vec<String>,
    pub(super) on_top: Vec<String>,
    pub(super) tried: Vec<String>,
    pub(super) error: String,
    pub(super) cut_off: String,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Presets {
    preset: Vec<Preset>,
    pub(super) failed: FailedLines,
}

/// A test reads all of them.
pub(super) static PRESETS: LazyLock<Presets> =
    LazyLock::new(|| toml::from_str(include_str!("presets.toml")).unwrap_or_default());

/// A name that is no preset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no preset; there are {all}", all = names())]
pub struct UnknownPreset(String);

fn names() -> String {
    PRESETS.preset.iter().map(|preset| preset.name.as_str()).collect::<Vec<_>>().join(", ")
}

impl FromStr for WorkPreset {
    type Err = UnknownPreset;

    fn from_str(text: &str) -> Result<Self, UnknownPreset> {
        let known = PRESETS.preset.iter().find(|preset| preset.name == text);
        known.map(Self).ok_or_else(|| UnknownPreset(text.to_owned()))
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
    use super::super::OutputReader;
    use super::*;

    fn told(preset: &str, output: &str) -> Vec<(String, f64)> {
        let mut reader = OutputReader::of(&preset.parse::<WorkPreset>().unwrap().work());
        let lines = output.split(['\n', '\r']);
        lines
            .flat_map(|line| reader.read(line))
            .map(|(_, told)| (told.measure.to_string(), told.value))
            .collect()
    }

    fn assert_tells(preset: &str, output: &str, expected: &[(&str, f64)]) {
        let expected: Vec<(String, f64)> = expected.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        assert_eq!(told(preset, output), expected);
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

    // The outputs are of real runs of the tools in Debian 12.

    #[test]
    fn pgbench_tells_transactions_and_latency() {
        let output = include_str!("outputs/pgbench.txt");
        assert_tells("pgbench", output, &[("less:latency_ms", 2.403), ("tps", 1658.589144)]);
    }

    #[test]
    fn wrk_tells_requests_and_latency() {
        let output = include_str!("outputs/wrk.txt");
        assert_tells("wrk", output, &[("less:latency_ms", 1.25), ("requests", 39211.59)]);
        let output = include_str!("outputs/wrk-latency.txt");
        let expected = [("less:latency_ms", 1.16), ("less:p99_ms", 10.93), ("requests", 46378.19)];
        assert_tells("wrk", output, &expected);
        // Of a second and more wrk fills the unit up with a blank.
        assert_tells("wrk", "     99%    1.25s \n", &[("less:p99_ms", 1250.0)]);
    }

    /// By the sources of wrk2: with -U what was measured from late starts follows.
    #[test]
    fn wrk2_tells_corrected_latency() {
        let output = "  Latency Distribution (HdrHistogram - Recorded Latency)\n 99.000%    8.20ms\n#[Mean    =        1.423]\n\
            ----------------------------------------------------------\n\n\
            Latency Distribution (HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account))\n \
            99.000%    1.20ms\n#[Mean    =        0.240]\n  60000 requests in 20.00s, 15.23MB read\nRequests/sec:   3000.00\n";
        assert_tells("wrk2", output, &[("less:p99_ms", 8.2), ("requests", 3000.0)]);
    }

    #[test]
    fn ab_tells_requests_and_latency() {
        let output = include_str!("outputs/ab.txt");
        let expected = [("requests", 5262.85), ("less:latency_ms", 1.52), ("less:p99_ms", 16.0)];
        assert_tells("ab", output, &expected);
    }

    #[test]
    fn hey_tells_requests_and_latency() {
        let output = include_str!("outputs/hey.txt");
        let expected = [("less:latency_ms", 0.4), ("requests", 22567.2133), ("less:p99_ms", 3.3)];
        assert_tells("hey", output, &expected);
    }

    #[test]
    fn oha_tells_requests_and_latency() {
        let output = include_str!("outputs/oha.txt");
        let expected = [("less:latency_ms", 1.9464), ("requests", 2050.8789), ("less:p99_ms", 16.7307)];
        assert_tells("oha", output, &expected);
        // With --stats-success-breakdown, by its sources.
        let parts = "Response time distribution:\n  99.00% in 40.0000 ms\n\nResponse time histogram (2xx only):\n  1.0 ms [1] |\n\n\
            Response time distribution (2xx only):\n  99.00% in 42.0000 ms\n\n\
            Response time distribution (4xx + 5xx only):\n  99.00% in 1.0000 ms\n\n\
            Details (average, fastest, slowest):\nSummary:\n  Average:\t0.0123 10 sec\n";
        assert_tells("oha", parts, &[("less:p99_ms", 40.0), ("less:latency_ms", 123.0)]);
        for (unit, value) in [("sec", 2e3), ("10 sec", 2e4), ("min", 12e4), ("10 min", 12e5), ("hr", 72e5)] {
            assert_tells("oha", &format!("  Average:\t2.0000 {unit}"), &[("less:latency_ms", value)]);
        }
    }

    /// Of a build of its sources, against Debian 12's Redis.
    #[test]
    fn memtier_tells_requests_and_latency_of_all() {
        let output = include_str!("outputs/memtier.txt");
        let expected = [("requests", 38471.05), ("less:latency_ms", 0.17335), ("less:p99_ms", 1.791)];
        assert_tells("memtier", output, &expected);
        // With -x of several runs.
        let several = [
            "BEST RUN RESULTS",
            "WORST RUN RESULTS",
            "RUN #1 RESULTS",
            "AGGREGATED AVERAGE RESULTS (2 runs)",
        ];
        let totals = output.replace("38471.05", "9.00");
        let table = |heading: &str| {
            let table = if heading.starts_with("AGG") { output } else { totals.as_str() };
            table.replace("ALL STATS", heading)
        };
        let output: Vec<String> = several.iter().map(|heading| table(heading)).collect();
        assert_tells("memtier", &output.concat(), &expected);
        // Columns by options: without hits and misses, with those of a cluster, and with other percentiles.
        for (headings, totals, expected) in [
            (
                "Type         Ops/sec    Avg. Latency     p50 Latency     p99 Latency   p99.9 Latency       KB/sec ",
                "Totals     38471.05         0.17335         0.13500         1.79100         5.24700      1631.88 ",
                &expected[..],
            ),
            (
                "Type         Ops/sec     Hits/sec   Misses/sec    MOVED/sec      ASK/sec    Avg. Latency     p99 Latency       KB/sec ",
                "Totals     38471.05         4.00     34969.17         0.00         0.00         0.17335         1.79100      1631.88 ",
                &expected[..],
            ),
            (
                "Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     p90 Latency       KB/sec ",
                "Totals     38471.05         4.00     34969.17         0.17335         0.13500         0.31100      1631.88 ",
                &expected[..2],
            ),
        ] {
            assert_tells("memtier", &format!("{headings}\n{totals}\n"), expected);
        }
    }

    #[test]
    fn redis_benchmark_tells_requests_of_each_test() {
        let output = include_str!("outputs/redis-benchmark-quiet.txt");
        let expected = [
            ("SET requests", 26525.20),
            ("less:SET p50_ms", 0.655),
            ("GET requests", 26315.79),
            ("less:GET p50_ms", 0.679),
        ];
        assert_tells("redis-benchmark", output, &expected);
        // Other names of tests.
        let output = "MSET (10 keys): 9000.20 requests per second, p50=2.655 msec\nhset h:1 f v: 100.00 requests per second\n";
        let expected = [
            ("MSET (10 keys) requests", 9000.2),
            ("less:MSET (10 keys) p50_ms", 2.655),
            ("hset h:1 f v requests", 100.0),
        ];
        assert_tells("redis-benchmark", output, &expected);
        let output = include_str!("outputs/redis-benchmark-csv.txt");
        let expected = [
            ("SET requests", 26990.55),
            ("less:SET latency_ms", 1.288),
            ("less:SET p99_ms", 6.031),
            ("GET requests", 25673.94),
            ("less:GET latency_ms", 1.276),
            ("less:GET p99_ms", 6.079),
        ];
        assert_tells("redis-benchmark", output, &expected);
    }
}
