//! Whether the host has memory for the worst arm.

use std::fs;

use heaptrial_host::HostRoot;
use heaptrial_model::ServiceName;
use heaptrial_model::units::memory;

use crate::preflight::finding::{Check, Finding, Severity};

/// What a service could come to need.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    pub service: ServiceName,
    /// Resident memory of all its processes now, in bytes.
    pub rss_bytes: u64,
    /// How many times as much it could need.
    pub factor: f64,
}

/// Compares what services could come to need with what the host has available: more than `MemAvailable` is a warning,
/// more than that and free swap together is refused. `None` when it is enough, or cannot be told.
pub fn head_room(root: &HostRoot, needs: &[Need]) -> Option<Finding> {
    let text = fs::read_to_string(root.path("/proc/meminfo")).ok()?;
    let available = meminfo_bytes(&text, "MemAvailable:")?;
    let swap = meminfo_bytes(&text, "SwapFree:").unwrap_or(0);
    let more: f64 = needs.iter().map(|need| need.rss_bytes as f64 * (need.factor - 1.0).max(0.0)).sum();
    if more <= available as f64 {
        return None;
    }
    let present: u64 = needs.iter().map(|need| need.rss_bytes).sum();
    let refuse = more > (available + swap) as f64;
    Some(Finding {
        check: Check::HeadRoom,
        severity: if refuse { Severity::Refuse } else { Severity::Warn },
        what: format!(
            "{} services use {} and could come to need {} more; {} are available, and {} of swap are free",
            needs.len(),
            memory(present as f64),
            memory(more),
            memory(available as f64),
            memory(swap as f64),
        ),
        why: "when memory runs out the kernel kills services, of any arm, and a host that swaps measures its swap".to_owned(),
        fix: "put fewer services into the trial, give units a MemoryMax=, or leave out the arm that needs most".to_owned(),
        unit: None,
    })
}

/// A line of `/proc/meminfo` in bytes.
pub(crate) fn meminfo_bytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(factor: f64) -> Option<Finding> {
        let folder = tempfile::tempdir().unwrap();
        let root = HostRoot::at(folder.path());
        fs::create_dir_all(root.path("/proc")).unwrap();
        let text = "MemTotal: 8388608 kB\nMemAvailable:    2097152 kB\nSwapFree:  1048576 kB\n";
        fs::write(root.path("/proc/meminfo"), text).unwrap();
        let need = |name: &str| Need { service: name.parse().unwrap(), rss_bytes: 1 << 30, factor };
        head_room(&root, &[need("a.service"), need("b.service")])
    }

    #[test]
    fn what_fits_is_fine_what_needs_swap_warns_and_what_fits_nowhere_is_refused() {
        assert_eq!(found(2.0), None);
        assert_eq!(found(2.4).unwrap().severity, Severity::Warn);
        let refused = found(3.0).unwrap();
        assert_eq!(refused.severity, Severity::Refuse);
        assert!(
            refused.what.contains("2 services use 2.00 GiB and could come to need 4.00 GiB more"),
            "{}",
            refused.what
        );
        assert_eq!(found(0.5), None);
    }
}
