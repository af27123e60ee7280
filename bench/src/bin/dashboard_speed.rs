//! How long pages take, and what the dashboard's process needs, with a large trial that runs:
//! `cargo run --release -p heaptrial-bench --bin dashboard_speed -- [SERVICES] [DAYS] [DATABASE]`.
//!
//! One reading a minute of each service. An existing DATABASE is used as it is, so that a large one is written once.
// Modules are shared with tests that use more of them.
#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code)]

#[path = "../../../crates/dashboard/tests/it/client/mod.rs"]
mod client;
#[path = "../../../crates/dashboard/tests/it/fixture/mod.rs"]
mod fixture;
#[path = "../../../crates/report/tests/it/fleet/mod.rs"]
mod fleet;

use std::path::PathBuf;
use std::time::Instant;

use client::Server;
use fixture::{DAY, Field, MINUTE};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: usize| arguments.get(at).map_or(usual, |text| text.parse().unwrap());
    let (services, days) = (number(0, 200), number(1, 10));
    let folder = tempfile::tempdir().unwrap();
    let database = arguments.get(2).map_or_else(|| folder.path().join("heaptrial.db"), PathBuf::from);
    if !database.exists() {
        let field =
            Field { services, age_us: days as i64 * DAY, every_us: MINUTE, looks: true, ..Field::default() };
        drop(field.write(&database));
    }
    let bytes = std::fs::metadata(&database).unwrap().len();
    println!("{services} services, {days} days, database {} MiB", bytes >> 20);
    println!("before: {}", memory());
    let server = Server::of(&database);
    for path in ["/", "/trial/five-way", "/service/tor@relay02.service", "/host", "/healthz"] {
        let begun = Instant::now();
        server.get_computed(path);
        let first = begun.elapsed();
        let begun = Instant::now();
        let answer = server.get(path);
        let (again, bytes) = (begun.elapsed(), answer.body.len());
        println!("{path}: first {first:.0?}, again {again:.0?}, {} KiB; {}", bytes >> 10, memory());
    }
}

/// Resident memory of this process now, and at most.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let lines = status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", ")
}
