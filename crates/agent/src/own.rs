//! What the agent's own process takes.

use heaptrial_host::{HostRoot, Instant, ProcessReader};
use heaptrial_store::AgentCost;
use rustix::time::{ClockId, clock_gettime};

/// Measures this process from tick to tick.
#[derive(Debug)]
pub(crate) struct OwnCost {
    reader: Option<ProcessReader>,
    before: (i64, u64),
}

impl OwnCost {
    pub(crate) fn begin(root: &HostRoot) -> Self {
        let reader = ProcessReader::open(root, std::process::id() as i32).ok();
        Self { reader, before: (Instant::now().boottime_us, cpu_us()) }
    }

    /// What was taken since the last call.
    pub(crate) fn take(&mut self) -> AgentCost {
        let now = (Instant::now().boottime_us, cpu_us());
        let before = std::mem::replace(&mut self.before, now);
        let reading = self.reader.as_mut().and_then(|reader| reader.read().ok());
        AgentCost {
            elapsed_us: (now.0 - before.0).max(0) as u64,
            cpu_us: now.1.saturating_sub(before.1),
            rss_bytes: reading.map_or(0, |reading| reading.sample.rss_bytes),
        }
    }
}

/// CPU time of all threads since the start of the process, in microseconds.
pub(crate) fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    (time.tv_sec * 1_000_000 + time.tv_nsec / 1_000) as u64
}
