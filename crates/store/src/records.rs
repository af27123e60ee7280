//! The rows of the database as types.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::{
    Arm, DrawnPlan, Ending, EventKind, Identity, KnownEvent, LifeKey, LifeStart, MemoryReading, Metric,
    PlanId, Sample, SlowSample, TrialKind,
};
use serde_json::Value;

use crate::part::GATHERED;

/// What is known of a trial before it starts.
#[derive(Debug, Clone)]
pub struct NewTrial {
    pub name: String,
    pub kind: TrialKind,
    pub boot_id: String,
    pub host_facts: Value,
    pub metric: Metric,
    pub seed: u64,
    pub repeats: u32,
    /// Planned length of one life, of a field trial of the whole trial, in microseconds.
    pub planned_us: i64,
    pub arms: Vec<Arm>,
    /// Parameters of the workload, as JSON; of a field trial `plan` holds the plan as drawn.
    pub parameters: Value,
    pub command: String,
    pub tool_version: String,
    pub started_wall_us: i64,
}

#[derive(Debug, Clone)]
pub struct TrialRecord {
    pub id: i64,
    /// What was known before it started. `arms` is in the order given.
    pub plan: NewTrial,
    /// The plan of a trial on services as it was drawn, from its parameters.
    pub drawn: Option<DrawnPlan>,
    pub ended_wall_us: Option<i64>,
    /// `completed`, `interrupted` or `failed`; `None` while it runs or when it was killed.
    pub outcome: Option<String>,
}

impl TrialRecord {
    /// Services of the plan by host.
    pub fn hosts(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        self.drawn.as_ref().map(DrawnPlan::hosts).unwrap_or_default()
    }

    /// The host whose own database has the trial, as it recorded itself; `None` where the plan has no such host.
    pub fn own_host(&self) -> Option<&str> {
        self.plan.parameters["host"].as_str().filter(|host| self.hosts().contains_key(host))
    }

    /// Whether it was gathered from its hosts.
    pub fn is_gathered(&self) -> bool {
        self.plan.parameters[GATHERED] == true
    }

    /// Whether it is of this drawing.
    pub fn is_of(&self, id: &PlanId) -> bool {
        self.drawn.as_ref().is_some_and(|plan| plan.id == *id)
    }
}

#[derive(Debug, Clone)]
pub struct ArmRecord {
    pub id: i64,
    pub arm: Arm,
    /// The build that was prepared for it, as JSON of the allocator crate.
    pub obtained: Option<Value>,
    pub source: Option<String>,
}

#[derive(Debug, Clone)]
pub struct ServiceRecord {
    pub id: i64,
    pub arm_id: i64,
    pub name: String,
    /// Its block: in a lab run the repeat, counted from 0.
    pub block: u32,
    /// When it was started, counted from 0 over the run.
    pub position: u32,
    /// Row ids of further arms into which imported lists put it.
    pub also_in: Vec<i64>,
    pub attributes: Option<Value>,
}

impl ServiceRecord {
    /// Its host, of an import or a gathered trial that has it.
    pub fn host(&self) -> Option<&str> {
        self.attributes.as_ref()?.get(SERVER)?.as_str()
    }

    /// Whether somebody gave it another arm or block than was drawn for it.
    pub fn is_by_hand(&self) -> bool {
        self.attributes.as_ref().is_some_and(|own| own.get(BY_HAND) == Some(&Value::Bool(true)))
    }
}

/// Attribute of a service: that its arm or block is not what was drawn.
pub const BY_HAND: &str = "assigned_by_hand";

/// Attribute of a service: the host that it runs on, where a trial is of several.
pub const SERVER: &str = "server";

/// Attribute of a service: at which age in seconds it was ready, where its figures are by the time since then.
pub const READY_SECONDS: &str = "ready_seconds";

/// A row of the ledger.
#[derive(Debug, Clone)]
pub struct LifeRecord {
    pub id: i64,
    pub service_id: i64,
    /// Which process lifetime it is; `None` in imported data.
    pub key: Option<LifeKey>,
    pub start: LifeStart,
    pub started_wall_us: i64,
    pub started_boottime_us: i64,
    /// The proved identity; `None` where it was never proved.
    pub identity: Option<Identity>,
    /// Why it does not count for its arm, such as an identity that is not the arm's treatment; `None` where it counts.
    pub contamination: Option<String>,
    /// Whether that is no other identity, but a failure in a lab.
    pub failed: bool,
    pub ended_wall_us: Option<i64>,
    pub ended_boottime_us: Option<i64>,
    pub ending: Option<Ending>,
}

