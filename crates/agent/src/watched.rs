//! A service under watch: its main process, and its places in trials.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::time::Duration;

use heaptrial_allocator::Expected;
use heaptrial_host::{Cgroup, HostError, HostRoot, Instant, Member, Process, ProcessTree, ServiceSampler};
use heaptrial_model::{Identity, LifeKey, Sample, ServiceName};

use crate::clock::{TrialStart, start_of};
use crate::examine::{Large, Signature};
use crate::proofs::STARTED_US;

/// A process of this age has executed its program.
const STARTS_WITHIN_S: f64 = 10.0;
/// systemd moves a process that it has forked into the unit's control group within moments.
const MOVED_WITHIN: Duration = Duration::from_secs(1);
/// What was proved of a lifetime is checked again this soon after a start of the agent.
const CHECK_AGAIN_US: i64 = 10_000_000;
/// What a process that holds more than this share of a service's memory runs matters to what the service needs.
const LARGE_SHARE: f64 = 0.1;

/// A service under watch. It has at least one seat.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) name: ServiceName,
    pub(crate) seats: Vec<Seat>,
    pub(crate) main: Option<Main>,
    /// When its main process was missed first, on the boot clock.
    pub(crate) missed_us: i64,
    /// Whether it is recorded that it has no main process.
    pub(crate) is_down: bool,
    /// Whether it is recorded that what runs of it cannot be sampled.
    pub(crate) is_unread: bool,
    /// Whether it was seen to run, or systemd said that it does not: else nothing is known of it.
    pub(crate) known: bool,
    /// Whether it may have earlier lifetimes whose end is not recorded yet.
    pub(crate) unexplained: bool,
    /// Until when ends of its lifetimes are recorded, on the boot clock.
    pub(crate) explained_until_us: Option<i64>,
}

/// The place of a service in a trial.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub(crate) trial_id: i64,
    pub(crate) service_id: i64,
    pub(crate) arm: String,
    pub(crate) trial: String,
    /// Whether it is the trial of kind `host`, which has no treatment.
    pub(crate) of_host: bool,
    pub(crate) expected: Option<Expected>,
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
    pub(crate) sampler: ServiceSampler,
    pub(crate) cpu: CpuTime,
    /// OOM kills in its control group that are recorded or older than it.
    oom_kills: u64,
    /// Whether there were further ones at the last tick.
    oom_suspected: bool,
    pub(crate) proof: Proof,
    pub(crate) signature: Option<Signature>,
    /// Variables that systemd started it with, where it could be asked.
    pub(crate) passed: Option<Vec<(String, String)>>,
    pub(crate) next_check_us: i64,
    /// Replaced files that are recorded.
    pub(crate) replaced: BTreeSet<String>,
    pub(crate) last_sample: Option<Sample>,
}

/// How far identifying a main process is.
#[derive(Debug)]
pub(crate) enum Proof {
    /// To be examined from then on.
    Due {
        at_us: i64,
    },
    Asked,
    Done(Box<Identity>),
    Unknown(String),
}

impl Watched {
    pub(crate) fn new(name: ServiceName, now_us: i64) -> Self {
        Self {
            name,
            seats: Vec::new(),
            main: None,
            missed_us: now_us,
            is_down: false,
            is_unread: false,
            known: false,
            unexplained: true,
            explained_until_us: None,
        }
    }

    /// Its main process ended: systemd's journal says how, and systemd whether there is another.
    pub(crate) fn main_ended(&mut self, now_us: i64) {
        self.main = None;
        self.missed_us = now_us;
        self.is_down = false;
        self.unexplained = true;
        self.seats.iter_mut().for_each(|seat| seat.life_id = None);
    }
}

/// CPU time of a life: what its processes had taken when it was met, and what its control group has taken since; without a
/// group, what its processes have taken.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuTime {
    /// Of the group and of the life when it was met.
    met: Option<(u64, u64)>,
    /// Processes that end uncollected take their time out of the sum: it never falls.
    highest: u64,
}

impl CpuTime {
    /// What an earlier agent had read of this life.
    pub(crate) fn was(&mut self, read: u64) {
        self.highest = self.highest.max(read);
        if let Some((_, of_life)) = &mut self.met {
            *of_life = (*of_life).max(read);
        }
    }

