//! What load costs the generator beside its relays: CPU time of both, and the generator's memory.
//!
//! `cargo run --release -p heaptrial-network --example load_cost -- CONNECTIONS NTOR_RATE CELLS RELAYS SECONDS ENTRIES`

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use heaptrial_network::{
    Authority, AuthorityKeys, DirectoryParameters, LoadDriver, LoadParameters, LoadPlan, RelayInstance,
    RelayParameters, Stamps, Traffic, TrafficParameters,
};

/// Time between consensuses, for each of which directory clients come.
const CONSENSUS_EVERY: Duration = Duration::from_secs(30);

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
    let directory = DirectoryParameters {
        entries: entries as usize,
        stamps: Stamps::Regular { interval_seconds: CONSENSUS_EVERY.as_secs() as u32 },
        seed: 5,
    };
    let authority = Authority::start(&directory, keys).expect("an authority");
    let parameters = RelayParameters { num_cpus: 16 };
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
    let load = LoadParameters { clients: 100, arrival_seconds: 10.0, stay_consensuses: 1.0 };
    let directory_load = std::env::var_os("NO_DIRECTORY_CLIENTS").is_none();
    let mut driver = directory_load.then(|| LoadDriver::new(&addresses, &authority).expect("a load"));
    let traffic = Traffic::start(&parameters, 1, &addresses, &authority).expect("traffic");
    let opening = Duration::from_secs_f64(connections / 100.0 + 5.0);
    let mut consensus = 0;
    let mut go_on = |time: Duration| {
        let end = Instant::now() + time;
        while Instant::now() < end {
            consensus += 1;
            driver.iter_mut().for_each(|driver| driver.begin(consensus, LoadPlan::new(&load, consensus, 1)));
            std::thread::sleep(CONSENSUS_EVERY.min(end.saturating_duration_since(Instant::now())));
        }
    };
    let begun = all();
    go_on(opening);
    let opened = all();
    go_on(duration);
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
