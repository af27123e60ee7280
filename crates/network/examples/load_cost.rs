//! What load costs the generator beside its relays: CPU time of both, and the generator's memory.
//!
//! `cargo run --release -p heaptrial-network --example load_cost -- CONNECTIONS NTOR_RATE CELLS RELAYS SECONDS ENTRIES`

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use heaptrial_network::{
    Authority, AuthorityKeys, DirectoryParameters, LoadDriver, LoadParameters, LoadPlan, RelayInstance,
    RelayParameters, Traffic, TrafficParameters,
};

struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU seconds and resident MiB of a process.
fn usage(pid: u32) -> (f64, f64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a living process");
    let fields: Vec<f64> = stat[stat.rfind(')').expect("a name") + 1..]
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0.0))
        .collect();
    ((fields[11] + fields[12]) / 100.0, fields[21] * 4096.0 / 1048576.0)
}

fn main() {
    let arguments: Vec<f64> = std::env::args()
        .skip(1)
        .map(|word| word.parse().expect("numbers as in the example's first lines"))
        .collect();
    let &[connections, ntor, cells, relays, seconds, entries] = &arguments[..] else {
        panic!("usage: load_cost CONNECTIONS NTOR_RATE CELLS RELAYS SECONDS ENTRIES");
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let _inside = runtime.enter();
    let folder = std::env::temp_dir().join(format!("load-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let keys = AuthorityKeys::generate(&folder).expect("keys");
    let directory = DirectoryParameters { entries: entries as usize, interval_seconds: 30, seed: 5 };
    let authority = Authority::start(&directory, keys).expect("an authority");
    let parameters = RelayParameters { num_cpus: 16, max_consensus_age_for_diffs_seconds: 50 };
    let mut running = Vec::new();
    let mut addresses = Vec::new();
    for number in 0..relays as usize {
        let relay = RelayInstance::create(
            &folder.join(format!("r{number}")),
            &format!("r{number}"),
            &parameters,
            &authority.torrc_line(),
            &BTreeMap::new(),
        )
        .expect("a relay's folder");
        let child = Command::new(Path::new("tor"))
            .args(relay.arguments())
            .stderr(Stdio::null())
            .spawn()
            .expect("tor");
        running.push(Relay(child));
        let address = loop {
            std::thread::sleep(Duration::from_millis(200));
            let Ok(mut control) = relay.control(Duration::from_secs(5)) else { continue };
            if let (Ok(address), Ok(Some(_))) = (control.or_address(), control.consensus_valid_after()) {
                break address;
            }
        };
        addresses.push(address);
    }
    let all = || {
        let relays: Vec<_> = running.iter().map(|relay| usage(relay.0.id())).collect();
        (usage(std::process::id()), relays)
    };
    let parameters = TrafficParameters {
        connections: connections as u32,
        ntor_per_second: ntor,
        cells_per_circuit: cells,
        circuit_seconds: 60.0,
    };
    let duration = Duration::from_secs_f64(seconds);
    let load = LoadParameters {
        connections_per_second: 5.0,
        hold_seconds: 30.0,
        phases: LoadParameters::cycle(3.0),
    };
    let directory_load = std::env::var_os("NO_DIRECTORY_CLIENTS").is_none();
    let plan = LoadPlan::new(&load, duration * 2, 1);
    let driver = directory_load.then(|| LoadDriver::start(plan, &addresses, &authority).expect("a load"));
    let traffic = Traffic::start(&parameters, 1, &addresses, &authority).expect("traffic");
    let opening = Duration::from_secs_f64(connections / 100.0 + 5.0);
    let begun = all();
    std::thread::sleep(opening);
    let opened = all();
    std::thread::sleep(duration);
    let ended = all();
    for (name, from, to) in [("opening", &begun, &opened), ("steady", &opened, &ended)] {
        let generator = to.0.0 - from.0.0;
        let relays: f64 = to.1.iter().zip(&from.1).map(|(to, from)| to.0 - from.0).sum();
        println!(
            "{name}: generator {generator:.2} s, relays {relays:.2} s, ratio {:.3}; generator {:.0} MiB, relays {:.0?} MiB",
            generator / relays,
            to.0.1,
            to.1.iter().map(|relay| relay.1).collect::<Vec<_>>()
        );
    }
    for totals in traffic.totals() {
        println!("{totals:?}");
    }
    for totals in driver.iter().flat_map(LoadDriver::totals) {
        println!("{totals:?}");
    }
    drop(running);
    let _ = std::fs::remove_dir_all(folder);
}
