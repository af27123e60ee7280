//! A service under watch: its main process, and its places in trials.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use heaptrial_allocator::Expected;
use heaptrial_host::{Cgroup, HostError, HostRoot, Instant, Member, Process, ProcessTree, ServiceSampler};
use heaptrial_model::{Identity, LifeKey, Sample, ServiceName};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::clock::{TrialStart, start_of};
use crate::examine::{Large, Signature};

/// A main process that ended is looked for anew this often at first, then at each tick.
pub(crate) const LOOK_EVERY_US: i64 = 200_000;
pub(crate) const LOOK_CLOSELY_US: i64 = 10_000_000;
/// systemd collects an ended process within milliseconds; while it has not, its state tells nothing yet.
pub(crate) const LOOK_AT_ONCE_US: i64 = 20_000;
pub(crate) const VERDICT_PATIENCE_US: i64 = 2_000_000;

/// A process of this age has executed its program.
const STARTS_WITHIN_S: f64 = 10.0;
/// What a process that holds more than this share of a service's memory runs matters to what the service needs.
const LARGE_SHARE: f64 = 0.1;

/// A service under watch. It has at least one seat.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) name: ServiceName,
    pub(crate) seats: Vec<Seat>,
    pub(crate) main: Option<Main>,
    /// A main process whose end systemd has not explained yet.
    pub(crate) ended: Option<Ended>,
    /// When its main process was missed first, on the boot clock.
    pub(crate) missed_us: i64,
    pub(crate) look_at_us: i64,
    pub(crate) told_down: bool,
    /// Whether it was seen to run, or systemd said that it does not: else nothing is known of it.
    pub(crate) known: bool,
    /// Whether it was told that what runs of it cannot be sampled.
    pub(crate) told_unread: bool,
    /// Whether lives that ended while no agent ran were looked for since it has had no main process.
    pub(crate) closed: bool,
    /// NRestarts when the main process was found.
    pub(crate) restarts: u32,
    /// The last run of the unit that restarts it, where its arm has a restart timer.
    pub(crate) restarter_run: Option<String>,
}

/// The place of a service in a trial.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) trial_id: i64,
    pub(crate) service_id: i64,
    pub(crate) arm: String,
    pub(crate) trial: String,
    /// Whether it is the trial of kind `host`, which has no treatment.
    pub(crate) of_host: bool,
    pub(crate) expected: Option<Expected>,
    pub(crate) has_restart_timer: bool,
    /// The start of the trial, until the service has had a life that began after it.
    pub(crate) begins_after: Option<TrialStart>,
    /// What an earlier life of it ran.
    pub(crate) earlier: Option<Identity>,
    /// The row of the present life, once it is written.
    pub(crate) life_id: Option<i64>,
    pub(crate) older_than_trial: bool,
    pub(crate) contamination: Option<String>,
    /// Whether the present life's identity stands in the ledger.
    pub(crate) settled: bool,
}

#[derive(Debug)]
pub(crate) struct Main {
    pub(crate) key: LifeKey,
    pub(crate) started: Instant,
    pub(crate) pidfd: OwnedFd,
    pub(crate) sampler: ServiceSampler,
    pub(crate) cpu: CpuTime,
    pub(crate) cgroup: Option<Cgroup>,
    /// Kills for want of memory in its control group that are told or older than it.
    oom_kills: u64,
    /// Whether there were further ones at the last tick.
    oom_suspected: bool,
    pub(crate) proof: Proof,
    pub(crate) signature: Option<Signature>,
    /// Variables that systemd started it with, where it could be asked.
    pub(crate) passed: Option<Vec<(String, String)>>,
    /// What was found while it may still be starting, until it is found again.
    pub(crate) tentative: Option<Identity>,
    pub(crate) next_check_us: i64,
    /// Files that were told to be replaced, once it is known what earlier agents told.
    pub(crate) told_replaced: Option<BTreeSet<String>>,
    pub(crate) last_sample: Option<Sample>,
}

/// How far identifying a main process is.
#[derive(Debug)]
pub(crate) enum Proof {
    /// To be examined from then on; when it was first tried.
    Due {
        at_us: i64,
        since_us: i64,
    },
    Asked {
        since_us: i64,
    },
    Done(Box<Identity>),
    Unknown(String),
}

/// A main process that is no more.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) key: LifeKey,
    pub(crate) started: Instant,
    pub(crate) at: Instant,
    pub(crate) oom: bool,
}

