//! A small fleet in the files of the TorUtils scripts, made anew for each test.
//!
//! Ten days of 60 relays under five allocators, in the shape of the real trial: all ran glibc for three days, were
//! restarted on the fourth, and then settle at the level of their arm; one arm grows.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// What the relays of an arm need.
pub struct ArmShape {
    /// Name of the list.
    pub name: &'static str,
    /// How many relays.
    pub relays: usize,
    /// GiB at the end of settling.
    pub level_gib: f64,
    /// GiB a day after the restart.
    pub growth_gib_per_day: f64,
}

pub const ARMS: [ArmShape; 5] = [
    ArmShape { name: "group_A_mimalloc301", relays: 10, level_gib: 2.0, growth_gib_per_day: 0.9 },
    ArmShape { name: "group_B_mimalloc209", relays: 20, level_gib: 1.3, growth_gib_per_day: 0.0 },
    ArmShape { name: "group_C_mimalloc217", relays: 10, level_gib: 1.8, growth_gib_per_day: 0.0 },
    ArmShape { name: "group_D_jemalloc", relays: 10, level_gib: 2.7, growth_gib_per_day: 0.0 },
    ArmShape { name: "group_E_glibc", relays: 10, level_gib: 6.2, growth_gib_per_day: 0.0 },
];

/// Readings a day.
const PER_DAY: u32 = 4;
const DAYS: u32 = 10;
const RESTART_DAY: f64 = 3.1;
const GIB_IN_KIB: f64 = 1_048_576.0;

/// Name of a relay: arm by letter, number from 0.
pub fn relay(arm: usize, number: usize) -> String {
    format!("{}relay{number}", ["a", "b", "c", "d", "e"][arm])
}

/// RSS in KiB of a relay at an hour of the trial.
pub fn rss_kib(arm: usize, number: usize, day: f64) -> u64 {
    let shape = &ARMS[arm];
    // Noise that repeats: the sine of numbers without a common period.
    let of_relay = (number as f64 * 7.13 + arm as f64 * 3.7).sin() * 0.03;
    let of_moment = (day * 17.9 + number as f64 * 2.31 + arm as f64).sin() * 0.02;
    let (age, level, growth) = if day < RESTART_DAY {
        (day + 5.0, 6.0, 0.0)
    } else {
        (day - RESTART_DAY, shape.level_gib, shape.growth_gib_per_day)
    };
    let settled = level * (1.0 - 0.6 * (-age / 0.3).exp());
    ((settled + growth * age) * (1.0 + of_relay + of_moment) * GIB_IN_KIB) as u64
}

/// The days of all readings.
pub fn days() -> Vec<f64> {
    (0..DAYS * PER_DAY).map(|tick| f64::from(tick) / f64::from(PER_DAY)).collect()
}

/// The time of a day as the scripts write it: local, without an offset.
pub fn timestamp(day: f64) -> String {
    let minutes = (day * 1440.0).round() as u32;
    format!("2026-03-{:02}T{:02}:{:02}:00", 1 + minutes / 1440, minutes / 60 % 24, minutes % 60)
}

/// Mean of the last readings of relays, in bytes.
pub fn mean_of_last(relays: &[(usize, usize)]) -> f64 {
    let last = *days().last().unwrap();
    let sum: u64 = relays.iter().map(|(arm, number)| rss_kib(*arm, *number, last)).sum();
    sum as f64 * 1024.0 / relays.len() as f64
}

/// Writes memory.csv up to a day, events.csv, diagnostics.csv and groups/.
pub fn write(folder: &Path, until_day: f64) {
    fs::create_dir_all(folder.join("groups")).unwrap();
    let mut csv = "timestamp,server,type,fingerprint,nickname,rss_kb,vmsize_kb,hwm_kb,frag_ratio,count,total_kb,avg_kb,min_kb,max_kb\n".to_owned();
    let mut peak = vec![vec![0u64; 20]; ARMS.len()];
    let mut before = f64::NEG_INFINITY;
    for day in days().into_iter().filter(|day| *day <= until_day) {
        let mut total = 0;
        let mut rows = String::new();
        for (arm, shape) in ARMS.iter().enumerate() {
            for (number, peak) in peak[arm].iter_mut().enumerate().take(shape.relays) {
                let rss = rss_kib(arm, number, day);
                if before < RESTART_DAY && day >= RESTART_DAY {
                    *peak = 0;
                }
                *peak = rss.max(*peak);
                total += rss;
                let vsize = if day < RESTART_DAY { 10_000_000 } else { 5_000_000 + rss };
                let hwm = *peak;
                let name = relay(arm, number);
                writeln!(rows, "{},go,relay,,{name},{rss},{vsize},{hwm},1.5,,,,,", timestamp(day)).unwrap();
            }
        }
        writeln!(csv, "{},go,aggregate,,,,,,,60,{total},{},1,{total}", timestamp(day), total / 60).unwrap();
        csv.push_str(&rows);
        before = day;
    }
    fs::write(folder.join("memory.csv"), csv).unwrap();
    let events = format!(
        "timestamp,event_type,description,group\n{}-08:00,restart,all relays restarted,all\n",
        timestamp(RESTART_DAY)
    );
    fs::write(folder.join("events.csv"), events).unwrap();
    fs::write(
        folder.join("diagnostics.csv"),
        "date,time,hostname,tor_version,os_release,kernel,allocator,mem_total_mb,mem_free_mb,mem_available_mb,mem_cached_mb,swap_total_mb,swap_free_mb,tcp_established,tcp_total,fd_limit,relay_count,relay_total_mb,relay_avg_mb\n\
         2026-03-10,18:00:00,go,0.4.8.21.,Debian GNU/Linux 13 (trixie),6.12.57,glibc,262144,100000,120000,4000,0,0,9,9,65536,60,150000,2500\n",
    )
    .unwrap();
    for (arm, shape) in ARMS.iter().enumerate() {
        list(folder, shape.name, &(0..shape.relays).map(|number| (arm, number)).collect::<Vec<_>>());
    }
    list(folder, "group_E_glibc_historical", &historical());
}

/// An earlier list of the glibc arm: 6 of its own relays, 3 of mimalloc 2.0.9 and 1 of jemalloc.
pub fn historical() -> Vec<(usize, usize)> {
    (0..6).map(|number| (4, number)).chain([(1, 0), (1, 1), (1, 2), (3, 9)]).collect()
}

fn list(folder: &Path, name: &str, relays: &[(usize, usize)]) {
    let text: String = relays.iter().map(|(arm, number)| format!("{}\n", relay(*arm, *number))).collect();
    fs::write(folder.join("groups").join(format!("{name}.txt")), text).unwrap();
}
