//! Cost of listing services on a host with systemd: a Markdown table. Arguments: patterns.

use std::time::{Duration, Instant};

use heaptrial_host::systemd::Systemd;
use heaptrial_host::{HostRoot, Scope};
use heaptrial_inspect::examine;
use heaptrial_model::ServicePattern;

const ROUNDS: usize = 11;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let patterns: Result<Vec<ServicePattern>, _> =
        std::env::args().skip(1).map(|text| text.parse()).collect();
    let patterns = Some(patterns?).filter(|named| !named.is_empty()).unwrap_or(vec![ServicePattern::all()]);
    let mut times: [Vec<Duration>; 4] = Default::default();
    let mut count = 0;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let systemd = Systemd::connect(Scope::System)?;
        let connected = started.elapsed();
        let units = systemd.services(&patterns)?.units;
        let listed = started.elapsed();
        count = examine(&HostRoot::default(), units).len();
        let all = started.elapsed();
        for (times, time) in times.iter_mut().zip([connected, listed - connected, all - listed, all]) {
            times.push(time);
        }
    }
    println!("{count} services, {ROUNDS} rounds\n\n| part | median | least | most |\n|---|---|---|---|");
    for (part, mut times) in ["connect", "units", "processes", "all"].into_iter().zip(times) {
        times.sort_unstable();
        let (least, most) = (times[0], times[ROUNDS - 1]);
        println!("| {part} | {:.0?} | {least:.0?} | {most:.0?} |", times[ROUNDS / 2]);
    }
    Ok(())
}
