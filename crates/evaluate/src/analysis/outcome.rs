//! The results of an analysis, for reports.

mod extremes;
mod finding;
mod services;
mod work;

use heaptrial_model::LifeStart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::extremes::*;
pub use self::finding::*;
pub use self::services::*;
pub use self::work::*;
use crate::analysis::failures::ArmEvents;
pub use heaptrial_model::units::DAY;

/// Choices of whoever asks for an analysis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// Confidence of intervals, such as 0.95.
    pub confidence_level: f64,
    /// A service's level is the median of its readings in a window of this many seconds that ends at the matched age.
    pub window_seconds: f64,
    /// Whether a level is taken over all readings from the end of warm-up to the matched age, in place of that window:
    /// in runs of minutes each reading counts.
    pub level_from_warm_up: bool,
    /// Share of each life that is left out of growth: memory settles after a start.
    pub warm_up_share: f64,
    /// Warm-up in seconds of age, in place of that share; `None` is the share.
    pub warm_up_seconds: Option<f64>,
    /// `stable` means that growth is within plus and minus this share a day.
    pub stable_margin_per_day: f64,
    /// `bloating` means that memory runs out within this many days.
    pub horizon_days: f64,
    /// An arm does clearly less of its work than the control where the interval of the ratio lies below this. Work of equal
    /// services differs by some percent from day to day; a tenth less is what an operator would not call the same work, and
    /// well below what any allocator costs or brings.
    pub work_margin: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            confidence_level: 0.95,
            window_seconds: DAY,
            level_from_warm_up: false,
            warm_up_share: 1.0 / 3.0,
            warm_up_seconds: None,
            stable_margin_per_day: 0.005,
            horizon_days: 30.0,
            work_margin: 0.9,
        }
    }
}

impl Settings {
    /// The age in seconds at which warm-up of a life that reached `age` seconds ends.
    pub fn warm_up_of(&self, age: f64) -> f64 {
        self.warm_up_seconds.unwrap_or(self.warm_up_share * age)
    }

    /// The first age in seconds of the stretch that gives the level at `age`.
    pub fn level_from(&self, age: f64) -> f64 {
        match self.level_from_warm_up {
            true => self.warm_up_of(age),
            false => window_before(age, self.window_seconds),
        }
    }
}

/// Where a window of so many seconds that ends at `age` begins: a short life is not judged by its first minutes.
pub(crate) fn window_before(age: f64, window_seconds: f64) -> f64 {
    age - window_seconds.min(age / 2.0)
}

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    pub value: f64,
    /// Lower end; `None` where there are too few services for an interval.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// The analysis of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Analysis {
    pub settings: Settings,
    /// The age at which services are compared, in seconds: the one that keeps most of the observed time, with half
    /// of every arm's services or more.
    pub matched_age_seconds: Option<f64>,
    /// Whether in some arm most starts are unknown, so that its ages count from first readings.
    pub ages_are_lower_bounds: bool,
    /// Whether the assignment was drawn at random. If not, intervals and p-values hold only as far as services
    /// could have been exchanged between arms.
    pub randomised: bool,
    /// One for each service of the fleet.
    pub services: Vec<ServiceResult>,
    /// One for each arm of the fleet.
    pub arms: Vec<ArmResult>,
    /// Which arm needs least and which most, over all arms that have any figure.
    pub extremes: Extremes,
    /// What is odd about the data, gravest first.
    pub findings: Vec<Finding>,
    /// The procedure applied to the control alone.
    pub self_check: Option<SelfCheck>,
}

/// What is known of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceResult {
    pub name: String,
    /// Positions of the arms into which it was put.
    pub arms: Vec<usize>,
    /// How often it was restarted between its first and its last reading.
    pub restarts: u32,
    /// Start of the life that stands for it, in seconds since 1970.
    pub started_at: Option<f64>,
    /// How that start is known.
    pub start: Option<LifeStart>,
    /// Age at the last reading in seconds.
    pub age_seconds: Option<f64>,
    pub readings: u64,
    pub final_bytes: Option<f64>,
    /// Highest reading in bytes, of all lives that ran the arm's treatment: memory is what may have ended the others.
    pub peak_bytes: Option<f64>,
    /// Level at the matched age in bytes; of an arm that is restarted on purpose, the average over time.
    pub level_bytes: Option<f64>,
    /// Why it has no level.
    pub no_level: Option<String>,
    /// Growth after warm-up in bytes a day.
    pub growth_bytes_per_day: Option<f64>,
    /// Growth after warm-up of the logarithm of memory, a day: 0.01 is 1% a day.
    pub growth_log_per_day: Option<f64>,
    /// Memory averaged over time, in bytes: over its last life or, in a fleet with arms that are restarted on purpose,
    /// over the time in which all arms ran.
    pub time_average_bytes: Option<f64>,
    /// What it did, by each measure that is known: in the window in which its level is taken or, in a fleet with arms that are
    /// restarted on purpose, over the time in which all arms ran.
    pub work: Vec<ServiceWork>,
    /// The arms of which it is off treatment.
    pub off_treatment_in: Vec<OffTreatment>,
}

