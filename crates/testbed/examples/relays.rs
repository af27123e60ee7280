//! How long real relays take in one container, and what they need: `relays [COUNT [ENTRIES [INTERVAL_SECONDS]]]`.

use std::time::{Duration, Instant};

use heaptrial_testbed::{Container, Options, PrivateDirectory, Testbed, TorInstances, example_program};

const LIMIT: Duration = Duration::from_secs(600);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let count = numbers.next().transpose()?.unwrap_or(30);
    let entries = numbers.next().transpose()?.unwrap_or(200);
    let interval_seconds = numbers.next().transpose()?.unwrap_or(30).try_into()?;
    let base = Testbed::prepare()?;
    let mut started = Instant::now();
    let mut told = |what: &str| {
        println!("{what}: {:.1} s", started.elapsed().as_secs_f64());
        started = Instant::now();
    };
    let host = Container::boot(&base, Options::new())?;
    told("booted");
    let program = example_program("private_directory")?;
    let directory = PrivateDirectory { entries, interval_seconds, ..PrivateDirectory::new(program) };
    let torrc = host.install_private_directory(&directory)?;
    told("directory serves");
    let instances = TorInstances::new(count, torrc);
    let units = host.install_tor_instances(&instances)?;
    told("instances installed");
    host.start(&units)?;
    told("instances started");
    host.wait_for_bootstrap(&instances.names, LIMIT)?;
    told("all bootstrapped to 100%");
    let mut rss_bytes: Vec<u64> = Vec::new();
    for unit in &units {
        let pid = host.try_ok(&["systemctl", "show", "--property=MainPID", "--value", unit])?;
        let status = host.read_text(format!("/proc/{}/status", pid.trim()))?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        rss_bytes.push(kib.ok_or("a relay has no VmRSS")?.parse::<u64>()? << 10);
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let total: u64 = rss_bytes.iter().sum();
    let mean = mib(total) / rss_bytes.len() as f64;
    println!("RSS of {} relays: {:.0} MiB, {mean:.0} MiB each", rss_bytes.len(), mib(total));
    host.remove()?;
    told("removed");
    Ok(())
}
