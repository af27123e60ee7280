//! A service under watch: its main process, and its places in trials.

use std::collections::BTreeSet;
use std::time::Duration;

use heaptrial_allocator::Expected;
use heaptrial_host::{
    CgroupReader, HostError, HostRoot, Instant, Member, Process, ProcessTree, ServiceSampler,
};
use heaptrial_model::{Identity, LifeKey, Sample};

use crate::clock::{Moment, start_of};
use crate::examine::Signature;
use crate::proofs::STARTED_US;

/// A process of this age has executed its program.
const STARTS_WITHIN_S: f64 = 10.0;
/// systemd moves a process that it has forked into the unit's control group within moments.
const MOVED_WITHIN: Duration = Duration::from_secs(1);
/// What was proved of a lifetime is checked again this soon after a start of the agent.
const CHECK_AGAIN_US: i64 = 10_000_000;

/// A service under watch. It has at least one seat.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) seats: Vec<Seat>,
    pub(crate) main: Option<Main>,
    pub(crate) missed_us: i64,
    pub(crate) is_down: bool,
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
    pub(crate) begins_after: Option<Moment>,
    pub(crate) earlier: Option<Identity>,
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
    /// OOM kills in its control group that are recorded or older than it.
    oom_kills: u64,
    oom_suspected: bool,
    pub(crate) proof: Proof,
    pub(crate) signature: Option<Signature>,
    pub(crate) passed: Option<Vec<(String, String)>>,
    pub(crate) next_check_us: i64,
    pub(crate) replaced: BTreeSet<String>,
    pub(crate) last_sample: Option<Sample>,
}

#[derive(Debug)]
pub(crate) enum Proof {
    Due { at_us: i64 },
    Asked,
    Done(Box<Identity>),
    Unknown(String),
}

impl Watched {
    /// Its main process ended: systemd's journal says how, and systemd whether there is another.
    pub(crate) fn main_ended(&mut self, now_us: i64) {
        self.main = None;
        self.missed_us = now_us;
        self.is_down = false;
        self.unexplained = true;
        self.seats.iter_mut().for_each(|seat| seat.life_id = None);
    }
}

impl Main {
    /// Opens a process of a unit with this control group. One that is not the unit's yet is as good as gone.
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
        let oom_kills = oom_kills(&sampler);
        let started = start_of(&key, now);
        Ok(Self {
            started,
            key,
            sampler,
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

    pub(crate) fn proved(&self) -> Option<&Identity> {
        match &self.proof {
            Proof::Done(identity) => Some(identity),
            _ => None,
        }
    }

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

    /// The process that holds most of the service's memory, if not the main one, once it has executed its program.
    pub(crate) fn larger(&self) -> Option<Member> {
        let has_begun = |member: &Member| member.pid == self.key.pid || member.age_seconds > STARTS_WITHIN_S;
        let members = self.sampler.members().filter(has_begun);
        members.max_by_key(|member| member.rss_bytes).filter(|member| member.pid != self.key.pid)
    }

    /// One sample of all its processes, or an error. Those of a unit without a control group of its own are found by the tree.
    pub(crate) fn sample(&mut self, root: &HostRoot) -> Result<Sample, HostError> {
        if !self.sampler.follow_unit()? {
            self.sampler.follow(&ProcessTree::scan(root)?);
        }
        let mut sample = self.sampler.read()?;
        // A group has what its ended processes took, too; systemd makes one for each run of a unit.
        if let Some(of_group) = self.sampler.cgroup().and_then(CgroupReader::cpu_us) {
            sample.cpu_us = of_group;
        }
        Ok(sample)
    }

    /// Whether another process of its control group was OOM-killed since this was true last. A kill that is new with this tick may
    /// be the main process's, which is just about to end.
    pub(crate) fn survived_oom_kills(&mut self) -> bool {
        // A group that others are in as well counts theirs.
        let kills = oom_kills(&self.sampler);
        let is_new = kills > self.oom_kills;
        let was_new = std::mem::replace(&mut self.oom_suspected, is_new);
        if is_new && was_new {
            (self.oom_kills, self.oom_suspected) = (kills, false);
        }
        is_new && was_new
    }
}

fn oom_kills(sampler: &ServiceSampler) -> u64 {
    sampler.cgroup().and_then(|reader| reader.cgroup().oom_kills()).unwrap_or(0)
}
