//! Anonymous memory of a service that has several processes.
//!
//! A control group has each page once. Without one it is the sum over the processes, which counts pages that they share once for
//! each of them.

use heaptrial_host::HostError;
use heaptrial_model::{KnownEvent, Metric, Sample, units};

use crate::service::RunningService;
use crate::workload::Event;

/// Differences below this share are kernel accounting, not sharing.
const WORTH_TELLING: f64 = 0.05;
/// Shared memory of less than this is not worth telling.
const SHARED_BYTES: u64 = 1 << 20;

/// How far the sum over the processes was from each page once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sharing {
    /// Where they differed most: the sum, and each page once, in bytes.
    widest: (u64, u64),
    /// Whether it ever had several processes.
    pub(crate) several: bool,
    /// The most that processes had of shared memory, and the most anonymous memory.
    shmem_bytes: u64,
    anon_bytes: u64,
}

impl Sharing {
    /// What bears on the service's figures.
    pub(crate) fn events(&self, slot: usize, metric: Metric, why_no_cgroup: Option<&str>) -> Vec<Event> {
        let event = |kind, text| Event { slot: Some(slot), kind, text };
        let mut events = Vec::new();
        if metric == Metric::Anon && self.shmem_bytes >= SHARED_BYTES.max(self.anon_bytes) {
            let text = format!(
                "it had up to {} of shared memory mapped (memfd, tmpfs, MAP_SHARED) and {} of anonymous memory, which is all that \
                 --metric anon compares; --metric rss has both",
                units::memory(self.shmem_bytes as f64),
                units::memory(self.anon_bytes as f64)
            );
            events.push(event(KnownEvent::Note, text));
        }
        let (sum, once) = self.widest;
        if metric == Metric::Rss && (sum - once) as f64 > WORTH_TELLING * sum as f64 {
            let text = format!(
                "its processes share memory (RssAnon over all of them was {}, each page once {}), and RSS counts it once for \
                 each: compare with --metric anon",
                units::memory(sum as f64),
                units::memory(once as f64)
            );
            events.push(event(KnownEvent::Warning, text));
        }
        if let (Some(why), true) = (why_no_cgroup, self.several) {
            let text = format!(
                "its figures are the sum over its processes, in which pages that they share count once for each: they are not \
                 those of a control group ({why})"
            );
            events.push(event(KnownEvent::Warning, text));
        }
        events
    }
}

/// A sample of a service, with anonymous memory, CPU time and faults of its control group where it has one.
pub(crate) fn read(service: &mut RunningService) -> Result<Sample, HostError> {
    let mut sample = service.sampler.read()?;
    let sum = sample.anon_bytes + sample.swap_bytes;
    let sharing = &mut service.sharing;
    sharing.shmem_bytes = sharing.shmem_bytes.max(sample.shmem_bytes);
    sharing.anon_bytes = sharing.anon_bytes.max(sum);
    sharing.several |= sample.processes > 1 || service.sampler.family() > 1;
    if service.cgroup.is_none() {
        return Ok(sample);
    }
    // They have those too that ended without anybody of the tree waiting for them.
    (sample.minor_faults, sample.major_faults) =
        service.sampler.faults_of_cgroup().unwrap_or((sample.minor_faults, sample.major_faults));
    sample.cpu_us = service.sampler.cpu_us_of_cgroup().unwrap_or(sample.cpu_us);
    if service.sampler.cgroup().is_none() {
        return Ok(sample);
    }
    if let Some(once) = service.sampler.anonymous_of_cgroup().transpose()? {
        sample.anon_bytes = once.resident_bytes;
        sample.swap_bytes = once.swap_bytes;
        let once = once.resident_bytes + once.swap_bytes;
        // Of one process a difference is how far behind the kernel's counts of its group are.
        let widest = &mut service.sharing.widest;
        if sample.processes > 1 && sum.saturating_sub(once) > widest.0.saturating_sub(widest.1) {
            *widest = (sum, once);
        }
    }
    Ok(sample)
}
