//! One reading of one service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::word::words;

/// One reading of all processes of a service: sums over the process tree, in bytes.
///
/// Sources: `/proc/PID/status`, `/proc/PID/stat` (proc_pid_status(5), proc_pid_stat(5)) and the service's cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Resident set size (`VmRSS`): anonymous, file and shared pages.
    pub rss_bytes: u64,
    pub anon_bytes: u64,
    pub file_bytes: u64,
    pub shmem_bytes: u64,
    /// Anonymous memory in swap (`VmSwap`).
    pub swap_bytes: u64,
    pub vsize_bytes: u64,
    /// Peak resident set size (`VmHWM`), summed over the tree.
    pub hwm_bytes: u64,
    /// Minor page faults since start, with waited-for children.
    pub minor_faults: u64,
    /// Major page faults since start, with waited-for children.
    pub major_faults: u64,
    /// User and system CPU time since start, in microseconds, with waited-for children.
    pub cpu_us: u64,
    pub threads: u32,
    pub processes: u32,
    /// The cgroup's current memory, where the service has a cgroup of its own.
    pub cgroup_current_bytes: Option<u64>,
    /// The cgroup's peak memory, where the kernel reports it.
    pub cgroup_peak_bytes: Option<u64>,
}

impl Sample {
    /// The reading that a metric compares; `None` of proportional memory, which is read apart and seldom, and where
    /// there is no control group.
    pub fn level(&self, metric: Metric) -> Option<u64> {
        let memory = MemoryReading {
            rss_bytes: Some(self.rss_bytes),
            anon_bytes: Some(self.anon_bytes),
            swap_bytes: Some(self.swap_bytes),
            cgroup_current_bytes: self.cgroup_current_bytes,
        };
        memory.level(metric)
    }

    /// Adds another process of the same tree.
    pub fn add(&mut self, other: &Sample) {
        self.rss_bytes += other.rss_bytes;
        self.anon_bytes += other.anon_bytes;
        self.file_bytes += other.file_bytes;
        self.shmem_bytes += other.shmem_bytes;
        self.swap_bytes += other.swap_bytes;
        self.vsize_bytes += other.vsize_bytes;
        self.hwm_bytes += other.hwm_bytes;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.cpu_us += other.cpu_us;
        self.threads += other.threads;
        self.processes += other.processes;
    }
}

/// Memory of a service at one moment, as far as its source reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryReading {
    pub rss_bytes: Option<u64>,
    pub anon_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    /// Memory of the control group.
    pub cgroup_current_bytes: Option<u64>,
}

impl MemoryReading {
    /// What a metric compares; `None` where that is not known, and of proportional memory, which is read apart and seldom.
    pub fn level(&self, metric: Metric) -> Option<u64> {
        match metric {
            Metric::Rss => self.rss_bytes,
            Metric::Anon => Some(self.anon_bytes? + self.swap_bytes?),
            Metric::Cgroup => self.cgroup_current_bytes,
            Metric::Pss => None,
        }
    }
}

/// The expensive part of a reading, from `smaps_rollup`, taken at a slower, budgeted pace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowSample {
    pub pss_bytes: u64,
    pub private_dirty_bytes: u64,
    /// Pages given back with `MADV_FREE` that still count in RSS.
    pub lazyfree_bytes: u64,
    /// Transparent huge pages among the anonymous ones.
    pub anon_huge_bytes: u64,
    /// What reading it cost, in microseconds.
    pub cost_us: u64,
}

/// One reading of the metric that a trial compares, small enough to hold tens of millions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Seconds since the start of its life; exact to a quarter of a second up to 48 days.
    pub age_seconds: f32,
    /// Memory in KiB. The kernel reports VmRSS and its like in KiB.
    pub kib: u32,
}

words! {
    /// Which reading a trial compares.
    #[derive(Default)]
    pub enum Metric: "metric" {
        #[default]
        Rss = "rss",
        /// Resident anonymous memory plus swap: the allocator's part.
        Anon = "anon",
        Pss = "pss",
        /// Current memory of the service's cgroup.
        Cgroup = "cgroup",
    }
}

impl Metric {
    /// What can be read at any moment: itself, or RSS instead of PSS, which is read too rarely and is at most as much.
    pub fn at_once(self) -> Self {
        if self == Self::Pss { Self::Rss } else { self }
    }

    /// What it is, in words for a chart's axis.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Rss => "resident memory (RSS)",
            Self::Anon => "anonymous memory and swap",
            Self::Pss => "proportional memory (PSS)",
            Self::Cgroup => "cgroup memory",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_metric_compares_is_told_or_none() {
        let whole = MemoryReading {
            rss_bytes: Some(600),
            anon_bytes: Some(350),
            swap_bytes: Some(20),
            cgroup_current_bytes: Some(900),
        };
        let of = |memory: &MemoryReading| {
            [Metric::Rss, Metric::Anon, Metric::Pss, Metric::Cgroup].map(|metric| memory.level(metric))
        };
        assert_eq!(of(&whole), [Some(600), Some(370), None, Some(900)]);
        assert_eq!(whole.level(Metric::Pss.at_once()), Some(600));
        // Of unknown swap the sum is not known.
        let part = MemoryReading { swap_bytes: None, cgroup_current_bytes: None, ..whole };
        assert_eq!(of(&part), [Some(600), None, None, None]);
    }
}
