//! A service under watch: its main process, and its places in trials.

use std::os::fd::OwnedFd;

use heaptrial_allocator::Expected;
use heaptrial_host::{Cgroup, HostError, HostRoot, Instant, Process, ServiceSampler};
use heaptrial_model::{Identity, LifeKey, Sample, ServiceName};

use crate::clock::{TrialStart, start_of};
use crate::examine::Signature;

/// A main process that ended is looked for anew this often at first, then at each tick.
pub(crate) const LOOK_EVERY_US: i64 = 200_000;
pub(crate) const LOOK_CLOSELY_US: i64 = 10_000_000;
/// systemd collects an ended process within milliseconds; while it has not, its state tells nothing yet.
pub(crate) const LOOK_AT_ONCE_US: i64 = 20_000;
pub(crate) const VERDICT_PATIENCE_US: i64 = 2_000_000;

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

/// A main process.
#[derive(Debug)]
pub(crate) struct Main {
    pub(crate) key: LifeKey,
    pub(crate) started: Instant,
    pub(crate) pidfd: OwnedFd,
    pub(crate) sampler: ServiceSampler,
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
    pub(crate) told_replaced: bool,
    pub(crate) last_sample: Option<Sample>,
}

/// How far identifying a main process is.
#[derive(Debug)]
pub(crate) enum Proof {
    /// To be examined from then on; when it was first tried.
    Due { at_us: i64, since_us: i64 },
    /// Being examined.
    Asked { since_us: i64 },
    /// Done: what it runs.
    Done(Box<Identity>),
    /// Given up.
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

impl Main {
    /// Opens the process `pid`, which may end at any moment.
    pub(crate) fn open(root: &HostRoot, pid: i32, now: Instant) -> Result<Self, HostError> {
        let gone = HostError::Gone { pid };
        let process = Process::new(root, pid);
        let key = process.life_key()?;
        let number = rustix::process::Pid::from_raw(pid).ok_or(HostError::Gone { pid })?;
        let pidfd = rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty())
            .map_err(|_| HostError::Gone { pid })?;
        let sampler = ServiceSampler::open(root, pid)?;
        let cgroup = Cgroup::of(root, pid).ok().flatten();
        // The number may have become another process' in between.
        if process.life_key()? != key {
            return Err(gone);
        }
        let oom_kills = cgroup.as_ref().and_then(Cgroup::oom_kills).unwrap_or(0);
        Ok(Self {
            started: start_of(&key, now),
            key,
            pidfd,
            sampler,
            cgroup,
            oom_kills,
            oom_suspected: false,
            proof: Proof::Due { at_us: now.boottime_us, since_us: now.boottime_us },
            signature: None,
            passed: None,
            tentative: None,
            next_check_us: i64::MAX,
            told_replaced: false,
            last_sample: None,
        })
    }

    /// Whether the kernel killed processes of its control group for want of memory that were not told yet.
    pub(crate) fn has_new_oom_kills(&self) -> bool {
        self.cgroup.as_ref().and_then(Cgroup::oom_kills).is_some_and(|kills| kills > self.oom_kills)
    }

    /// The same at a tick, to be told once. The main process may be the one that was killed and just about to end, so
    /// only what was there at the tick before is of another process.
    pub(crate) fn survived_oom_kills(&mut self) -> bool {
        let is_new = self.has_new_oom_kills();
        let was_new = std::mem::replace(&mut self.oom_suspected, is_new);
        if is_new && was_new {
            self.oom_kills = self.cgroup.as_ref().and_then(Cgroup::oom_kills).unwrap_or(self.oom_kills);
            self.oom_suspected = false;
        }
        is_new && was_new
    }
}
