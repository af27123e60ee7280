//! How long a report over 1,000,000 samples takes: 20 services with 50,000 samples each.
//!
//! `cargo run --release -p heaptrial-bench --bin report_million` prints one line of JSON. With a
//! folder as argument the database is kept there and used again.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use heaptrial_model::{Arm, Ending, Identity, LifeKey, Linkage, Metric, Sample, TrialKind, Version};
use heaptrial_report::{Document, Options, Report};
use heaptrial_store::{NewTrial, Store, TickInput};

const SPECS: [&str; 4] = ["glibc", "jemalloc@5.3.0", "mimalloc@2.0.9", "mimalloc@3.0.1"];
const SERVICES: u32 = 20;
const SAMPLES_EACH: i64 = 50_000;
const TICK_US: i64 = 10_000_000;
const MIB: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let kept = std::env::args_os().nth(1).map(PathBuf::from);
    let temporary = tempfile::tempdir()?;
    let folder = kept.as_deref().unwrap_or(temporary.path());
    let path = folder.join("million.db");
    if !path.is_file() {
        fill(&path)?;
    }
    // The second run is what counts: the first one warms the page cache.
    let mut seconds = (0.0, 0.0);
    for _ in 0..2 {
        let start = Instant::now();
        let store = Store::open(&path)?;
        let report = Report::with_charts(&store, 1, &Options::default())?;
        let built = start.elapsed();
        report.write(&folder.join("report"))?;
        seconds = (built.as_secs_f64(), start.elapsed().as_secs_f64());
    }
    println!(
        "{{\"samples\": {}, \"build_seconds\": {:.3}, \"build_and_write_seconds\": {:.3}}}",
        i64::from(SERVICES) * SAMPLES_EACH,
        seconds.0,
        seconds.1
    );
    Ok(())
}

fn fill(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut store = Store::create(path)?;
    let arms = SPECS.iter().enumerate().map(|(index, spec)| Ok(Arm::from_spec(spec.parse()?, index == 0)));
    let arms = arms.collect::<Result<Vec<Arm>, Box<dyn Error>>>()?;
    let (trial, arm_ids) = store.begin_trial(&NewTrial {
        name: "a million samples".to_owned(),
        kind: TrialKind::LabCommand,
        boot_id: "boot".to_owned(),
        host_facts: serde_json::json!({"cpu_count": 2}),
        metric: Metric::Rss,
        seed: 1,
        repeats: SERVICES / SPECS.len() as u32,
        planned_us: SAMPLES_EACH * TICK_US,
        arms,
        parameters: serde_json::Value::Null,
        command: "heaptrial lab run -- true".to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_wall_us: 0,
    })?;
    let mut lives = Vec::new();
    for index in 0..SERVICES {
        let arm = index as usize % SPECS.len();
        let block = index / SPECS.len() as u32;
        let service = store.add_service(trial, arm_ids[arm], &format!("s{index}"), block, index)?;
        let key = LifeKey { boot_id: "boot".to_owned(), pid: 100 + index as i32, start_ticks: 1 };
        let identity = Identity {
            family: "glibc".to_owned(),
            version: Some(Version::new("2.36")),
            version_range: None,
            path: None,
            build_id: None,
            sha256: None,
            linkage: Linkage::Libc,
            settings: Default::default(),
            evidence: Vec::new(),
            ..Identity::default()
        };
        lives.push(store.add_life(service, &key, (0, 0), Some(&identity), None)?);
    }
    for sequence in 0..SAMPLES_EACH {
        let at = sequence * TICK_US;
        let samples = lives.iter().enumerate().map(|(index, life)| {
            let wave = (sequence as u64 * 37 + index as u64 * 101) % 4096;
            let rss_bytes = (100 + 40 * (index as u64 % 4)) * MIB + wave * 4096 + sequence as u64 * 200;
            let sample =
                Sample { rss_bytes, anon_bytes: rss_bytes, cpu_us: at as u64 / 10, ..Sample::default() };
            (*life, sample)
        });
        let samples = samples.collect();
        store.write_tick(
            trial,
            &TickInput { sequence, wall_us: at, boottime_us: at, samples, ..TickInput::default() },
        )?;
    }
    let end = SAMPLES_EACH * TICK_US;
    for life in lives {
        store.end_life(life, (end, end), &Ending::Planned)?;
    }
    store.end_trial(trial, end, "completed")?;
    Ok(())
}