impl LifeRecord {
    /// Whether its samples may stand for its arm: the treatment was proved, and it lived as long as
    /// it was meant to (or the whole run was cut short, which is no fault of the arm).
    pub fn counts(&self) -> bool {
        let cut_short =
            matches!(self.ending, Some(Ending::Exited(_) | Ending::Signaled(_) | Ending::ForkedAway));
        self.identity.is_some() && self.contamination.is_none() && !cut_short
    }
}

/// Everything of one tick, written in one transaction.
#[derive(Debug, Clone, Default)]
pub struct TickInput {
    pub sequence: i64,
    pub wall_us: i64,
    pub boottime_us: i64,
    pub cost_wall_us: u64,
    pub cost_cpu_us: u64,
    pub samples: Vec<(i64, Sample)>,
    pub slow_samples: Vec<(i64, SlowSample)>,
    /// Observations of the workload: row id of the life, name, value.
    pub observations: Vec<(i64, &'static str, f64)>,
    /// Work by row id of the life: what a load or a service reported, under names of its own.
    pub work: Vec<(i64, String, f64)>,
    /// Row id of the boot that `boottime_us` is of; `None` is that of the trial's start.
    pub host_id: Option<i64>,
    /// What the tick shows of the time since the one before, about the whole trial: kind and text.
    pub events: Vec<(KnownEvent, String)>,
}

/// A service of a trial that begins.
#[derive(Debug, Clone)]
pub struct NewService {
    pub name: String,
    pub arm: usize,
    pub block: u32,
    /// When it is restarted, counted from 0 over the trial.
    pub position: u32,
    /// What else is known of it, as a JSON object, or null.
    pub attributes: Value,
}

/// An analysis of a running trial at a time fixed in advance.
#[derive(Debug, Clone, PartialEq)]
pub struct LookRecord {
    pub number: u32,
    /// When it was planned, in microseconds since the trial's start.
    pub planned_us: i64,
    pub taken_wall_us: i64,
    pub alpha: f64,
    pub outcome: Value,
}

/// The newest life of a service with its last sample; `None` where the life has none yet.
#[derive(Debug, Clone, PartialEq)]
pub struct LatestSample {
    pub service_id: i64,
    pub life_id: i64,
    /// When it was taken, in microseconds since 1970; without a sample the start of the life.
    pub wall_us: i64,
    /// When it was taken, in microseconds since boot; without a sample the start of the life.
    pub boottime_us: i64,
    /// Which boot that is; `None` in imported data.
    pub boot_id: Option<String>,
    pub started_wall_us: i64,
    pub start: LifeStart,
    pub age_seconds: f64,
    pub rss_bytes: Option<u64>,
    pub anon_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    pub cgroup_current_bytes: Option<u64>,
    pub contamination: Option<String>,
    pub failed: bool,
    /// Family and version of the allocator; `None` where it is not proved.
    pub identity: Option<String>,
    pub ending: Option<Ending>,
}

impl LatestSample {
    /// What a metric compares, as far as it can be read at any moment ([`Metric::at_once`]).
    pub fn level(&self, metric: Metric) -> Option<u64> {
        let memory = MemoryReading {
            rss_bytes: self.rss_bytes,
            anon_bytes: self.anon_bytes,
            swap_bytes: self.swap_bytes,
            cgroup_current_bytes: self.cgroup_current_bytes,
        };
        memory.level(metric.at_once())
    }
}

/// What a life had taken of the host by an age.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpentPoint {
    pub age_seconds: f64,
    pub cpu_seconds: f64,
    pub page_faults: f64,
}

/// One point of a life's series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesPoint {
    pub age_seconds: f64,
    pub metric_bytes: u64,
    pub rss_bytes: u64,
    pub anon_bytes: u64,
    pub cpu_us: u64,
}

/// What the sampler cost over a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TickSummary {
    pub ticks: u64,
    pub samples: u64,
    pub cost_wall_us: u64,
    pub cost_cpu_us: u64,
    pub median_cost_wall_us: u64,
    pub longest_gap_us: u64,
}

impl TickSummary {
    /// That of one host, on average, where several were sampled each by itself.
    pub fn of_one(self, hosts: usize) -> Self {
        let share = |of_all: u64| of_all / hosts.max(1) as u64;
        Self {
            ticks: share(self.ticks),
            cost_wall_us: share(self.cost_wall_us),
            cost_cpu_us: share(self.cost_cpu_us),
            ..self
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    pub service_id: Option<i64>,
    pub arm_id: Option<i64>,
    pub wall_us: i64,
    pub kind: EventKind,
    pub text: String,
    pub host: Option<String>,
}