    /// What it has taken, in microseconds.
    pub(crate) fn of(&mut self, of_processes: u64, of_group: Option<u64>) -> u64 {
        let mut read = of_processes;
        if let Some(of_group) = of_group {
            let (met, of_life) = *self.met.get_or_insert((of_group, of_processes.max(self.highest)));
            read = of_life + of_group.saturating_sub(met);
        }
        self.highest = self.highest.max(read);
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
        read.as_ref().map_err(|error| {
            HostError::Failed(format!("the processes of this host cannot be listed: {error}"))
        })
    }
}

impl Main {
    /// Opens the process `pid` of a unit with this control group, which may end at any moment. One that is not the unit's yet is as
    /// good as gone: the next look finds it.
    pub(crate) fn open(
        root: &HostRoot,
        pid: i32,
        control_group: &str,
        now: Instant,
    ) -> Result<Self, HostError> {
        let process = Process::new(root, pid);
        let key = process.life_key()?;
        let mut sampler = ServiceSampler::of_unit(root, pid, control_group)?;
        let in_unit = sampler.follow_unit()?;
        // systemd has forked it and not yet moved it into the unit's group, or the number became another process' in between.
        let is_early = !in_unit && !control_group.is_empty() && process.age()? < MOVED_WITHIN;
        if is_early || process.life_key()? != key {
            return Err(HostError::Gone { pid });
        }
        let mut cpu = CpuTime::default();
        // What its group takes from now on counts.
        if in_unit {
            cpu.of(sampler.read()?.cpu_us, sampler.cpu_us_of_cgroup());
        }
        let oom_kills = sampler.cgroup().and_then(Cgroup::oom_kills).unwrap_or(0);
        let started = start_of(&key, now);
        Ok(Self {
            started,
            key,
            sampler,
            cpu,
            oom_kills,
            oom_suspected: false,
            proof: Proof::Due { at_us: started.boottime_us + STARTED_US },
            signature: None,
            passed: None,
            next_check_us: i64::MAX,
            replaced: BTreeSet::new(),
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

    /// When it is to be examined next, on the boot clock.
    pub(crate) fn examine_at_us(&self) -> Option<i64> {
        match &self.proof {
            Proof::Due { at_us } => Some(*at_us),
            Proof::Asked => None,
            Proof::Done(_) | Proof::Unknown(_) => Some(self.next_check_us),
        }
    }

    /// Takes over what an earlier agent proved, which stays so while the same files are mapped.
    pub(crate) fn resume_proof(&mut self, identity: Identity, now_us: i64) {
        if let Proof::Due { .. } = &self.proof {
            self.proof = Proof::Done(Box::new(identity));
            self.next_check_us = now_us + CHECK_AGAIN_US;
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
        let mut sample = self.sampler.read()?;
        sample.cpu_us = self.cpu.of(sample.cpu_us, self.sampler.cpu_us_of_cgroup());
        Ok(sample)
    }

    /// Whether the kernel killed a process of its control group for lack of memory since this was true last. The main process may be
    /// the one, just about to end: only what was there at the tick before is of another process.
    pub(crate) fn survived_oom_kills(&mut self) -> bool {
        // A group that others are in as well counts theirs.
        let kills = self.sampler.cgroup().and_then(Cgroup::oom_kills).unwrap_or(0);
        let is_new = kills > self.oom_kills;
        let was_new = std::mem::replace(&mut self.oom_suspected, is_new);
        if is_new && was_new {
            (self.oom_kills, self.oom_suspected) = (kills, false);
        }
        is_new && was_new
    }
}

#[cfg(test)]
mod tests {
    use super::CpuTime;

    #[test]
    fn time_of_a_group_has_what_nobody_saw() {
        let mut cpu = CpuTime::default();
        // Met late: the group had lives before, and of this one 40 are there.
        assert_eq!(cpu.of(40, Some(1_000)), 40);
        // Children of 500 that began and ended since, with another one of the same time on its way.
        assert_eq!(cpu.of(60, Some(1_500)), 540);
        assert_eq!(cpu.of(90, Some(2_000)), 1_040);
        // Another agent, which learns afterwards what the one before had read.
        let mut cpu = CpuTime::default();
        assert_eq!(cpu.of(90, Some(2_100)), 90);
        cpu.was(1_040);
        assert_eq!(cpu.of(95, Some(2_200)), 1_140);
        // Without a group it is that of the processes.
        let mut cpu = CpuTime::default();
        assert_eq!([50, 20, 60].map(|of_processes| cpu.of(of_processes, None)), [50, 50, 60]);
    }
}
