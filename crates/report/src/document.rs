//! The report as a document: what `report.json` holds and all other forms are made from.

use std::collections::BTreeSet;

use heaptrial_evaluate::analysis::{ArmPlace, Basis, Objection};
pub use heaptrial_evaluate::analysis::{
    ArmResult, ByHost, Estimate, Extremes, FindingKind, Growth, LimitKind, MeasureResult, MemoryLimit,
    OnHost, Outlier, RatioToControl, SelfCheck, ServiceResult, ServiceVerdicts, Severity, Verdict,
    WorkStanding,
};
use heaptrial_evaluate::judgement::Trajectories;
pub use heaptrial_evaluate::judgement::{ConsensusClock, Rest};
use heaptrial_model::{
    About, Ending, Identity, MappedLibrary, MemorySplit, Metric, SlowSample, Treatment, TrialKind,
};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chart::{self, ArmStyles, Chart};
use crate::forms::Document;
use crate::page::{self, Section};
use crate::summary;
use crate::table::Detail;

/// The form of [`Report`] as JSON that this version writes; described in `docs/report.schema.json`.
pub const SCHEMA_VERSION: u32 = 4;

/// Everything a report says about one trial. A pure function of the rows of the database.
///
/// Memory is in bytes, times are in seconds, CPU time is in CPU seconds. What a kind of trial does not have is null or empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    pub schema_version: u32,
    pub kind: TrialKind,
    pub name: String,
    /// Start, RFC 3339 in UTC.
    pub started_at: String,
    pub duration_seconds: f64,
    pub outcome: Outcome,
    pub planned_seconds: f64,
    pub seed: u64,
    pub repeats: u32,
    pub command: String,
    pub tool_version: String,
    pub host: Host,
    pub about: About,
    pub parameters: Value,
    /// How services came into arms; `None` of a lab, which draws, and where there is one arm.
    pub assignment: Option<Assignment>,
    /// What sampling cost; `None` where others sampled.
    pub sampler: Option<Sampler>,
    pub sampling_interval_seconds: Option<f64>,
    pub consensuses: Option<ConsensusClock>,
    pub self_check: Option<SelfCheck>,
    pub looks: Vec<PlannedLook>,
    pub sources: Vec<Source>,
    pub analysis: Analysis,
    /// The arms in the order given.
    pub arms: Vec<Arm>,
    /// The services in the order of starting. One that was put into several arms comes once for each.
    pub services: Vec<Service>,
    pub samples: u64,
    /// Which arm needs least and which most; arms by their positions in `arms`.
    pub extremes: Extremes,
    /// What is odd about the data, gravest first.
    pub findings: Vec<Finding>,
    /// Services far from their arm, farthest first; services and arms by their positions in the trial.
    pub outliers: Vec<Outlier>,
    pub hosts: Vec<TrialHost>,
    pub by_host: Vec<ByHost>,
    /// What may distort the figures, what was not measured and what was noted, the gravest first.
    pub caveats: Vec<String>,
    pub reproduce: Option<Reproduce>,
    /// What happened during the trial, in order.
    pub events: Vec<Event>,
    /// The thinned series that charts show; without them there are no charts.
    #[serde(skip)]
    pub trajectories: Option<Trajectories>,
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
#[serde(default)]
pub struct Host {
    pub os: Option<String>,
    pub userland: Option<String>,
    pub kernel: Option<String>,
    pub architecture: Option<String>,
    pub cpu_count: Option<u32>,
    pub cpu_model: Option<String>,
    pub ram_bytes: Option<u64>,
    pub thp_mode: Option<String>,
    pub cgroup_version: Option<String>,
    pub overcommit_memory: Option<String>,
    pub libc: Option<String>,
    pub page_size_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Analysis {
    /// The reading that is compared.
    pub metric: Metric,
    /// Medians and slopes have no younger readings; in a field trial the middle of the arms' [`Growth::warm_up_seconds`].
    pub warm_up_seconds: f64,
    /// The age at which services are compared, where medians and slopes end; `None` where arms have none in common.
    pub matched_age_seconds: Option<f64>,
    pub confidence_level: f64,
    /// On hosts a service's level is the median of its readings in a window of this length before the matched age.
    pub window_seconds: Option<f64>,
    pub ages_are_lower_bounds: Option<bool>,
    /// `stable` means that growth is within plus and minus this share a day.
    pub stable_margin_per_day: Option<f64>,
    pub horizon_days: Option<f64>,
    /// An arm whose work is shown to be below this share of the control's does clearly less.
    pub work_margin: f64,
    pub memory_limit: Option<MemoryLimit>,
}

/// An arm: what it was given and ran, and what the analysis found of it. `memory` and `ratio_to_control` are over the services
/// that count in a lab run, and on hosts over all that were put into the arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arm {
    pub name: String,
    /// Whether the others are compared to it.
    pub control: bool,
    pub allocator: String,
    pub treatment: Treatment,
    /// The allocator that its services really ran, as proved; `None` where none counts.
    pub identity: Option<Identity>,
    /// The shared libraries that its services mapped, each build once, by name; empty where that is not known.
    pub libraries: Vec<MappedLibrary>,
    pub obtained: Option<Value>,
    pub services: u32,
    pub services_excluded: Vec<ExcludedService>,
    /// Figures of the metric; `None` where no service counts.
    pub memory: Option<Memory>,
    pub rss_bytes_final: Option<u64>,
    pub anon_bytes_final: Option<u64>,
    pub memory_split: Option<MemorySplit>,
    /// Its memory in proportion to the control's; `None` for the control itself, and where nothing can be compared.
    pub ratio_to_control: Option<Ratio>,
    /// Median over its services of the Theil-Sen slope of the metric after warm-up.
    pub slope_bytes_per_hour: Option<f64>,
    /// Arithmetic mean over its services of the CPU time since start.
    pub cpu_seconds: Option<f64>,
    /// Median of the consensuses that its relays took: hours of a relay's life.
    pub consensuses: Option<f64>,
    pub list: Option<String>,
    pub verdict: Option<String>,
    pub objections: Vec<Objection>,
    #[serde(flatten)]
    pub result: ArmResult,
}

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
    pub peak_bytes: u64,
}

