//! Generates a million rows of the TorUtils scripts (200 relays, 5,000 collections) and times their import.
//!
//! `cargo run --release -p heaptrial-bench --bin import_million`

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use heaptrial_exchange::tables::{Content, Mapping, Timezone, read_memory};
use heaptrial_exchange::{CsvImport, Problems, export, import_csv};
use heaptrial_store::Store;

const RELAYS: u64 = 200;
const COLLECTIONS: u64 = 5_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let memory = dir.path().join("memory.csv");
    std::fs::write(&memory, generate()?)?;
    let groups: Vec<_> = (0..5)
        .map(|group| {
            let path = dir.path().join(format!("group_{group}.txt"));
            let members: String = (0..RELAYS)
                .filter(|relay| relay % 5 == group)
                .map(|relay| format!("relay{relay}\n"))
                .collect();
            std::fs::write(&path, members).map(|()| path)
        })
        .collect::<Result<_, _>>()?;

    let bytes = std::fs::read(&memory)?;
    let contents = [Content { file: "memory.csv", bytes: &bytes }];
    let begun = Clocks::now();
    read_memory(&contents, &Mapping::default(), &Timezone::utc(), &mut Problems::new(true))?;
    println!(
        "{:.1} MB, {} rows: parsed alone in {}",
        bytes.len() as f64 / 1e6,
        RELAYS * COLLECTIONS,
        begun.told()
    );

    let mut store = Store::create(&dir.path().join("heaptrial.db"))?;
    let request = CsvImport { memory: vec![memory], groups, ..CsvImport::default() };
    let begun = Clocks::now();
    let summary = import_csv(&mut store, &request)?;
    println!("{} samples: read, parsed, lives inferred and stored in {}", summary.samples, begun.told());
    let begun = Clocks::now();
    let summary = import_csv(&mut store, &request)?;
    println!("{} samples: replaced by the same in {}", summary.samples, begun.told());
    let path = dir.path().join("export");
    let begun = Clocks::now();
    export(&store, summary.trial_id, &mut std::fs::File::create(&path)?)?;
    println!("exported: {:.1} MB in {}", size(&path)? / 1e6, begun.told());
    println!("most memory used: {} MB", peak_mib());
    Ok(())
}

/// Elapsed time, and time on a processor: on a machine that does other things the second one says more.
struct Clocks(Instant, Duration);

impl Clocks {
    fn now() -> Self {
        Self(Instant::now(), on_processor())
    }

    fn told(&self) -> String {
        format!("{:.2?} ({:.2?} of a processor)", self.0.elapsed(), on_processor() - self.1)
    }
}

fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default())
}

fn generate() -> Result<String, std::fmt::Error> {
    let mut text = String::from(
        "timestamp,server,type,fingerprint,nickname,rss_kb,vmsize_kb,hwm_kb,frag_ratio,count,total_kb,avg_kb,min_kb,max_kb\n",
    );
    let begin = 1_767_225_600;
    for collection in 0..COLLECTIONS {
        let time =
            jiff::Timestamp::from_second(begin + 600 * collection as i64).unwrap_or_default().to_string();
        for relay in 0..RELAYS {
            let rss = 1_000_000 + relay * 1_000 + collection % 700 * 97;
            let hwm = 1_100_000 + relay * 1_000 + collection % 700 * 97;
            writeln!(text, "{time},alpha,relay,{relay:040X},relay{relay},{rss},{},{hwm},4.00,,,,,", rss * 4)?;
        }
    }
    Ok(text)
}

fn size(path: &Path) -> std::io::Result<f64> {
    Ok(std::fs::metadata(path)?.len() as f64)
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() / 1024
}
