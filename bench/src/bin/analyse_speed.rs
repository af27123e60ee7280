//! Time and memory of an analysis. Prints a Markdown table for `notebook`.

#[path = "../../../crates/evaluate/tests/analysis/simulation/mod.rs"]
mod simulation;

use std::time::Instant;

use heaptrial_evaluate::analysis::{Settings, analyse};
use simulation::{Arm, Course, Scenario, simulate};

fn main() {
    println!("| fleet | readings | analysis, s | fleet, MB | peak, MB |\n|---|---|---|---|---|");
    measure("200 services, 10 days, every minute", fleet(40, 10.0, 1.0 / 60.0));
    measure("2,500 services, 30 days, every 15 minutes", fleet(500, 30.0, 0.25));
    measure("10,000 services, 30 days, every 15 minutes", fleet(2_000, 30.0, 0.25));
}

/// Five arms.
fn fleet(services: usize, days: f64, every_hours: f64) -> Scenario {
    let arms = [1.0, 0.2, 0.28, 0.44, 1.13].map(|ratio| Arm::new(services, ratio));
    let mut arms = arms.to_vec();
    arms[4] = arms[4].clone().growing(Course::Straight(0.1));
    Scenario { days, every_hours, missing: 0.01, ..Scenario::new(arms) }
}

fn measure(name: &str, scenario: Scenario) {
    let fleet = simulate(&scenario, 1).fleet;
    let lives = || fleet.services.iter().flat_map(|service| &service.lives);
    let readings: usize = lives().map(|life| life.readings.len()).sum();
    let megabytes = lives().map(|life| 8 * life.readings.len()).sum::<usize>() as f64 / 1e6;
    let begin = Instant::now();
    let analysis = analyse(&fleet, &Settings::default());
    let seconds = begin.elapsed().as_secs_f64();
    assert_eq!(analysis.services.len(), fleet.services.len());
    println!("| {name} | {readings} | {seconds:.2} | {megabytes:.0} | {:.0} |", peak_megabytes());
}

/// The highest resident memory of this process so far.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib * 1024.0 / 1e6)
}
