//! A private Tor directory for real relays on this loopback, for systemd units of tests and demonstrations.
//!
//! Beside synthetic relays it lists those that upload their descriptor: four or more can build circuits with each
//! other. Port and keys stay the same when it is started again, so that relays need no other torrc then.

use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;
use heaptrial_network::{Authority, AuthorityKeys, DirectoryParameters, LoadDriver, LoadParameters, Stamps};

/// What a relay's torrc needs beside the directory's address: it is on loopback, its network is small and its
/// consensuses are minutes old at most. With vanguards the middle of a circuit is one of four relays chosen for
/// days, and so few real ones may be none of them.
const TORRC: &str = "TestingTorNetwork 1
AssumeReachable 1
FetchDirInfoEarly 1
MaxConsensusAgeForDiffs 50 seconds
ShutdownWaitLength 1
VanguardsLiteEnabled 0
";

/// Serves a private Tor directory on loopback until it is ended.
#[derive(Debug, Parser)]
struct Arguments {
    /// Synthetic relays in the directory
    #[arg(long, default_value_t = 500)]
    entries: usize,
    /// Seconds between consensuses, 10 or more
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(10..))]
    interval: u32,
    /// Seed of the synthetic relays and of the load
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Port on loopback
    #[arg(long, default_value_t = 9030)]
    port: u16,
    /// Folder of its keys, which are made if there are none
    #[arg(long)]
    folder: PathBuf,
    /// File for the torrc lines that relays need
    #[arg(long)]
    torrc: PathBuf,
    /// Relays that clients connect to
    #[arg(long, value_name = "ADDRESS:PORT", value_delimiter = ',')]
    load: Vec<SocketAddr>,
    /// Clients per second for each of them
    #[arg(long, default_value_t = 2.0)]
    load_rate: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let _inside = runtime.enter();
    std::fs::create_dir_all(&arguments.folder)?;
    let keys = AuthorityKeys::open(&arguments.folder)?;
    let directory = DirectoryParameters {
        entries: arguments.entries,
        stamps: Stamps::Regular { interval_seconds: arguments.interval },
        seed: arguments.seed,
    };
    let authority = Authority::start(&directory, keys, arguments.port)?;
    std::fs::write(&arguments.torrc, format!("{TORRC}{}\n", authority.torrc_line()))?;
    notify_ready()?;

    let interval = Duration::from_secs(arguments.interval.into());
    let load = LoadParameters {
        clients: (arguments.load_rate * interval.as_secs_f64()) as u32,
        arrival_seconds: interval.as_secs_f64(),
        stay_consensuses: 3.0,
    };
    let mut driver = LoadDriver::new(&arguments.load, &authority)?;
    let mut number = authority.published();
    let mut due = Instant::now();
    loop {
        driver.begin(number, &load, arguments.seed);
        due += interval;
        authority.prepare();
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        authority.publish();
        number += 1;
        if let Some(failure) = authority.failure() {
            return Err(failure.into());
        }
    }
}

/// Tells systemd, if it asked to be told; see sd_notify(3).
fn notify_ready() -> std::io::Result<()> {
    use std::os::unix::net::SocketAddr;
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match socket.as_encoded_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
}
