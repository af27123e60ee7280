//! How long the report of a fleet takes, and how much memory: reading, analysis, all forms and charts.
//!
//! `cargo run --release -p heaptrial-report --example report_fleet -- SERVICES READINGS [FOLDER]` makes a database of
//! SERVICES with READINGS each and prints one line of JSON. In FOLDER the database is kept and used again. The report
//! is made by a process of its own, so that its peak is not that of making the database.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use heaptrial_model::{Arm, LifeStart, Metric, TrialKind};
use heaptrial_report::{Options, Report, terminal, write};
use heaptrial_store::{
    ImportedLife, ImportedList, ImportedSample, ImportedService, ImportedTrial, NewTrial, Store,
};

/// Allocator, MiB after the start, MiB a day.
const ARMS: [(&str, f64, f64); 5] = [
    ("glibc", 6000.0, 40.0),
    ("jemalloc@5.3.0", 2700.0, 1.0),
    ("mimalloc@2.0.9", 1250.0, 2.0),
    ("mimalloc@2.1.7", 1750.0, 30.0),
    ("mimalloc@3.0.1", 1500.0, 300.0),
];
const DAYS: f64 = 30.0;
const DAYS_OF_FEW: f64 = 10.0;
const MANY_SERVICES: usize = 1000;
const DAY_US: f64 = 86_400e6;
const START_US: i64 = 1_767_323_045_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, path] = &arguments[..] {
        if option == "--measure" {
            return measure(Path::new(path));
        }
    }
    let [services, readings, kept @ ..] = &arguments[..] else {
        return Err("usage: report_fleet SERVICES READINGS [FOLDER]".into());
    };
    let (services, readings) = (services.parse()?, readings.parse()?);
    let temporary = tempfile::tempdir()?;
    let folder = kept.first().map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let path = folder.join(format!("fleet-{services}-{readings}.db"));
    if !path.is_file() {
        fill(&path, services, readings)?;
    }
    // The second one counts: the first one warms the page cache.
    for _ in 0..2 {
        let own = std::env::current_exe()?;
        let status = Command::new(own).arg("--measure").arg(&path).status()?;
        if !status.success() {
            return Err(format!("the report ended with {status}").into());
        }
    }
    Ok(())
}

fn measure(path: &Path) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let store = Store::open(path)?;
    let (report, trajectories) = Report::with_trajectories(&store, 1, &Options::default())?;
    let built = start.elapsed();
    let folder = path.with_extension("report");
    let written = write(&report, &trajectories, &folder)?;
    let text = terminal(&report, false)?;
    let all = start.elapsed();
    println!(
        "{{\"services\": {}, \"samples\": {}, \"build_seconds\": {:.3}, \"report_seconds\": {:.3}, \"peak_rss_mib\": {:.0}, \
         \"html_bytes\": {}, \"terminal_lines\": {}}}",
        report.services.len(),
        report.samples,
        built.as_secs_f64(),
        all.as_secs_f64(),
        peak_rss_mib()?,
        std::fs::metadata(&written.html)?.len(),
        text.lines().count()
    );
    Ok(())
}

/// VmHWM of this process.
fn peak_rss_mib() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kib / 1024.0)
}

fn fill(path: &Path, services: usize, readings: usize) -> Result<(), Box<dyn Error>> {
    let days = if services < MANY_SERVICES { DAYS_OF_FEW } else { DAYS };
    let step_us = days * DAY_US / readings as f64;
    let service = |index: usize| {
        let (_, level, growth) = ARMS[index % ARMS.len()];
        let own = 1.0 + 0.06 * (noise(index as u64) - 0.5);
        let sample = |reading: usize| {
            let age_days = (reading + 1) as f64 * step_us / DAY_US;
            let wave = 1.0 + 0.03 * (noise((index * 1_000_003 + reading) as u64) - 0.5);
            let rise = 1.0 - 0.6 * (-age_days / 0.3).exp();
            let mib = (level * own * rise + growth * age_days) * wave;
            let wall_us = START_US + ((reading + 1) as f64 * step_us) as i64;
            let rss_bytes = (mib * 1024.0) as u64 * 1024;
            ImportedSample {
                wall_us,
                rss_bytes,
                vsize_bytes: None,
                hwm_bytes: None,
                ..ImportedSample::default()
            }
        };
        let life = ImportedLife {
            started_wall_us: START_US,
            start: LifeStart::Observed,
            contamination: None,
            samples: (0..readings).map(sample).collect(),
        };
        ImportedService {
            name: format!("relay{index:05}"),
            block: 0,
            attributes: serde_json::Value::Null,
            lives: vec![life],
        }
    };
    let list =
        |(arm, (allocator, _, _)): (usize, &(&str, f64, f64))| -> Result<ImportedList, Box<dyn Error>> {
            Ok(ImportedList {
                arm: Arm::from_spec(allocator.parse()?, arm == 0),
                earlier_list_of: None,
                members: (arm..services).step_by(ARMS.len()).collect(),
                source: format!("{arm}.txt"),
            })
        };
    let plan = NewTrial {
        name: format!("{services} services with {readings} readings"),
        kind: TrialKind::ImportTorutils,
        boot_id: "import".to_owned(),
        host_facts: serde_json::json!({}),
        metric: Metric::Rss,
        seed: 1,
        repeats: 0,
        planned_us: 0,
        arms: Vec::new(),
        parameters: serde_json::Value::Null,
        command: "heaptrial import torutils memory.csv".to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_wall_us: START_US,
    };
    let trial = ImportedTrial {
        plan,
        lists: ARMS.iter().enumerate().map(list).collect::<Result<_, _>>()?,
        services: (0..services).map(service).collect(),
        events: Vec::new(),
        aggregates: Vec::new(),
        sources: Vec::new(),
    };
    Store::create(path)?.write_imported(&trial)?;
    Ok(())
}

/// A number in 0..1 that looks random and is always the same: the finaliser of G. Steele's SplitMix64.
fn noise(seed: u64) -> f64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) as f64 / u64::MAX as f64
}
