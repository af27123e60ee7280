//! The report as a document: what `report.json` holds and all other forms are made from.

mod kind;
mod parts;

pub use heaptrial_analysis::{
    ArmEvents, ArmPair, ArmPlace, Basis, BeforeAfter, ByHost, DayLevel, Estimate, Extremes, FindingKind,
    FlagCount, Growth, LimitKind, MeasureResult, OnHost, Sawtooth, SelfCheck, ServiceVerdicts, Severity,
    Shape, WeekLevel, WorkReason, WorkStanding,
};
pub use kind::{AsFound, Assignment, Consensuses, Imported, LabRun, ReportOf, Trial};
pub use parts::{
    AsTreated, Finding, LevelChange, MemoryLimit, Outlier, PlannedLook, ServerSum, Source, TrialHost, Work,
};

pub use heaptrial_judgement::{Kind, Rest};
use heaptrial_model::{
    About, Ending, Identity, LifeStart, MappedLibrary, MemorySplit, Metric, SlowSample, Treatment,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::table::level;

/// The form of [`Report`] as JSON that this version writes; described in `docs/report.schema.json`.
pub const SCHEMA_VERSION: u32 = 3;

/// Everything a report says about one trial. A pure function of the rows of the database.
///
/// Memory is in bytes, times are in seconds, CPU time is in CPU seconds. What only trials over days have is absent from a
/// lab run's report, and the reverse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    pub schema_version: u32,
    /// What was run, with what only that has.
    #[serde(flatten)]
    pub of: ReportOf,
    pub name: String,
    /// Start, RFC 3339 in UTC.
    pub started_at: String,
    /// From the start to the end of the trial, or to its last sample where no end was recorded.
    pub duration_seconds: f64,
    pub outcome: Outcome,
    /// Planned length of one life; 0 where nothing was planned.
    pub planned_seconds: f64,
    pub seed: u64,
    /// The command that repeats the trial.
    pub command: String,
    /// Version of Heaptrial that ran it.
    pub tool_version: String,
    pub host: Host,
    /// What those say who planned it: what they expect, what to know, what follows.
    #[serde(default, skip_serializing_if = "About::is_empty")]
    pub about: About,
    /// Parameters of the workload, as the workload wrote them.
    pub parameters: Value,
    /// What the figures are computed from.
    pub analysis: Analysis,
    /// The arms in the order given.
    pub arms: Vec<Arm>,
    /// The services in the order of starting. One that was put into several arms comes once for each.
    pub services: Vec<Service>,
    /// Samples of the whole trial.
    pub samples: u64,
    /// Which arm needs least and which most; arms by their positions in `arms`.
    pub extremes: Extremes,
    /// What is odd about the data, gravest first.
    pub findings: Vec<Finding>,
    /// Services far from their arm, farthest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outliers: Vec<Outlier>,
    /// Memory by server and arm, of trials over several servers or with readings of before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_sums: Vec<ServerSum>,
    /// Of a trial over several hosts: the hosts that are here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<TrialHost>,
    /// What each arm does on each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_host: Vec<ByHost>,
    /// What may have distorted the result.
    pub warnings: Vec<String>,
    /// What could not be measured.
    pub unmeasured: Vec<String>,
    pub notes: Vec<String>,
    /// What happened during the trial, in order.
    pub events: Vec<Event>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Completed,
    /// Stopped by the user; what there is, is reported.
    Interrupted,
    /// It could not be carried out as planned.
    Failed,
    /// No end was recorded: it still runs, or it was killed.
    Unfinished,
}

/// The properties of the host that change memory results; `None` where they could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Operating system and its release.
    pub os: Option<String>,
    /// The userland that a lab run ran in, where that is not the host's own: which, and on what host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub userland: Option<String>,
    pub kernel: Option<String>,
    pub architecture: Option<String>,
    pub cpu_count: Option<u32>,
    /// Model name of the processor.
    pub cpu_model: Option<String>,
    /// Memory in bytes.
    pub ram_bytes: Option<u64>,
    /// Mode of transparent huge pages: `always`, `madvise` or `never`.
    pub thp_mode: Option<String>,
    /// Control group version that accounts for memory: `v1`, `v2` or `none`.
    pub cgroup_version: Option<String>,
    pub overcommit_memory: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libc: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size_bytes: Option<u64>,
}

/// What the figures are computed from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Analysis {
    /// The reading that is compared.
    pub metric: Metric,
    /// Readings at a younger age are left out of medians and slopes; in a field trial the middle of what
    /// [`Growth::warm_up_seconds`] is for each arm.
    pub warm_up_seconds: f64,
    /// Medians and slopes end at this age, which all counted services reached: services are compared
    /// at equal age. `None` where there is no such age.
    pub matched_age_seconds: Option<f64>,
    /// Of the intervals, such as 0.95.
    pub confidence_level: f64,
    /// In a field trial a service's level is the median of its readings in a window of this length that ends at
    /// the matched age.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<f64>,
    /// In a field trial, whether ages count from first readings because most starts are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ages_are_lower_bounds: Option<bool>,
    /// `stable` means that growth is within plus and minus this share a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_margin_per_day: Option<f64>,
    /// `bloating` means that memory runs out within this many days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub horizon_days: Option<f64>,
    /// An arm whose work is shown to be below this share of the control's does clearly less; 1 over this is what its work may
    /// take in proportion.
    pub work_margin: f64,
    /// The memory that can run out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<MemoryLimit>,
}

