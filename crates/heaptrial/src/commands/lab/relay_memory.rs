//! How much memory relays of the lab need, as far as it is known before they run.

use std::collections::BTreeMap;
use std::fmt;

use heaptrial_host::{HostFacts, HostRoot};
use heaptrial_model::{Arm, TrialPlan, units};
use heaptrial_network::RelayParameters;

use crate::exit::Failure;

/// What a relay needs by itself, with so many entries.
const ENTRIES: f64 = 9_500.0;
const OWN_BYTES: f64 = 0.2e9;
/// What its allocator has at the peak for each worker thread that had work: buffers of diffs and of their compression, which
/// hardly depend on the number of entries (notebook/2026-11-28-production-shape.md and 2026-11-28-what-ends-it.md).
const KEPT_BY_GLIBC_BYTES: f64 = 44e6;
const KEPT_BY_SET_GLIBC_BYTES: f64 = 10e6;
/// From 13e6 (mimalloc 2.0.9) to 38e6 (mimalloc 3.6.0), 22e6 in the mean.
const KEPT_BY_OTHERS_BYTES: f64 = 22e6;
/// Settings by which glibc keeps less.
const GLIBC_KEEPS_LESS: [&str; 3] = ["trim_threshold", "mmap_threshold", "arena_max"];
/// Of the machine's memory, what relays may need.
const SHARE: f64 = 0.9;

/// What the relays of a plan may need.
#[derive(Debug)]
pub(super) struct RelayMemory {
    /// By arm, the largest first.
    needed_bytes: Vec<(String, f64)>,
    machine_bytes: u64,
    workers: u32,
}

impl RelayMemory {
    pub(super) fn of(plan: &TrialPlan, entries: u32, relays: &RelayParameters) -> Self {
        let own = OWN_BYTES * f64::from(entries) / ENTRIES;
        let needed = |arm: &Arm| (arm.name.clone(), own + kept_bytes(arm, relays));
        let mut needed_bytes: Vec<_> = plan.arms.iter().map(needed).collect();
        needed_bytes.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let machine_bytes = HostFacts::read(&HostRoot::default()).map_or(0, |facts| facts.ram_bytes);
        Self { needed_bytes, machine_bytes, workers: relays.workers(&BTreeMap::new()) }
    }

    /// How many of them can live at the same time, whichever they are.
    pub(super) fn together(&self) -> Result<usize, Failure> {
        let room = self.machine_bytes as f64 * SHARE;
        let fitting = (1..=self.needed_bytes.len()).rfind(|count| self.largest(*count) <= room).unwrap_or(0);
        match fitting >= self.needed_bytes.len().min(2) {
            true => Ok(fitting.max(2)),
            false => Err(Failure::refused(format!(
                "two relays that live at the same time need up to {} with {} worker threads, and this machine has {}; fewer \
                 --processors need less, and --together 2 runs them all the same",
                units::memory(self.largest(2)),
                self.workers,
                units::memory(self.machine_bytes as f64)
            ))),
        }
    }

    /// What so many of them need, of the largest.
    fn largest(&self, count: usize) -> f64 {
        self.needed_bytes.iter().take(count).map(|(_, bytes)| bytes).sum()
    }
}

impl fmt::Display for RelayMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((arm, most)) = self.needed_bytes.first() else { return Ok(()) };
        write!(
            f,
            "relays with {} worker threads need up to {} (the largest, {arm}, up to {}); this machine has {}",
            self.workers,
            units::memory(self.largest(usize::MAX)),
            units::memory(*most),
            units::memory(self.machine_bytes as f64)
        )
    }
}

fn kept_bytes(arm: &Arm, relays: &RelayParameters) -> f64 {
    let allocator = arm.allocator();
    let keeps_less =
        allocator.settings.iter().any(|setting| GLIBC_KEEPS_LESS.contains(&setting.name.as_str()));
    let kept = match allocator.family.as_str() {
        "glibc" if keeps_less => KEPT_BY_SET_GLIBC_BYTES,
        "glibc" => KEPT_BY_GLIBC_BYTES,
        _ => KEPT_BY_OTHERS_BYTES,
    };
    kept * f64::from(relays.workers(&arm.treatment.torrc))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(machine_bytes: u64, processors: u32) -> RelayMemory {
        let specs = ["glibc", "mimalloc@2.0.9", "glibc?trim_threshold=131072"];
        let specs: Vec<_> = specs.iter().map(|spec| spec.parse().unwrap()).collect();
        let plan = TrialPlan::from_specs("tor", &specs).unwrap();
        RelayMemory { machine_bytes, ..RelayMemory::of(&plan, 9_500, &RelayParameters::on(processors)) }
    }

    #[test]
    fn arms_that_do_not_fit_run_in_groups_and_two_that_do_not_are_refused() {
        assert_eq!(memory(24 << 30, 128).together().unwrap(), 3);
        assert_eq!(memory(10 << 30, 128).together().unwrap(), 2);
        let why = memory(8 << 30, 128).together().unwrap_err().to_string();
        assert!(why.contains("128 worker threads"), "{why}");
        assert_eq!(memory(8 << 30, 16).together().unwrap(), 3);
    }
}