/// The ratio of geometric means over services of the median memory, arm over control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    pub estimate: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub method: String,
    pub p_value: Option<f64>,
    pub p_value_adjusted: Option<f64>,
}

/// A service in an arm, counted or not. Figures are those of the life that stands for it, in bytes of the metric; of a service that
/// does not count, they are what was read of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    pub arm: String,
    pub block: u32,
    pub position: u32,
    pub counts: bool,
    pub excluded: Option<String>,
    /// How the life ended; `None` where no end was recorded.
    pub ending: Option<Ending>,
    pub rss_bytes_final: Option<u64>,
    pub anon_bytes_final: Option<u64>,
    pub cpu_seconds: Option<f64>,
    pub consensuses: Option<u32>,
    pub rests: Vec<Rest>,
    pub smaps: Option<SlowSample>,
    pub smaps_anon_bytes: Option<u64>,
    pub memory_split: Option<MemorySplit>,
    pub like: Option<String>,
    pub ran: Option<String>,
    pub memory_limit_bytes: Option<u64>,
    #[serde(flatten)]
    pub result: ServiceResult,
}

/// What sampling cost over the whole trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sampler {
    pub ticks: u64,
    /// CPU time spent on sampling, summed.
    pub cpu_seconds: f64,
    /// Median time of one tick.
    pub median_tick_seconds: f64,
    pub longest_gap_seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When, RFC 3339 in UTC.
    pub at: String,
    pub service: Option<String>,
    pub kind: String,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    Random,
    ByHand,
    Listed,
    ListedWithinServers,
    AsFound,
}

impl Assignment {
    pub fn describe(self) -> &'static str {
        match self {
            Self::Random => "random within blocks",
            Self::ByHand => "not at random: services have another arm or block than was drawn",
            Self::Listed => "as listed, not drawn at random",
            Self::ListedWithinServers => "as listed, compared within servers, not drawn at random",
            Self::AsFound => "as found, not drawn at random",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    pub kind: FindingKind,
    pub severity: Severity,
    pub arms: Vec<String>,
    pub services: Vec<String>,
    pub evidence: String,
}

/// A file that data were imported from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    pub file: String,
    pub role: String,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    pub rows: u64,
    pub skipped: u64,
}

/// An analysis of a running trial at a time fixed in advance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedLook {
    pub number: u32,
    /// When, in seconds since the last service had its treatment.
    pub planned_seconds: f64,
    pub alpha: f64,
    /// When it was taken, RFC 3339 in UTC; `None` where it was not.
    pub taken_at: Option<String>,
    pub result: Option<String>,
}

/// A host of a trial over several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialHost {
    pub name: String,
    pub services: u32,
    /// When the trial was started there, RFC 3339 in UTC.
    pub started_at: String,
    /// When it ended there; `None` where it ran when it was gathered.
    pub ended_at: Option<String>,
    /// Its last reading that is here; `None` where there is none.
    pub last_at: Option<String>,
    #[serde(flatten)]
    pub facts: Host,
}

/// How the maintainers of an allocator see a finding again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reproduce {
    pub bad: String,
    /// The allocator that it is compared to.
    pub good: String,
    pub ratio: Option<Ratio>,
    pub defaults: Vec<SettingDefault>,
    pub command: String,
}

/// A setting whose default differs between two versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingDefault {
    pub name: String,
    pub about: String,
    /// Default in the good version; `None` where it has no such setting.
    pub good: Option<String>,
    pub bad: Option<String>,
}

/// The JSON schema of [`Report`] (draft 2020-12), derived from the types: what `docs/report.schema.json` holds.
pub fn report_schema() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Report>();
    schema.insert("title".to_owned(), "Heaptrial report".into());
    schema.to_value()
}

impl Report {
    /// How many services there are; one that was put into several arms is one.
    pub(crate) fn service_count(&self) -> u32 {
        let names: BTreeSet<&str> =
            self.services.iter().map(|service| service.result.name.as_str()).collect();
        names.len() as u32
    }

