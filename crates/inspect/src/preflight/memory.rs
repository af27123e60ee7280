//! Whether the unit's limit and the host have memory for an allocator that needs more.

use std::fs;

use heaptrial_host::HostRoot;
use heaptrial_model::units::{counted, memory};

use crate::Service;
use crate::preflight::finding::{Check, Finding, Findings, Severity};
use crate::preflight::planned::PlannedTreatment;
use crate::preflight::subject::Subject;

/// How many times as much memory a service may come to need: production saw one allocator at twice the memory of glibc. A guess,
/// so that it can warn and not refuse.
const WORST_FACTOR: f64 = 2.0;

pub(crate) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    let (Some(limit), Some(process)) = (subject.unit().memory_max_bytes, &subject.service.process) else {
        return;
    };
    let present = process.sample.rss_bytes as f64;
    if present * WORST_FACTOR > limit as f64 {
        findings.warn(
            Check::MemoryLimit,
            format!("it uses {} of MemoryMax={}", memory(present), memory(limit as f64)),
            "allocators differ by a factor of up to 5 on the same service; an arm that needs more is killed by the kernel, and its figures end there",
            "raise MemoryMax= for the time of the trial, on all arms alike",
        );
    }
}

/// A warning where the host would run out of memory if every service that gets another allocator needed [`WORST_FACTOR`] times
/// as much.
pub(crate) fn of_host(root: &HostRoot, planned: &[(&Service, PlannedTreatment)]) -> Option<Finding> {
    let changes = |treatment: &PlannedTreatment| {
        treatment.preload.as_ref().is_some_and(|preload| !preload.environment().is_empty())
    };
    let changed = planned.iter().filter(|(_, treatment)| changes(treatment));
    let present: Vec<f64> =
        changed.filter_map(|(service, _)| Some(service.process.as_ref()?.sample.rss_bytes as f64)).collect();
    let text = fs::read_to_string(root.path("/proc/meminfo")).ok()?;
    let available = meminfo_bytes(&text, "MemAvailable:")?;
    let swap = meminfo_bytes(&text, "SwapFree:").unwrap_or(0);
    let sum: f64 = present.iter().sum();
    let more = sum * (WORST_FACTOR - 1.0);
    (more > available as f64).then(|| Finding {
        check: Check::HeadRoom,
        severity: Severity::Warn,
        what: format!(
            "{} to get another allocator: {} in use, {} more could be needed; {} are available, and {} of swap are free",
            counted(present.len(), "service"),
            memory(sum),
            memory(more),
            memory(available as f64),
            memory(swap as f64),
        ),
        why: "when memory runs out the kernel kills services, of any arm, and a host that swaps measures its swap".to_owned(),
        fix: "put fewer services into the trial, give units a MemoryMax=, or take the arm out that needs most".to_owned(),
        unit: None,
    })
}

/// A line of `/proc/meminfo` in bytes.
fn meminfo_bytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}
