//! The report as a document: what `report.json` holds and all other forms are made from.

use heaptrial_model::{Ending, Identity, Metric, SlowSample, Treatment};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The form of [`Report`] as JSON that this version writes; described in `docs/report.schema.json`.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything a report says about one trial. A pure function of the rows of the database.
///
/// Memory is in bytes, times are in seconds, CPU time is in CPU seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What was run.
    pub kind: Kind,
    /// The trial's name.
    pub name: String,
    /// Start, RFC 3339 in UTC.
    pub started_at: String,
    /// From the start to the end of the trial, or to its last sample where no end was recorded.
    pub duration_seconds: f64,
    /// How it ended.
    pub outcome: Outcome,
    /// Planned length of one life.
    pub planned_seconds: f64,
    /// Seed of everything random.
    pub seed: u64,
    /// Repeats of each arm.
    pub repeats: u32,
    /// The command that repeats the trial.
    pub command: String,
    /// Version of Heaptrial that ran it.
    pub tool_version: String,
    /// Where it ran.
    pub host: Host,
    /// Parameters of the workload, as the workload wrote them.
    pub parameters: Value,
    /// What the figures are computed from.
    pub analysis: Analysis,
    /// The arms in the order given.
    pub arms: Vec<Arm>,
    /// The services in the order of starting.
    pub services: Vec<Service>,
    /// Samples of the whole trial.
    pub samples: u64,
    /// What sampling cost.
    pub sampler: Sampler,
    /// The services' CPU time over the duration, as a share of all CPUs (1 is all of them).
    pub cpu_share: Option<f64>,
    /// What may have distorted the result.
    pub warnings: Vec<String>,
    /// What could not be measured.
    pub unmeasured: Vec<String>,
    /// What else to know.
    pub notes: Vec<String>,
    /// What happened during the trial, in order.
    pub events: Vec<Event>,
}

/// What was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A command, started once per arm and repeat.
    LabCommand,
    /// Relays in a private Tor network.
    LabTor,
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As planned.
    Completed,
    /// Stopped by the user; what there is, is reported.
    Interrupted,
    /// It could not be carried out as planned.
    Failed,
    /// No end was recorded: it still runs, or it was killed.
    Unfinished,
}

/// The properties of the host that change memory results; `None` where they could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Operating system and its release.
    pub os: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Machine architecture.
    pub architecture: Option<String>,
    /// Online processors.
    pub cpu_count: Option<u32>,
    /// Model name of the processor.
    pub cpu_model: Option<String>,
    /// Memory in bytes.
    pub ram_bytes: Option<u64>,
    /// Mode of transparent huge pages: `always`, `madvise` or `never`.
    pub thp_mode: Option<String>,
    /// Control group version that accounts for memory: `v1`, `v2` or `none`.
    pub cgroup_version: Option<String>,
    /// `vm.overcommit_memory`.
    pub overcommit_memory: Option<String>,
}

/// What the figures are computed from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// The reading that is compared.
    pub metric: Metric,
    /// Readings at a younger age are left out of medians and slopes.
    pub warm_up_seconds: f64,
    /// Medians and slopes end at this age, which all counted services reached: services are compared
    /// at equal age.
    pub matched_age_seconds: f64,
    /// Of the intervals, such as 0.95.
    pub confidence_level: f64,
}

/// An arm and its figures over the services that count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// Whether the others are compared to it.
    pub control: bool,
    /// The allocator spec as given.
    pub allocator: String,
    /// The whole treatment.
    pub treatment: Treatment,
    /// The allocator that its services really ran, as proved; `None` where none counts.
    pub identity: Option<Identity>,
    /// The build that was prepared for it, as the allocator crate describes it.
    pub obtained: Option<Value>,
    /// How many services count.
    pub services: u32,
    /// The services that do not count, and why.
    pub services_excluded: Vec<ExcludedService>,
    /// Figures of the metric; `None` where no service counts.
    pub memory: Option<Memory>,
    /// Arithmetic mean over its services of the last RSS.
    pub rss_bytes_final: Option<u64>,
    /// Arithmetic mean over its services of the last RssAnon.
    pub anon_bytes_final: Option<u64>,
    /// Its memory in proportion to the control's; `None` for the control itself, and where nothing can
    /// be compared.
    pub ratio_to_control: Option<Ratio>,
    /// Median over its services of the Theil-Sen slope of the metric after warm-up.
    pub slope_bytes_per_hour: Option<f64>,
    /// Arithmetic mean over its services of the CPU time since start.
    pub cpu_seconds: Option<f64>,
    /// Age of the consensus that its relays held.
    pub consensus_age: Option<ConsensusAge>,
    /// What may have distorted its figures.
    pub warnings: Vec<String>,
}