    /// Whether ages are those of services in life: on hosts, and of a lab's relays.
    pub fn has_days(&self) -> bool {
        self.kind != TrialKind::LabCommand
    }

    /// How it ended, in a word; of a trial on services without an end, that it runs.
    pub fn outcome_word(&self) -> &'static str {
        match self.outcome {
            Outcome::Unfinished if self.kind.is_on_services() => "running",
            Outcome::Unfinished => "unfinished",
            Outcome::Completed => "completed",
            Outcome::Interrupted => "interrupted",
            Outcome::Failed => "failed",
        }
    }

    pub fn control(&self) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.control)
    }

    /// Positions in `arms`, least memory first, then those that do less work or have no figure.
    pub fn ranking(&self) -> Vec<usize> {
        let places = self.places();
        let (ranked, unranked): (Vec<&ArmPlace>, Vec<&ArmPlace>) =
            places.iter().partition(|place| place.ranked);
        let mut order: Vec<usize> = ranked.into_iter().chain(unranked).map(|place| place.arm).collect();
        let mut others: Vec<usize> = (0..self.arms.len()).filter(|arm| !order.contains(arm)).collect();
        others.sort_by_key(|arm| self.arms[*arm].typical_bytes().map_or(u64::MAX, |bytes| bytes as u64));
        order.extend(others);
        order
    }

    /// The arms that have a rank, with what they need, least memory first.
    pub fn ranked(&self) -> Vec<(&Arm, u64)> {
        let places = self.places().into_iter().filter(|place| place.ranked);
        places.filter_map(|place| Some((self.arms.get(place.arm)?, self.needs(place)))).collect()
    }

    fn places(&self) -> Vec<&ArmPlace> {
        let mut places: Vec<&ArmPlace> = self.extremes.order.iter().collect();
        places.sort_by_key(|place| self.needs(place));
        places
    }

    /// The level that tables show. The analysis orders arms by averages over time as soon as one of them is restarted at
    /// intervals, and by last readings where some have no level.
    fn needs(&self, place: &ArmPlace) -> u64 {
        let level = match self.extremes.basis {
            Basis::LastReadings => None,
            Basis::AverageOverTime | Basis::LevelAtEqualAge { .. } => {
                self.arms.get(place.arm).and_then(Arm::level).map(|bytes| bytes.round() as u64)
            }
        };
        level.unwrap_or(place.bytes as u64)
    }
}

impl Arm {
    /// Whether it is shown to do less than the control's work: then its memory says nothing for its allocator.
    pub fn does_less(&self) -> bool {
        self.result.work.as_ref().is_some_and(|work| work.standing == WorkStanding::ClearlyLess)
    }

    /// Mean of the last readings of the metric, as assigned.
    pub fn final_bytes(&self) -> Option<f64> {
        self.result.as_assigned.final_mean_bytes.filter(|_| self.memory.is_some())
    }

    /// The level at the matched age, without non-compliant services.
    pub fn level(&self) -> Option<f64> {
        self.result.treated().level_bytes
    }

    /// What the arm needs: its level, or else the mean of its last readings, without non-compliant services.
    pub fn typical_bytes(&self) -> Option<f64> {
        let treated = self.result.treated();
        treated.level_bytes.or(treated.final_mean_bytes)
    }

    /// The ratio to the control without non-compliant services.
    pub fn ratio(&self) -> Option<&RatioToControl> {
        self.result.treated().ratio.as_ref()
    }

    /// How many of its services belong to it.
    pub fn services_belonging(&self) -> u32 {
        self.result.treated().services
    }

    /// Whether it bloats, as a whole or in some of its services.
    pub(crate) fn bloats(&self) -> bool {
        matches!(self.result.verdict, Some(Verdict::Bloating { .. } | Verdict::SomeBloat { .. }))
    }
}

impl Document for Report {
    const NAME: &'static str = "report";

    fn title(&self) -> String {
        self.name.clone()
    }

    fn lead(&self) -> String {
        summary::about(self)
    }

    fn sections(&self, detail: Detail) -> Vec<Section> {
        page::sections(self, detail)
    }

    fn styles(&self) -> ArmStyles {
        ArmStyles::of_report(self)
    }

    fn charts(&self) -> Vec<Chart> {
        chart::all(self)
    }
}

impl From<&RatioToControl> for Ratio {
    fn from(ratio: &RatioToControl) -> Self {
        let RatioToControl { estimate, method, p_value, p_value_adjusted } = ratio;
        Self {
            estimate: estimate.value,
            low: estimate.low,
            high: estimate.high,
            method: method.clone(),
            p_value: *p_value,
            p_value_adjusted: *p_value_adjusted,
        }
    }
}

impl std::fmt::Display for Ratio {
    /// With its interval: `0.47 (0.44 to 0.51)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let estimate = Estimate { value: self.estimate, low: self.low, high: self.high };
        f.write_str(&crate::text::estimate(&estimate, heaptrial_model::units::ratio))
    }
}