impl Watched {
    pub(crate) fn new(name: ServiceName, now_us: i64) -> Self {
        Self {
            name,
            seats: Vec::new(),
            main: None,
            ended: None,
            missed_us: now_us,
            look_at_us: now_us,
            told_down: false,
            known: false,
            told_unread: false,
            closed: false,
            restarts: 0,
            restarter_run: None,
        }
    }

    /// The unit that a restart timer of a trial starts.
    pub(crate) fn restarter(&self) -> Option<ServiceName> {
        if !self.seats.iter().any(|seat| seat.has_restart_timer) {
            return None;
        }
        let name = self.name.as_str();
        let stem = name.strip_suffix(".service").unwrap_or(name).replace('@', "\\x40");
        format!("heaptrial-restart-{stem}.service").parse().ok()
    }
}

/// A figure that only rises, from readings that lose what ended: the time of a child that nobody waits for, or whose exact clock its
/// parent's ticks replace. What is lost stays in it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rising {
    lost: u64,
    highest: u64,
}

/// CPU time of a life: of its control group since it was met, after what its processes that were there then had taken. Where there is
/// none, of its processes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuTime {
    /// Of the group and of the life when it was met.
    met: Option<(u64, u64)>,
    told: Rising,
}

impl CpuTime {
    /// What an earlier agent told of this life.
    pub(crate) fn was(&mut self, told: u64) {
        self.told.was(told);
        if let Some((_, of_life)) = &mut self.met {
            *of_life = (*of_life).max(told);
        }
    }

    /// What it has taken, in microseconds.
    pub(crate) fn of(&mut self, of_processes: u64, of_group: Option<u64>) -> u64 {
        let Some(of_group) = of_group else { return self.told.of(of_processes) };
        let (met, of_life) = *self.met.get_or_insert((of_group, of_processes.max(self.told.highest)));
        self.told.of(of_life + of_group.saturating_sub(met))
    }
}

impl Rising {
    /// It was there already, as an earlier agent told.
    pub(crate) fn was(&mut self, told: u64) {
        self.highest = self.highest.max(told);
    }

    pub(crate) fn of(&mut self, read: u64) -> u64 {
        self.lost = self.lost.max(self.highest.saturating_sub(read));
        self.highest = read + self.lost;
        self.highest
    }
}

/// The tree of all processes, read once and only where somebody needs it.
#[derive(Debug)]
pub(crate) struct Tree<'r> {
    root: &'r HostRoot,
    read: OnceCell<Result<ProcessTree, HostError>>,
}

impl<'r> Tree<'r> {
    pub(crate) fn of(root: &'r HostRoot) -> Self {
        Self { root, read: OnceCell::new() }
    }

    fn get(&self) -> Result<&ProcessTree, HostError> {
        let read = self.read.get_or_init(|| ProcessTree::scan(self.root));
        read.as_ref().map_err(|error| HostError::NoTree { why: error.to_string() })
    }
}

/// What tells the end of a process.
pub(crate) fn pidfd_of(pid: Pid) -> Result<OwnedFd, HostError> {
    pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH => HostError::Gone { pid: pid.as_raw_nonzero().get() },
        error => HostError::Refused {
            call: "pidfd_open(2), which tells the end of a process and which Linux has since 5.3",
            source: error.into(),
        },
    })
}

impl Main {
    /// Opens the process `pid` of a unit with this control group, which may end at any moment.
    pub(crate) fn open(
        root: &HostRoot,
        pid: i32,
        control_group: &str,
        now: Instant,
    ) -> Result<Self, HostError> {
        let gone = HostError::Gone { pid };
        let process = Process::new(root, pid);
        let key = process.life_key()?;
        let number = Pid::from_raw(pid).ok_or(HostError::Gone { pid })?;
        let pidfd = pidfd_of(number)?;
        let mut sampler = ServiceSampler::of_unit(root, pid, control_group)?;
        let cgroup = sampler.cgroup().cloned().or_else(|| Cgroup::of(root, pid).ok().flatten());
        // The number may have become another process' in between.
        if process.life_key()? != key {
            return Err(gone);
        }
        let mut cpu = CpuTime::default();
        // What its group takes from now on counts.
        if sampler.follow_unit()? {
            cpu.of(sampler.read()?.cpu_us, sampler.cpu_us_of_cgroup());
        }
        let oom_kills = cgroup.as_ref().and_then(Cgroup::oom_kills).unwrap_or(0);
        Ok(Self {
            started: start_of(&key, now),
            key,
            pidfd,
            sampler,
            cpu,
            cgroup,
            oom_kills,
            oom_suspected: false,
            proof: Proof::Due { at_us: now.boottime_us, since_us: now.boottime_us },
            signature: None,
            passed: None,
            tentative: None,
            next_check_us: i64::MAX,
            told_replaced: None,
            last_sample: None,
        })
    }

