//! A lab run as it is asked for, and what became of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use heaptrial_allocator::{AsOn, Catalog, Expected, Obtained};
use heaptrial_model::{Arm, Identity, Metric};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Accounting;
use crate::schedule::Schedule;
use crate::supervisor::KeptCgroup;
use crate::workload::Workload;

/// An arm with the allocator that was obtained and verified for it.
#[derive(Debug, Clone)]
pub struct PreparedArm {
    pub arm: Arm,
    /// The allocator it runs under; the host's C library where the treatment names none.
    pub obtained: Obtained,
}

impl PreparedArm {
    /// What a process of its services must run: of an arm that names no allocator, what the program has.
    pub(crate) fn expected(&self, found: &Identity) -> Expected {
        if self.arm.treatment.allocator.is_some() {
            return self.obtained.expected();
        }
        let given = &self.arm.treatment.environment;
        let own = found.settings.iter().filter(|(name, value)| given.get(*name) == Some(*value));
        Expected::as_it_is(own.map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

/// A lab run that is ready to start.
#[derive(Debug)]
pub struct LabPlan {
    pub name: String,
    /// The arms with their allocators; exactly one is the control.
    pub arms: Vec<PreparedArm>,
    pub repeats: u32,
    /// How long each service lives at most. Without it the workload decides when it is done.
    pub duration: Option<Duration>,
    pub tick: Duration,
    pub metric: Metric,
    /// Where the figures of anonymous memory come from.
    pub accounting: Accounting,
    /// Memory and swap that each service may have at most, in bytes. Needs control groups.
    pub memory_limit_bytes: Option<u64>,
    pub seed: u64,
    /// As on how many processors the arms' allocators run; `None` is as on those that are there. The arms were obtained
    /// with what that needs ([`heaptrial_allocator::Catalog::as_on`]).
    pub processors: Option<u32>,
    /// The command that repeats the run.
    pub command: String,
    /// The run's folder, which exists.
    pub folder: PathBuf,
    /// The run's database, which need not exist.
    pub database: PathBuf,
    /// The program whose internal command [`crate::SUPERVISOR_COMMAND`] is the supervisor.
    pub supervisor: PathBuf,
    /// The userland that all of it runs in, in words, where that is not the host's.
    pub userland: Option<String>,
}

/// What became of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// Row id of the trial in the run's database.
    pub trial_id: i64,
    pub interrupted: bool,
    /// Services whose treatment was not proved or that did not live to the end.
    pub failed_services: usize,
    /// Measures of work that were asked for, and whether some service gave a figure of each.
    pub work_read: BTreeMap<String, bool>,
}

impl RunOutcome {
    /// With what became of another part of the run.
    pub fn add(&mut self, part: Self) {
        self.interrupted |= part.interrupted;
        self.failed_services += part.failed_services;
        for (name, read) in part.work_read {
            *self.work_read.entry(name).or_default() |= read;
        }
    }

    /// Measures of work of which no service gave a figure.
    pub fn unread_work(&self) -> Vec<&str> {
        self.work_read.iter().filter(|(_, read)| !**read).map(|(name, _)| name.as_str()).collect()
    }
}

impl LabPlan {
    pub fn schedule(&self, workload: &dyn Workload) -> Schedule {
        let control = self.arms.iter().position(|prepared| prepared.arm.control).unwrap_or(0);
        Schedule::draw(self.arms.len(), control, self.repeats, workload.arrangement(), self.seed)
    }

    /// The control group that each service gets.
    pub(crate) fn cgroup(&self) -> Option<KeptCgroup> {
        let place = match &self.accounting {
            Accounting::Cgroup(place) => Some(place.clone()),
            Accounting::Scope => None,
            Accounting::Processes { .. } => return None,
        };
        Some(KeptCgroup { place, limit_bytes: self.memory_limit_bytes })
    }

    /// How each arm's allocator runs as on the number of processors asked for.
    pub(crate) fn as_on(&self) -> BTreeMap<&str, AsOn> {
        let as_on = |prepared: &'_ PreparedArm| {
            self.processors.map(|number| Catalog::builtin().as_on(&prepared.arm.allocator(), number))
        };
        self.arms.iter().filter_map(|arm| Some((arm.arm.name.as_str(), as_on(arm)?))).collect()
    }

    pub(crate) fn parameters(&self, workload: &dyn Workload) -> Value {
        let mut parameters = workload.parameters();
        // Processors that services see are those that this process may run on.
        let seen = rustix::thread::sched_getaffinity(None).ok().map(|set| set.count());
        let as_on: BTreeMap<&str, String> =
            self.as_on().into_iter().map(|(arm, as_on)| (arm, as_on.how)).collect();
        parameters["processors"] = match self.processors {
            Some(number) => json!({ "seen": seen, "as_on": number, "arms": as_on }),
            None => json!({ "seen": seen }),
        };
        parameters["memory_accounting"] = self.accounting.describe();
        if let Some(bytes) = self.memory_limit_bytes {
            parameters["memory_limit_bytes"] = bytes.into();
        }
        parameters
    }
}
