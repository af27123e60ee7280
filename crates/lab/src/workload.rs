//! What a lab run starts and what it does to it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heaptrial_host::Process;
use heaptrial_model::{Arm, KnownEvent, TrialKind};
use serde_json::Value;

use crate::{EndRequest, Interrupt, LabError, PreparedArm};

pub(crate) const NO_RESTARTS: &str =
    "restart_every is for trials on a fleet; a lab run does not restart services";

/// Whether the arms of a repeat live at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// One service after the other.
    OneByOne,
    /// All arms at once, or in groups of at most so many, 2 or more.
    Together { at_most: usize },
}

/// What is put under the arms of a lab run.
pub trait Workload {
    /// `lab_command` or `lab_tor`: the kind of trial in the database and in reports.
    fn kind(&self) -> TrialKind;

    /// Its parameters, for the report.
    fn parameters(&self) -> Value;

    fn arrangement(&self) -> Arrangement;

    /// Checks, before anything is started or written, that every arm's treatment can be applied.
    fn check(&self, arms: &[Arm]) -> Result<(), LabError>;

    fn begin(&self, context: &RoundContext<'_>) -> Result<Box<dyn Round>, LabError>;
}

/// What a round needs to begin.
#[derive(Debug)]
pub struct RoundContext<'a> {
    /// Which repeat, counted from 0.
    pub repeat: u32,
    /// A name of its own, for a folder.
    pub name: &'a str,
    /// Seed of everything random in this round: the same for all arms of a repeat.
    pub seed: u64,
    /// The services, in the order of starting.
    pub slots: &'a [Slot],
    pub folder: &'a Path,
    pub logs: &'a Path,
    /// The program whose internal command [`crate::SUPERVISOR_COMMAND`] is the supervisor.
    pub supervisor: &'a Path,
    pub interrupt: &'a Interrupt,
}

/// A service that a round starts.
#[derive(Debug, Clone)]
pub struct Slot {
    pub service: String,
    pub arm: PreparedArm,
}

/// How a service is started, before its arm's allocator is applied.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, as a path.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub environment: BTreeMap<String, String>,
    pub end: EndRequest,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Index of the slot it is about.
    pub slot: Option<usize>,
    pub kind: KnownEvent,
    pub text: String,
}

/// A service at a tick.
#[derive(Debug, Clone, Copy)]
pub struct SlotState<'a> {
    /// Its main process, while it lives.
    pub process: Option<&'a Process>,
    /// Its CPU time since its start, as of the last sample.
    pub cpu: Option<Duration>,
}

/// How far a round is that counts consensuses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Course {
    /// The consensus that relays work off now, counted from 1.
    pub consensus: u64,
    /// How many there will be, where that was asked for.
    pub of: Option<u64>,
    /// Seconds from one to the next, of late; `None` before the second.
    pub seconds_each: Option<f64>,
}

impl Course {
    /// How much faster than life: a relay gets a consensus an hour.
    pub fn times_life(&self) -> Option<f64> {
        self.seconds_each.map(|seconds| 3600.0 / seconds)
    }

    /// How long the rest will take at this pace.
    pub fn left(&self) -> Option<Duration> {
        let left = self.of?.checked_sub(self.consensus)? + 1;
        Some(Duration::from_secs_f64(self.seconds_each? * left as f64))
    }
}

pub trait Round {
    /// How to start the service in `slot`.
    fn launch(&self, slot: usize) -> Launch;

    /// Called before the samples of each tick, after all services were started: gives load; returns what happened.
    fn tick(&mut self, slots: &[SlotState<'_>]) -> Result<Vec<Event>, LabError>;

    /// Called when the samples of a tick are taken and stored.
    fn sampled(&mut self) {}

    /// Whether the work is done, and with it the round.
    fn is_over(&self) -> bool {
        false
    }

    /// How far the work is, where it has an end of its own.
    fn course(&self) -> Option<Course> {
        None
    }

    /// Called before the service in `slot` is started. The error is why it cannot be.
    fn prepare(&mut self, slot: usize) -> Result<(), String> {
        let _ = slot;
        Ok(())
    }

    /// Waits until the service in `slot` can be used, and puts load on it, where that does not happen by ticks. `alive` is
    /// whether it still runs. Returns whether ages count from then on, and not from the start of the service. The error is
    /// why it cannot be used.
    fn ready(&mut self, slot: usize, alive: &dyn Fn() -> bool) -> Result<bool, String> {
        let _ = (slot, alive);
        Ok(false)
    }

    /// What the workload knows of the service in `slot` besides its memory: names and values.
    fn observe(&self, slot: usize) -> Vec<(&'static str, f64)>;

    /// What the service in `slot` did for its users since this was called last: names
    /// of observations ([`heaptrial_model::WorkMeasure::observation`]) and values.
    fn work(&mut self, slot: usize) -> Vec<(String, f64)> {
        let _ = slot;
        Vec::new()
    }

    /// Called before the services are ended: stops the load; returns what the report has to say.
    fn finish(&mut self) -> Vec<Event>;

    /// After the end: measures of work that were asked for, and whether there is a figure of each.
    fn work_read(&self) -> Vec<(String, bool)> {
        Vec::new()
    }
}