/// An arm and its figures: in a lab run over the services that count, in a field trial over all that were put into
/// it (as assigned), with [`Arm::as_treated`] beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arm {
    pub name: String,
    /// Whether the others are compared to it.
    pub control: bool,
    /// The allocator spec as given.
    pub allocator: String,
    pub treatment: Treatment,
    /// The allocator that its services really ran, as proved; `None` where none counts.
    pub identity: Option<Identity>,
    /// The shared libraries that its services mapped, each build once, by name; empty where that is not known. Two builds of
    /// one name: not all of them ran with the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<MappedLibrary>,
    /// The build that was prepared for it, as the allocator crate describes it.
    pub obtained: Option<Value>,
    /// How many services its figures are over.
    pub services: u32,
    /// The services that do not count, and why. In a field trial these are the off-treatment services.
    pub services_excluded: Vec<ExcludedService>,
    /// Figures of the metric; `None` where no service counts.
    pub memory: Option<Memory>,
    /// Median over its services of the last reading of the metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_median_bytes: Option<u64>,
    /// Arithmetic mean over its services of the last RSS.
    pub rss_bytes_final: Option<u64>,
    /// Arithmetic mean over its services of the last RssAnon.
    pub anon_bytes_final: Option<u64>,
    /// Where the memory of its services was at the end of a lab run, in the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_split: Option<MemorySplit>,
    /// Its memory in proportion to the control's; `None` for the control itself, and where nothing can
    /// be compared.
    pub ratio_to_control: Option<Ratio>,
    /// Median over its services of the Theil-Sen slope of the metric after warm-up.
    pub slope_bytes_per_hour: Option<f64>,
    /// Arithmetic mean over its services of the CPU time since start.
    pub cpu_seconds: Option<f64>,
    /// Median of the consensuses that its relays took: hours of a relay's life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consensuses: Option<f64>,
    /// What may have distorted its figures.
    pub warnings: Vec<String>,
    /// The file that its list of services was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Median over its services of the age at the last reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// The figures without off-treatment services; `None` where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_treated: Option<AsTreated>,
    /// `stable`, `growing`, `bloating`, `some_bloat` (a minority of its services does) or `inconclusive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The numbers behind the verdict, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict_reason: Option<String>,
    /// The verdict over all services as listed, where it is another word than [`Arm::verdict`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict_as_assigned: Option<String>,
    /// How many of its services have which verdict of their own, and which grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_verdicts: Option<ServiceVerdicts>,
    /// Growth after warm-up, without off-treatment services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
    /// Days from [`Arm::last_reading_at`] until memory runs out, if it goes on so; 0 where it is above its limit
    /// already, `None` where no limit is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days_until_full: Option<Estimate>,
    /// Days from [`Arm::last_reading_at`] until memory has doubled, of a bloating arm without a known limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days_until_doubled: Option<Estimate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitKind>,
    /// When a service that belongs to it was read last, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reading_at: Option<String>,
    /// Days of further observation that are expected to decide an `inconclusive` verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days_needed: Option<f64>,
    /// Memory by day of age, without off-treatment services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_day: Vec<DayLevel>,
    /// Memory by week of age, without off-treatment services, of lives longer than three weeks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_week: Vec<WeekLevel>,
    /// Sudden changes of level common to its services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub level_changes: Vec<LevelChange>,
    /// For an arm that is restarted at intervals: its memory averaged over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sawtooth: Option<Sawtooth>,
    /// The work that its services did, without off-treatment services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// What happened to its services, of a trial whose services Heaptrial sampled itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<ArmEvents>,
}

/// A service that does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExcludedService {
    pub name: String,
    pub reason: String,
}

/// Figures of the metric, in whole bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    pub metric: Metric,
    /// Last reading; of an arm the arithmetic mean over its services.
    pub final_bytes: u64,
    /// The level: of a service the median of its readings from warm-up to the matched age (lab run) or over a window that
    /// ends there (on hosts, and of a lab's relays); of an arm the geometric mean over its services.
    pub median_bytes: Option<u64>,
    /// Highest reading; of an arm the highest of any service.
    pub peak_bytes: u64,
}

/// The ratio of geometric means over services of the median memory, arm over control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// How the interval was found: `permutation`, `student_t` or `none`.
    pub method: String,
    /// Two-sided p-value of no difference, where there is a test; not corrected for several arms.
    pub p_value: Option<f64>,
    /// The same, adjusted for the number of arms (Holm).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value_adjusted: Option<f64>,
    /// What to know about the interval.
    pub note: Option<String>,
}

