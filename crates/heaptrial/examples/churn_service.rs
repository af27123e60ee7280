//! A service that allocates and frees, for systemd units of tests.
//!
//! Environment: `LIVE_BYTES` it keeps allocated (default 1 MiB), `ALLOCATIONS_PER_SECOND` (default 400),
//! `START_DELAY_MS` before it reports ready, and faults: `NEVER_READY=1`, `FAIL_AFTER_MS` after which it exits with
//! code 3, `FAIL_WHEN` a file is there, `LEAK_BYTES_PER_SECOND`; with `FAULTS_UNDER` only where `LD_PRELOAD` has that text. Two arguments, if given, replace the first two.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(100);
const FAILED: i32 = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut shape = |name, default| match arguments.next() {
        Some(text) => text.parse().map_err(|_| format!("`{text}` is no number")),
        None => number(name).map(|found| found.unwrap_or(default)),
    };
    let live_bytes = shape("LIVE_BYTES", 1 << 20)?;
    let per_second = shape("ALLOCATIONS_PER_SECOND", 400)?;
    let faulty = has_faults();
    let leak_per_second = number("LEAK_BYTES_PER_SECOND")?.filter(|_| faulty).unwrap_or(0);
    let started = Instant::now();
    let fail_when = std::env::var_os("FAIL_WHEN").filter(|_| faulty).map(PathBuf::from);
    let fail_after = number("FAIL_AFTER_MS")?.filter(|_| faulty).map(Duration::from_millis);

    let mut random = Lcg(u64::from(std::process::id()));
    let mut blocks = Vec::new();
    let mut live = 0;
    while live < live_bytes {
        let block = random.block();
        live += block.len() as u64;
        blocks.push(block);
    }

    std::thread::sleep(Duration::from_millis(number("START_DELAY_MS")?.unwrap_or(0)));
    if !(faulty && number("NEVER_READY")? == Some(1)) {
        notify("READY=1\nSTATUS=allocating")?;
    }
    let mut leaked: Vec<Vec<u8>> = Vec::new();
    let (mut due, mut done, mut leaked_bytes) = (Instant::now(), 0, 0);
    loop {
        if fail_after.is_some_and(|limit| started.elapsed() >= limit)
            || fail_when.as_ref().is_some_and(|file| file.exists())
        {
            std::process::exit(FAILED);
        }
        let seconds = started.elapsed().as_secs_f64();
        while done < (seconds * per_second as f64) as u64 && !blocks.is_empty() {
            let index = random.below(blocks.len());
            blocks[index] = random.block();
            done += 1;
        }
        let leak = (seconds * leak_per_second as f64) as usize;
        if leak > leaked_bytes {
            leaked.push(vec![1; leak - leaked_bytes]);
            leaked_bytes = leak;
        }
        due += TICK;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// Whether faults that are asked for happen.
fn has_faults() -> bool {
    let Ok(wanted) = std::env::var("FAULTS_UNDER") else { return true };
    std::env::var("LD_PRELOAD").is_ok_and(|preload| preload.contains(&wanted))
}

/// A number from the environment.
fn number(name: &str) -> Result<Option<u64>, String> {
    let Ok(text) = std::env::var(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| format!("{name}=`{text}` is no number"))
}

/// Tells systemd, if it asked to be told; see sd_notify(3).
fn notify(message: &str) -> io::Result<()> {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match socket.as_encoded_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}

/// Numbers that are random enough for sizes.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, limit: usize) -> usize {
        // Knuth's constants for 64 bits.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    /// Mostly small, with pages really touched.
    fn block(&mut self) -> Vec<u8> {
        let bytes = 16 + self.below(2_000);
        vec![self.0 as u8 | 1; bytes]
    }
}
