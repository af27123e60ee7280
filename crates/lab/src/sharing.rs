//! Anonymous memory of a service, each page once, beside the sum over its processes.

use std::time::Duration;

use heaptrial_host::{HostError, HostRoot, ProcessTree, TickCost};
use heaptrial_model::{KnownEvent, Metric, Sample, units};

use crate::service::RunningService;
use crate::workload::Event;

/// Observation of a service: `RssAnon` and `VmSwap` of its processes in sum, in bytes. What they share counts in it
/// once for each process; the sample's own figures have each page once.
pub(crate) const SUM_OVER_PROCESSES: &str = "anon_sum_bytes";

/// Proportional figures stall the processes that they are read of: they may take this share of the time.
pub(crate) const SHARE_OF_TIME: f64 = 0.01;
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
    /// The most that was in huge pages of hugetlb, in bytes.
    hugetlb_bytes: u64,
    /// The most that processes had of shared memory, and the most anonymous memory.
    shmem_bytes: u64,
    anon_bytes: u64,
    /// Ticks without a sample, because proportional figures would have cost too much.
    left_out: u64,
}

impl Sharing {
    fn take(&mut self, sum: u64, once: u64) {
        if sum.saturating_sub(once) > self.widest.0.saturating_sub(self.widest.1) {
            self.widest = (sum, once);
        }
    }

    /// What to say of it.
    pub(crate) fn events(&self, slot: usize, metric: Metric, why_no_cgroup: Option<&str>) -> Vec<Event> {
        let event = |kind, text| Event { slot: Some(slot), kind, text };
        let mut events = Vec::new();
        if let (Metric::Cgroup, 1..) = (metric, self.hugetlb_bytes) {
            let huge = units::memory(self.hugetlb_bytes as f64);
            let text = format!(
                "it had up to {huge} in huge pages of hugetlb, which its control group's memory does not have: compare with \
                 --metric anon"
            );
            events.push(event(KnownEvent::Warning, text));
        }
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
        if (sum - once) as f64 > WORTH_TELLING * sum as f64 {
            let (sum, once) = (units::memory(sum as f64), units::memory(once as f64));
            let shared = format!(
                "its processes share memory: RssAnon over all of them was {sum} where each page once is {once}"
            );
            events.push(match metric {
                Metric::Rss => event(
                    KnownEvent::Warning,
                    format!("{shared}; RSS counts what they share once for each: compare with --metric anon"),
                ),
                _ => event(KnownEvent::Note, shared),
            });
        }
        if let (Some(why), 1..) = (why_no_cgroup, self.left_out) {
            events.push(event(
                KnownEvent::Warning,
                format!(
                    "it has several processes, and its figures are not those of a control group ({why}): proportional \
                     ones could be read at some ticks only, {} were left out",
                    self.left_out
                ),
            ));
        }
        events
    }
}

/// A sample with its anonymous memory each page once, and the sum over the processes. `None` where that cannot be told
/// at this tick, so long after the start of the round, at a bearable cost; the last one, of no such time, may cost what it
/// will.
pub(crate) fn read_each_page_once(
    service: &mut RunningService,
    root: &HostRoot,
    elapsed: Option<Duration>,
) -> Result<Option<(Sample, u64)>, HostError> {
    let mut sample = service.sampler.read()?;
    service.peak.take(&sample);
    let sum = sample.anon_bytes + sample.swap_bytes;
    service.sharing.hugetlb_bytes = service.sharing.hugetlb_bytes.max(service.sampler.hugetlb_bytes());
    service.sharing.shmem_bytes = service.sharing.shmem_bytes.max(sample.shmem_bytes);
    service.sharing.anon_bytes = service.sharing.anon_bytes.max(sum);
    service.sharing.several |= sample.processes > 1 || service.sampler.family() > 1;
    let once = match service.sampler.cgroup().filter(|_| service.cgroup.is_some()) {
        Some(_) => service.sampler.anonymous_of_cgroup().transpose()?,
        None if sample.processes <= 1 => None,
        None if elapsed.is_some_and(|elapsed| !service.sharing_budget.allows(elapsed)) => {
            service.sharing.left_out += 1;
            return Ok(None);
        }
        None => {
            // A process of it that is not known would make the others' part of shared pages too small.
            service.sampler.follow(&ProcessTree::scan(root)?);
            // On a busy machine most of the time that passes is that of others.
            let (once, cost) = TickCost::measure(|| service.sampler.read_anonymous());
            if let Some(elapsed) = elapsed {
                service.sharing_budget.spent(elapsed, Duration::from_micros(cost.cpu_us));
            }
            Some(once?)
        }
    };
    if service.cgroup.is_some() {
        // They have those too that ended without anybody of the tree waiting for them.
        (sample.minor_faults, sample.major_faults) =
            service.sampler.faults_of_cgroup().unwrap_or((sample.minor_faults, sample.major_faults));
    }
    let cpu_of_group = service.sampler.cpu_us_of_cgroup().filter(|_| service.cgroup.is_some());
    sample.cpu_us = cpu_of_group.unwrap_or(sample.cpu_us);
    if let Some(once) = once {
        sample.anon_bytes = once.resident_bytes;
        sample.swap_bytes = once.swap_bytes;
        // Of one process a difference is how far behind the kernel's counts of its group are.
        if sample.processes > 1 {
            service.sharing.take(sum, once.resident_bytes + once.swap_bytes);
        }
    }
    Ok(Some((sample, sum)))
}
