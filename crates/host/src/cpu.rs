//! How busy the processors are.

use std::fs;

use crate::{HostError, HostRoot};

/// Time of all processors since boot, in clock ticks (`/proc/stat`, proc_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuUsage {
    busy: u64,
    total: u64,
}

impl CpuUsage {
    pub fn read(root: &HostRoot) -> Result<Self, HostError> {
        let path = root.path("/proc/stat");
        let text = fs::read_to_string(&path).map_err(HostError::read(&path))?;
        let first = text.lines().next().unwrap_or("");
        let ticks: Option<Vec<u64>> = first
            .strip_prefix("cpu ")
            .map(|rest| rest.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect());
        match ticks {
            // user nice system idle iowait irq softirq steal; guest time is part of user time.
            Some(ticks) if ticks.len() >= 8 => {
                let total: u64 = ticks[..8].iter().sum();
                Ok(Self { busy: total - ticks[3] - ticks[4], total })
            }
            _ => Err(HostError::Parse {
                path,
                expected: "`cpu` and at least 8 counters",
                found: first.to_owned(),
            }),
        }
    }

    /// The share of all processors' time that was spent working since `before`: 0 to 1. Time that a
    /// hypervisor took counts as working, since it was not to be had.
    pub fn busy_share_since(&self, before: &Self) -> Option<f64> {
        let total = self.total.checked_sub(before.total)?;
        (total > 0).then(|| self.busy.saturating_sub(before.busy) as f64 / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn idle_and_waiting_are_not_busy() {
        let (dir, root) = fixture::host(&[]);
        let read = |line: &str| {
            fixture::write(dir.path(), "proc/stat", &format!("{line}\ncpu0 1\n"));
            CpuUsage::read(&root)
        };
        let before = read("cpu  100 0 100 1000 50 0 0 0 0 0").unwrap();
        let after = read("cpu  160 0 110 1020 60 0 0 0 0 0").unwrap();
        assert_eq!(after.busy_share_since(&before), Some(0.7));
        assert_eq!(after.busy_share_since(&after), None);
        assert!(read("intr 5").is_err());
    }
}
