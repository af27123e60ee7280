//! Samples of a service: its whole process tree, and the expensive readings under a budget.

use std::path::PathBuf;
use std::time::{Duration, Instant as Stopwatch};

use heaptrial_model::{Sample, SlowSample};

use crate::unit_cgroup::{UnitCgroup, processes_below};
use crate::{
    AnonymousMemory, Cgroup, CgroupReader, HostError, HostRoot, ProcessReader, ProcessTree, ServiceProcesses,
};

/// Reads all processes of one service, keeping their files open between ticks.
#[derive(Debug)]
pub struct ServiceSampler {
    root: HostRoot,
    processes: ServiceProcesses,
    readers: Vec<ProcessReader>,
    unopened: Vec<i32>,
    listed_in: Option<PathBuf>,
    cgroup: Option<CgroupReader>,
    family: usize,
    outside: Option<(i32, String)>,
    hugetlb_bytes: u64,
}

/// A process of a service, as it was sampled last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Member {
    pub pid: i32,
    pub rss_bytes: u64,
    /// Another one for another process of the same id, and for another program of the same process.
    pub image: (u64, u64),
    pub age_seconds: f64,
}

/// What taking one tick's samples cost the sampler itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TickCost {
    pub wall_us: u64,
    pub cpu_us: u64,
}

impl TickCost {
    /// Runs `work`; with its result, what it cost this thread.
    pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Self) {
        let cpu_us = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            (time.tv_sec * 1_000_000 + time.tv_nsec / 1_000) as u64
        };
        let (started, cpu_before) = (Stopwatch::now(), cpu_us());
        let result = work();
        let cost = Self { wall_us: started.elapsed().as_micros() as u64, cpu_us: cpu_us() - cpu_before };
        (result, cost)
    }
}

impl ServiceSampler {
    /// A sampler of everything below `main_pid`. The cgroup of that is sampled only when it is not the one that Heaptrial itself runs
    /// in, whose figures would not be the service's.
    pub fn open(root: &HostRoot, main_pid: i32) -> Result<Self, HostError> {
        let own = Cgroup::of(root, std::process::id() as i32).ok().flatten();
        let group = Cgroup::of(root, main_pid)?.filter(|group| Some(group) != own.as_ref());
        Self::of(root, ServiceProcesses::below(main_pid), group)
    }

    /// A sampler of the unit whose main process is `main_pid` and whose control group systemd gives as `control_group`. Its processes
    /// are those of that group and below it, and it is sampled only where it is the unit's own.
    pub fn of_unit(root: &HostRoot, main_pid: i32, control_group: &str) -> Result<Self, HostError> {
        let group = UnitCgroup::of(root, control_group, main_pid)?;
        let sampler = Self::of(root, ServiceProcesses::below(main_pid), group.memory)?;
        Ok(Self { listed_in: group.processes, ..sampler })
    }

    /// As [`Self::open`], of a service by its processes, with the group that was made for them, wherever they went since.
    pub fn of(
        root: &HostRoot,
        processes: ServiceProcesses,
        group: Option<Cgroup>,
    ) -> Result<Self, HostError> {
        let main = ProcessReader::open(root, processes.main())?;
        let cgroup = match group.as_ref().map(CgroupReader::open) {
            // The host does not account for its memory, or does not show it.
            Some(Err(error)) if error.is_absent() => None,
            opened => opened.transpose()?,
        };
        let (root, readers, unopened) = (root.clone(), vec![main], Vec::new());
        let (listed_in, outside, hugetlb_bytes) = (None, None, 0);
        Ok(Self { root, processes, readers, unopened, listed_in, cgroup, family: 1, outside, hugetlb_bytes })
    }

    /// Whether processes may have come or gone since this was asked last: where there is a group of its own, whether its list of
    /// processes is another one.
    pub fn may_have_moved(&mut self) -> bool {
        self.cgroup.as_mut().is_none_or(CgroupReader::processes_changed)
    }