/// A service that does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExcludedService {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Figures of the metric, in whole bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The metric.
    pub metric: Metric,
    /// Last reading; of an arm the arithmetic mean over its services.
    pub final_bytes: u64,
    /// Median from warm-up to the matched age; of an arm the median over its services.
    pub median_bytes: Option<u64>,
    /// Highest reading; of an arm the highest of any service.
    pub peak_bytes: u64,
}

/// The ratio of geometric means over services of the median memory, arm over control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Arm over control.
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// How the interval was found: `permutation`, `student_t` or `none`.
    pub method: String,
    /// Two-sided p-value of no difference, where there is a test; not corrected for several arms.
    pub p_value: Option<f64>,
    /// What to know about the interval.
    pub note: Option<String>,
}

/// Age of the consensus that a relay held after warm-up: high where it lagged behind its network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ConsensusAge {
    /// Median; of an arm the median over its services.
    pub median_seconds: f64,
    /// Highest; of an arm the highest of any service.
    pub max_seconds: f64,
    /// Events of kind `lag`.
    pub lag_events: u64,
}

/// A service, counted or not. Figures are those of the life that stands for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its arm.
    pub arm: String,
    /// Its block: in a lab run the repeat, from 0.
    pub block: u32,
    /// When it was started, from 0 over the trial.
    pub position: u32,
    /// Whether it counts.
    pub counts: bool,
    /// Why not.
    pub excluded: Option<String>,
    /// How the life ended; `None` where no end was recorded.
    pub ending: Option<Ending>,
    /// Age at the last reading.
    pub age_seconds: Option<f64>,
    /// Readings of the metric.
    pub readings: u64,
    /// Figures of the metric; `None` without readings.
    pub memory: Option<Memory>,
    /// Last RSS.
    pub rss_bytes_final: Option<u64>,
    /// Last RssAnon.
    pub anon_bytes_final: Option<u64>,
    /// Theil-Sen slope of the metric after warm-up.
    pub slope_bytes_per_hour: Option<f64>,
    /// CPU time since start.
    pub cpu_seconds: Option<f64>,
    /// Age of the consensus that the relay held.
    pub consensus_age: Option<ConsensusAge>,
    /// The last expensive reading (`smaps_rollup`).
    pub smaps: Option<SlowSample>,
}

/// What sampling cost over the whole trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sampler {
    /// Ticks.
    pub ticks: u64,
    /// Time spent on sampling, summed.
    pub elapsed_seconds: f64,
    /// CPU time spent on sampling, summed.
    pub cpu_seconds: f64,
    /// Median time of one tick.
    pub median_tick_seconds: f64,
    /// Longest gap between two ticks.
    pub longest_gap_seconds: f64,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Which service it is about.
    pub service: Option<String>,
    /// Kind, such as `arm_failed` or `lag`.
    pub kind: String,
    /// What happened.
    pub text: String,
}

impl Kind {
    /// What it is, in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::LabCommand => "lab run of a command",
            Self::LabTor => "lab run of Tor relays in a private network",
        }
    }

    /// Whether Heaptrial started the services itself.
    pub fn is_lab(self) -> bool {
        matches!(self, Self::LabCommand | Self::LabTor)
    }
}

impl Outcome {
    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Unfinished => "unfinished",
        }
    }
}

impl Report {
    /// The control arm.
    pub fn control(&self) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.control)
    }

    /// Positions in `arms`, least median memory first; arms without a figure come last.
    pub fn ranking(&self) -> Vec<usize> {
        let memory = |index: &usize| self.arms[*index].typical_bytes().unwrap_or(u64::MAX);
        let mut order: Vec<usize> = (0..self.arms.len()).collect();
        order.sort_by_key(memory);
        order
    }
}

impl Arm {
    /// Mean of the last readings of the metric, where a service counts.
    pub fn final_bytes(&self) -> Option<u64> {
        self.memory.as_ref().map(|memory| memory.final_bytes)
    }

    /// The median after warm-up; the last reading where a run was too short for one.
    pub fn typical_bytes(&self) -> Option<u64> {
        self.memory.as_ref().map(|memory| memory.median_bytes.unwrap_or(memory.final_bytes))
    }
}