/// Why a service does not belong to an arm into which it was put.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OffTreatment {
    pub arm: usize,
    /// The arm whose services it is like.
    pub like: Option<usize>,
    /// Whether its identity was proved to be another; else it is an inference from its memory.
    pub proved: bool,
    pub why: String,
}

/// What is known of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmResult {
    /// Over every service that was put into it.
    pub as_assigned: ArmFigures,
    /// Without its off-treatment services; `None` where it has none.
    pub as_treated: Option<ArmFigures>,
    /// Growth of its services without off-treatment services.
    pub growth: Option<Growth>,
    /// Its services that bloat, without off-treatment services; `None` of an arm that is restarted at
    /// intervals, and in a lab run.
    pub service_verdicts: Option<ServiceVerdicts>,
    /// What follows for an operator; `None` where time has no days.
    #[serde(rename = "verdict_detail")]
    pub verdict: Option<Verdict>,
    /// The verdict over every service that was put into it, where it is another.
    pub verdict_as_assigned: Option<Verdict>,
    /// Memory by day of age, without off-treatment services.
    pub by_day: Vec<DayLevel>,
    /// For an arm that is restarted at intervals: its memory averaged over time.
    pub sawtooth: Option<Sawtooth>,
    /// The work that its services did, without off-treatment services; `None` where no arm's work was read.
    pub work: Option<ArmWork>,
    /// What happened to its services.
    pub events: ArmEvents,
}

/// An arm's memory over a set of its services.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmFigures {
    /// Services with a last reading.
    pub services: u32,
    /// Services with a level at the matched age.
    pub services_compared: u32,
    /// Arithmetic mean of the last readings in bytes: what operators add up.
    pub final_mean_bytes: Option<f64>,
    /// Median of the last readings in bytes.
    pub final_median_bytes: Option<f64>,
    /// Geometric mean of the levels at the matched age in bytes.
    pub level_bytes: Option<f64>,
    /// Median age at the last reading in seconds.
    pub age_seconds: Option<f64>,
    /// Geometric mean of levels over that of the control; `None` for the control.
    pub ratio: Option<RatioToControl>,
}

/// An arm's memory in proportion to the control's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RatioToControl {
    /// Arm over control, with its interval.
    pub estimate: Estimate,
    /// How the interval was found: `permutation`, `student_t` or `none`.
    pub method: String,
    /// Two-sided p-value of no difference.
    pub p_value: Option<f64>,
    /// The same, adjusted for the number of arms (Holm).
    pub p_value_adjusted: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Growth {
    pub services: u32,
    /// Median over services of the readings that it is measured from.
    pub readings: u32,
    /// Median over services of the days that it is measured over.
    pub days: f64,
    /// Bytes a day: median over services.
    pub bytes_per_day: Estimate,
    /// Share a day (slope of the logarithm): median over services.
    pub share_per_day: Estimate,
    /// Whether it goes towards a level, by most services.
    pub levels_off: bool,
    /// Median over services of the slope of the second half over that of the first.
    pub late_over_early: Option<f64>,
    /// Whether the trajectory of the arm is shown to bend down.
    pub slows_down: bool,
    /// Where growth slows down, and its end is shown too: the bytes by which memory rises at most from its last reading on, if
    /// it goes on slowing down as it did.
    pub rise_to_come_bytes: Option<f64>,
    /// Median age in seconds at the first reading that growth is measured from: after warm-up of all arms.
    pub warm_up_seconds: f64,
}