/// A service, counted or not. Figures are those of the life that stands for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    pub name: String,
    pub arm: String,
    /// Its block: in a lab run the repeat, from 0.
    pub block: u32,
    /// When it was started, from 0 over the trial.
    pub position: u32,
    pub counts: bool,
    pub excluded: Option<String>,
    /// How the life ended; `None` where no end was recorded.
    pub ending: Option<Ending>,
    /// Age at the last reading.
    pub age_seconds: Option<f64>,
    pub readings: u64,
    /// Figures of the metric; `None` without readings.
    pub memory: Option<Memory>,
    pub rss_bytes_final: Option<u64>,
    pub anon_bytes_final: Option<u64>,
    /// Theil-Sen slope of the metric after warm-up.
    pub slope_bytes_per_hour: Option<f64>,
    pub cpu_seconds: Option<f64>,
    /// Consensuses that the relay took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consensuses: Option<u32>,
    /// Its rests after them, with the level at the end of each and the peak of the work before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rests: Vec<Rest>,
    /// The last expensive reading (`smaps_rollup`); of a service of a host days before the last one, where there are many.
    pub smaps: Option<SlowSample>,
    /// RssAnon when that was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smaps_anon_bytes: Option<u64>,
    /// Where its memory was at the end of a lab run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_split: Option<MemorySplit>,
    /// How the start of that life is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<LifeStart>,
    /// How often the service was restarted between its first and its last reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u32>,
    /// Growth after warm-up as a share a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_share_per_day: Option<f64>,
    /// Memory averaged over all observed time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_average_bytes: Option<u64>,
    /// Of off treatment the arm whose services it is like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// Why it has no level at the matched age.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_level: Option<String>,
    /// The allocator that its last life ran, as proved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<String>,
    /// Memory that it may use at most (MemoryMax).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// What it read and wrote, in bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_bytes_per_second: Option<f64>,
}

/// What sampling cost over the whole trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sampler {
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Which service it is about.
    pub service: Option<String>,
    /// Kind, such as `arm_failed` or `gap`.
    pub kind: String,
    pub text: String,
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
    /// How it ended, in a word; of a trial on services without an end, that it runs.
    pub fn outcome_word(&self) -> &'static str {
        match self.outcome {
            Outcome::Unfinished if matches!(self.kind(), Kind::Field | Kind::Host) => "running",
            outcome => outcome.as_str(),
        }
    }

    pub fn control(&self) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.control)
    }

    /// Positions in `arms`, least memory first; then arms that do clearly less than the control's work, and arms without a
    /// figure.
    pub fn ranking(&self) -> Vec<usize> {
        let places = self.places();
        let place = |index: &usize| {
            let place = places.iter().position(|place| place.arm == *index);
            let rank = match place.map(|place| places[place].ranked) {
                Some(true) => 0,
                Some(false) => 1,
                None => 2,
            };
            (rank, place, self.arms[*index].typical_bytes().unwrap_or(u64::MAX))
        };
        let mut order: Vec<usize> = (0..self.arms.len()).collect();
        order.sort_by_key(place);
        order
    }

    /// The arms that have a rank, with what they need, least memory first.
    pub fn ranked(&self) -> Vec<(&Arm, u64)> {
        let places = self.places().into_iter().filter(|place| place.ranked);
        places.filter_map(|place| Some((self.arms.get(place.arm)?, self.needs(place)))).collect()
    }

    /// The arms by what they need.
    fn places(&self) -> Vec<&ArmPlace> {
        let mut places: Vec<&ArmPlace> = self.extremes.order.iter().collect();
        places.sort_by_key(|place| self.needs(place));
        places
    }

    /// The level that tables show. The analysis orders arms by averages over time as soon as one of them is restarted at
    /// intervals, and by last readings where some have no level.
    pub(crate) fn needs(&self, place: &ArmPlace) -> u64 {
        let level = match self.extremes.basis {
            Basis::LastReadings => None,
            Basis::AverageOverTime | Basis::LevelAtEqualAge { .. } => {
                self.arms.get(place.arm).and_then(level)
            }
        };
        level.unwrap_or(place.bytes as u64)
    }
}

impl Arm {
    /// Whether it is shown to do less than the control's work: then its memory says nothing for its allocator.
    pub fn does_less(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.standing == WorkStanding::ClearlyLess)
    }

    /// Mean of the last readings of the metric, where a service counts.
    pub fn final_bytes(&self) -> Option<u64> {
        self.memory.as_ref().map(|memory| memory.final_bytes)
    }

    /// What the arm needs: without off-treatment services the median after warm-up or the level at the matched age; the last
    /// reading where there is neither.
    pub fn typical_bytes(&self) -> Option<u64> {
        let treated = self.as_treated.as_ref();
        treated
            .and_then(|treated| treated.level_bytes.or(treated.final_bytes))
            .or_else(|| self.memory.as_ref().map(|memory| memory.median_bytes.unwrap_or(memory.final_bytes)))
    }

    /// The ratio to the control without off-treatment services.
    pub fn ratio_as_treated(&self) -> Option<&Ratio> {
        match &self.as_treated {
            Some(treated) => treated.ratio_to_control.as_ref(),
            None => self.ratio_to_control.as_ref(),
        }
    }

    /// How many of its services belong to it.
    pub fn services_belonging(&self) -> u32 {
        self.as_treated.as_ref().map_or(self.services, |treated| treated.services)
    }
}
