//! What the agent's own process takes.

use heaptrial_host::{HostRoot, ProcessReader};
use rustix::time::{ClockId, clock_gettime};

/// Resident memory; 0 where it cannot be read.
pub(crate) fn rss_bytes(root: &HostRoot) -> u64 {
    let reader = ProcessReader::open(root, std::process::id() as i32);
    reader.and_then(|mut reader| reader.read()).map_or(0, |reading| reading.sample.rss_bytes)
}

/// CPU time of all threads since the start of the process, in microseconds.
pub(crate) fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    (time.tv_sec * 1_000_000 + time.tv_nsec / 1_000) as u64
}