/// What follows for an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum Verdict {
    /// The interval of growth lies inside the margin.
    Stable,
    Growing {
        /// Days until memory runs out if it goes on so.
        days_until_full: Option<Estimate>,
        /// Which memory; `None` without days.
        limit: Option<LimitKind>,
    },
    /// It grows without saturation, and memory runs out within the horizon.
    Bloating {
        /// Days until memory runs out.
        days_until_full: Estimate,
        limit: LimitKind,
    },
    /// Some services bloat, while the median service is not shown to: [`ArmResult::service_verdicts`] has their names.
    SomeBloat {
        services: u32,
        of: u32,
        /// Days until memory of the first of them runs out.
        days_until_full: Option<f64>,
        limit: Option<LimitKind>,
    },
    /// The data do not show which.
    Inconclusive {
        /// Days of further observation that are expected to decide.
        days_needed: Option<f64>,
        why: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// The limit that is asked about for each service (`--memory-limit`).
    Service,
    /// A service's own limit (MemoryMax): of an arm's that of the service which is nearest to it.
    OwnLimit,
    /// What was available on the host, if only this arm's services grow.
    Host,
    /// The host's whole memory but for what services of the trial used, where it is not known what was available: everything
    /// else there needs memory as well.
    WholeHost,
    /// No limit is known: twice the present memory stands for it.
    Doubling,
}

/// An arm's memory on a day of age.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DayLevel {
    /// Day of age, from 1.
    pub day: u32,
    /// Services with a reading on it.
    pub services: u32,
    /// Median over services of their median reading of that day, in bytes.
    pub median_bytes: f64,
    /// Median over services of the mean age of these readings, in days: where a day has few readings, two
    /// days are not a day apart.
    pub age_days: f64,
}

/// Memory of an arm whose services are restarted at intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sawtooth {
    /// Average over time, mean over services, in bytes.
    pub time_average_bytes: f64,
    /// Restarts of all its services.
    pub restarts: u32,
    /// Restarts per service and day.
    pub restarts_per_service_day: f64,
}

/// The procedure applied to random halves of the control, between which there is no difference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelfCheck {
    pub halvings: u32,
    /// Share of them in which a difference was found at 5%.
    pub found_share: f64,
    /// Standard error of that share.
    pub standard_error: f64,
    /// In 95% of halvings the ratio of the halves was at most this (1 or more): differences below are noise.
    pub noise_ratio: f64,
}

impl Verdict {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Growing { .. } => "growing",
            Self::Bloating { .. } => "bloating",
            Self::SomeBloat { .. } => "some_bloat",
            Self::Inconclusive { .. } => "inconclusive",
        }
    }

    /// When memory runs out if growth goes on, and which memory; of an arm that grows.
    pub fn runs_out(&self) -> Option<(Estimate, Option<LimitKind>)> {
        match self {
            Self::Growing { days_until_full, limit } => Some(((*days_until_full)?, *limit)),
            Self::Bloating { days_until_full, limit } => Some((*days_until_full, Some(*limit))),
            Self::SomeBloat { days_until_full, limit, .. } => {
                Some((Estimate::bare((*days_until_full)?), *limit))
            }
            Self::Stable | Self::Inconclusive { .. } => None,
        }
    }
}

impl Analysis {
    /// Positions of the services that belong to an arm: those that were put into it, without off-treatment services.
    pub fn members(&self, arm: usize) -> Vec<usize> {
        (0..self.services.len()).filter(|index| self.services[*index].belongs_to(arm)).collect()
    }
}

impl ServiceResult {
    /// Whether it was put into an arm and is not off treatment there.
    pub fn belongs_to(&self, arm: usize) -> bool {
        self.arms.contains(&arm) && self.off_treatment_in.iter().all(|other| other.arm != arm)
    }
}

impl ArmResult {
    /// The figures without off-treatment services.
    pub fn treated(&self) -> &ArmFigures {
        self.as_treated.as_ref().unwrap_or(&self.as_assigned)
    }
}

impl Estimate {
    pub fn bare(value: f64) -> Self {
        Self::new(value, None)
    }

    pub(crate) fn new(value: f64, interval: Option<(f64, f64)>) -> Self {
        Self { value, low: interval.map(|interval| interval.0), high: interval.map(|interval| interval.1) }
    }

    /// Of one over the value.
    pub fn inverse(&self) -> Self {
        Self {
            value: 1.0 / self.value,
            low: self.high.map(|high| 1.0 / high),
            high: self.low.map(|low| 1.0 / low),
        }
    }

    /// Both ends, where there is an interval.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }
}