    /// Follows processes that came and went, by the list of the unit's control group. Whether there is one and the main process is
    /// in it; where not, [`Self::follow`] is the way.
    pub fn follow_unit(&mut self) -> Result<bool, HostError> {
        let Some(dir) = &self.listed_in else { return Ok(false) };
        let mut family = match processes_below(dir) {
            Ok(family) => family,
            // It is removed when its last process has ended.
            Err(error) if error.is_absent() => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some(main) = family.iter().position(|pid| *pid == self.processes.main()) else {
            return Ok(false);
        };
        family.swap(0, main);
        self.follow_these(&family);
        Ok(true)
    }

    /// Follows processes that came and went since the last call.
    pub fn follow(&mut self, tree: &ProcessTree) {
        self.follow_these(&self.processes.running(tree));
    }

    fn follow_these(&mut self, family: &[i32]) {
        self.family = family.len();
        if self.outside.is_none() && self.listed_in.is_none() {
            self.outside = family.iter().find_map(|pid| self.outside_of_the_group(*pid));
        }
        let main = self.processes.main();
        self.readers.retain(|reader| reader.pid() == main || family.contains(&reader.pid()));
        let known = |pid: &i32| self.readers.iter().any(|reader| reader.pid() == *pid);
        self.unopened = family.iter().copied().filter(|pid| !known(pid)).collect();
        // What fails is tried again with each sample, and reported there.
        let _ = self.open_new();
    }

    /// Opens the processes that came. One that ended since is none of the family any more.
    fn open_new(&mut self) -> Result<(), HostError> {
        while let Some(pid) = self.unopened.last() {
            match ProcessReader::open(&self.root, *pid) {
                Ok(reader) => self.readers.push(reader),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
            self.unopened.pop();
        }
        Ok(())
    }

    /// A process of the family that is not in its main process's control group, and the group it is in.
    fn outside_of_the_group(&self, pid: i32) -> Option<(i32, String)> {
        let own = self.cgroup.as_ref()?.cgroup();
        let its = Cgroup::of(&self.root, pid).ok().flatten()?;
        (!its.is_within(own)).then(|| (pid, its.dir().display().to_string()))
    }

    /// Processes of the family as of the last look at it.
    pub fn family(&self) -> usize {
        self.family
    }

    /// A process of the family that was seen in another control group than the service's, which has nothing of it; with the group
    /// that it was in.
    pub fn outside(&self) -> Option<&(i32, String)> {
        self.outside.as_ref()
    }

    /// One sample: the sum over the family. An error when the main process itself has ended, and when a process of it that is there
    /// cannot be read: the sum would be without it.
    pub fn read(&mut self) -> Result<Sample, HostError> {
        self.open_new()?;
        let mut total = Sample::default();
        let main_pid = self.processes.main();
        let mut unread = None;
        let mut hugetlb_bytes = 0;
        self.readers.retain_mut(|reader| match reader.read() {
            // Its memory is given back before it has ended.
            Ok(reading)
                if reader.pid() == main_pid && reading.sample.vsize_bytes + reading.sample.rss_bytes == 0 =>
            {
                unread = Some(HostError::Gone { pid: main_pid });
                true
            }
            Ok(reading) if !reading.zombie => {
                total.add(&reading.sample);
                hugetlb_bytes += reading.hugetlb_bytes;
                true
            }
            // Its CPU time and page faults are its parent's only when that has waited for it.
            Ok(reading) => {
                total.cpu_us += reading.sample.cpu_us;
                total.minor_faults += reading.sample.minor_faults;
                total.major_faults += reading.sample.major_faults;
                true
            }
            Err(error) if reader.pid() == main_pid || !error.is_gone() => {
                unread.get_or_insert(error);
                true
            }
            Err(_) => false,
        });
        if let Some(error) = unread {
            return Err(error);
        }
        self.hugetlb_bytes = hugetlb_bytes;
        if let Some(cgroup) = &self.cgroup {
            total.cgroup_current_bytes = cgroup.current_bytes();
            total.cgroup_peak_bytes = cgroup.peak_bytes();
        }
        Ok(total)
    }

    /// The processes that run, as of the last sample.
    pub fn members(&self) -> impl Iterator<Item = Member> {
        let now = crate::Instant::now();
        let running = self.readers.iter().filter(|reader| !reader.last().zombie);
        running.map(move |reader| {
            let last = reader.last();
            Member {
                pid: reader.pid(),
                rss_bytes: last.sample.rss_bytes,
                image: (last.start_ticks, last.stack),
                age_seconds: now.age_seconds(last.start_ticks),
            }
        })
    }

    /// Huge pages of hugetlb as of the last sample, which has them in its anonymous memory and RSS. The
    /// kernel has them in neither, nor in a group's memory. One that several processes map counts for each of them.
    pub fn hugetlb_bytes(&self) -> u64 {
        self.hugetlb_bytes
    }

    /// The control group that is sampled, if there is one.
    pub fn cgroup(&self) -> Option<&CgroupReader> {
        self.cgroup.as_ref()
    }

    /// Anonymous memory of everything in the control group that is sampled, with huge pages of the last sample; `None` without one.
    pub fn anonymous_of_cgroup(&mut self) -> Option<Result<AnonymousMemory, HostError>> {
        let mut anonymous = self.cgroup.as_mut()?.anonymous();
        if let Ok(of_group) = &mut anonymous {
            of_group.resident_bytes += self.hugetlb_bytes;
        }
        Some(anonymous)
    }

    /// The expensive reading of the whole family, with what it cost.
    pub fn read_slow(&mut self) -> Result<SlowSample, HostError> {
        let started = Stopwatch::now();
        let mut total = SlowSample::default();
        for reader in &mut self.readers {
            match reader.read_slow() {
                Ok(slow) => {
                    total.pss_bytes += slow.pss_bytes;
                    total.private_dirty_bytes += slow.private_dirty_bytes;
                    total.lazyfree_bytes += slow.lazyfree_bytes;
                    total.anon_huge_bytes += slow.anon_huge_bytes;
                }
                Err(error) if error.is_gone() && reader.pid() != self.processes.main() => {}
                Err(error) => return Err(error),
            }
        }
        total.cost_us = started.elapsed().as_micros() as u64;
        Ok(total)
    }
}

/// Decides when the next expensive reading may be taken, so that such readings take at most a given
/// share of the time.
#[derive(Debug)]
pub struct SlowBudget {
    share: f64,
    least_gap: Duration,
    allowed_at: Duration,
}

impl SlowBudget {
    /// At most `share` of the elapsed time (0.001 is a thousandth), and never more often than `least_gap`.
    pub fn new(share: f64, least_gap: Duration) -> Self {
        Self { share, least_gap, allowed_at: Duration::ZERO }
    }

    /// Whether a reading may be taken at `elapsed` since the start.
    pub fn allows(&self, elapsed: Duration) -> bool {
        elapsed >= self.allowed_at
    }

    /// Accounts for a reading that was taken at `elapsed` and cost `cost`.
    pub fn spent(&mut self, elapsed: Duration, cost: Duration) {
        let pause = Duration::from_secs_f64((cost.as_secs_f64() / self.share).clamp(0.0, 86_400.0));
        self.allowed_at = elapsed + pause.max(self.least_gap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{host, process};

    #[test]
    fn processes_of_a_unit_are_those_of_its_control_group() {
        let (folder, root) = host(&[
            ("proc/10/cgroup", "0::/system.slice/a.service/main\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
            ("sys/fs/cgroup/system.slice/a.service/cgroup.procs", "12\n"),
            ("sys/fs/cgroup/system.slice/a.service/main/cgroup.procs", "11\n10\n"),
            ("sys/fs/cgroup/system.slice/a.service/memory.stat", "anon 4096\n"),
            ("sys/fs/cgroup/system.slice/a.service/memory.current", "700000\n"),
            ("sys/fs/cgroup/system.slice/a.service/cpu.stat", "usage_usec 5\n"),
            ("sys/fs/cgroup/system.slice/a.service/main/memory.current", "5\n"),
        ]);
        // A worker below the main process, a helper whose parent has ended, and a session that was moved elsewhere.
        for (pid, parent, kib) in [(10, 1, 8), (11, 10, 4), (12, 1, 200), (13, 10, 64)] {
            process(folder.path(), pid, parent, 'S', kib);
        }
        let cpu_us = |sampler: &ServiceSampler| sampler.cgroup().and_then(CgroupReader::cpu_us);

        let mut sampler = ServiceSampler::of_unit(&root, 10, "/system.slice/a.service").unwrap();
        assert!(sampler.follow_unit().unwrap());
        let sample = sampler.read().unwrap();
        assert_eq!((sample.processes, sample.rss_bytes), (3, 212 << 10));
        assert_eq!((sample.cgroup_current_bytes, cpu_us(&sampler)), (Some(700_000), Some(5)));

        // The group of another unit, or of all: the tree, and no figures of the group.
        for path in ["/system.slice/b.service", "/", ""] {
            let mut sampler = ServiceSampler::of_unit(&root, 10, path).unwrap();
            assert!(!sampler.follow_unit().unwrap());
            sampler.follow(&ProcessTree::scan(&root).unwrap());
            let sample = sampler.read().unwrap();
            assert_eq!((sample.processes, sample.rss_bytes), (3, 76 << 10), "{path}");
            assert_eq!((sample.cgroup_current_bytes, cpu_us(&sampler)), (None, None), "{path}");
        }
        // One that systemd removed.
        std::fs::remove_dir_all(root.path("/sys/fs/cgroup/system.slice/a.service")).unwrap();
        assert!(!sampler.follow_unit().unwrap());
    }

    #[test]
    fn a_sample_without_a_process_that_is_there_is_no_sample() {
        let (folder, root) = host(&[]);
        process(folder.path(), 10, 1, 'S', 8);
        let child = || process(folder.path(), 11, 10, 'S', 4);
        child();
        let tree = ProcessTree::scan(&root).unwrap();
        let mut sampler = ServiceSampler::of(&root, ServiceProcesses::below(10), None).unwrap();
        // As with no descriptor left, it cannot be opened.
        let status = folder.path().join("proc/11/status");
        std::fs::remove_file(&status).unwrap();
        std::os::unix::fs::symlink("status", &status).unwrap();
        sampler.follow(&tree);
        for _ in 0..2 {
            let read = sampler.read();
            assert!(matches!(&read, Err(error) if !error.is_gone()), "{read:?}");
        }
        std::fs::remove_file(&status).unwrap();
        child();
        assert_eq!(sampler.read().unwrap().rss_bytes, 12 << 10);
        // It was open, and cannot be read any more.
        std::fs::write(&status, "nothing").unwrap();
        let read = sampler.read();
        assert!(matches!(&read, Err(error) if !error.is_gone()), "{read:?}");
        child();
        assert_eq!(sampler.read().unwrap().rss_bytes, 12 << 10);
        // One without memory is on its way out.
        std::fs::write(folder.path().join("proc/10/status"), "Name:\tx\n").unwrap();
        assert!(sampler.read().unwrap_err().is_gone());
    }
}