    /// What it was proved to run.
    pub(crate) fn proved(&self) -> Option<&Identity> {
        match &self.proof {
            Proof::Done(identity) => Some(identity),
            _ => None,
        }
    }

    /// The processes beside it that hold much of the service's memory, as of the last sample. One that has just begun may still be
    /// about to execute its program.
    pub(crate) fn large(&self) -> Option<Large> {
        let members: Vec<Member> = self.sampler.members().collect();
        let rss_bytes = members.iter().map(|member| member.rss_bytes).sum();
        let much = |member: &Member| {
            member.pid != self.key.pid
                && member.age_seconds > STARTS_WITHIN_S
                && member.rss_bytes as f64 > LARGE_SHARE * rss_bytes as f64
        };
        let members: Vec<Member> = members.into_iter().filter(much).collect();
        (!members.is_empty()).then_some(Large { members, rss_bytes })
    }

    /// One sample of all its processes, or an error. Those of a unit without a control group of its own are found by the tree.
    pub(crate) fn sample(&mut self, tree: &Tree<'_>) -> Result<Sample, HostError> {
        if !self.sampler.follow_unit()? {
            self.sampler.follow(tree.get()?);
        }
        // It was met before systemd had moved it there.
        if let Some(own) = self.sampler.cgroup().filter(|own| Some(*own) != self.cgroup.as_ref()) {
            self.oom_kills = own.oom_kills().unwrap_or(0);
            self.cgroup = Some(own.clone());
        }
        let mut sample = self.sampler.read()?;
        sample.cpu_us = self.cpu.of(sample.cpu_us, self.sampler.cpu_us_of_cgroup());
        Ok(sample)
    }

    /// Whether the kernel killed processes of its control group for want of memory that were not told yet.
    pub(crate) fn has_new_oom_kills(&self) -> bool {
        self.cgroup.as_ref().and_then(Cgroup::oom_kills).is_some_and(|kills| kills > self.oom_kills)
    }

    /// The same at a tick, to be told once. The main process may be the one that was killed and just about to end, so
    /// only what was there at the tick before is of another process.
    pub(crate) fn survived_oom_kills(&mut self) -> bool {
        // A group that others are in as well tells of theirs.
        let is_new = self.sampler.cgroup().is_some() && self.has_new_oom_kills();
        let was_new = std::mem::replace(&mut self.oom_suspected, is_new);
        if is_new && was_new {
            self.oom_kills = self.cgroup.as_ref().and_then(Cgroup::oom_kills).unwrap_or(self.oom_kills);
            self.oom_suspected = false;
        }
        is_new && was_new
    }
}

#[cfg(test)]
mod tests {
    use super::{CpuTime, Rising};

    #[test]
    fn time_of_a_group_has_what_nobody_saw() {
        let mut cpu = CpuTime::default();
        // Met late: the group had lives before, and of this one 40 are there.
        assert_eq!(cpu.of(40, Some(1_000)), 40);
        // Children of 500 that began and ended since, with another one of the same time on its way.
        assert_eq!(cpu.of(60, Some(1_500)), 540);
        assert_eq!(cpu.of(90, Some(2_000)), 1_040);
        // Another agent, which learns afterwards what the one before had told.
        let mut cpu = CpuTime::default();
        assert_eq!(cpu.of(90, Some(2_100)), 90);
        cpu.was(1_040);
        assert_eq!(cpu.of(95, Some(2_200)), 1_140);
        // Without a group it is that of the processes.
        let mut cpu = CpuTime::default();
        assert_eq!([50, 20, 30].map(|of_processes| cpu.of(of_processes, None)), [50, 50, 60]);
    }

    #[test]
    fn time_of_children_that_are_gone_stays() {
        let mut cpu = Rising::default();
        // A child of 300 ends uncollected at 500, and one more of 250.
        let told: Vec<u64> = [100, 500, 200, 260, 510, 270].map(|read| cpu.of(read)).into();
        assert_eq!(told, [100, 500, 500, 560, 810, 810]);
        // Another agent goes on, and finds the one child of 250 gone.
        let mut cpu = Rising::default();
        cpu.was(810);
        let told: Vec<u64> = [20, 30].map(|read| cpu.of(read)).into();
        assert_eq!(told, [810, 820]);
    }
}
