//! What services did beside using memory.

use heaptrial_model::TorFlag;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Estimate, RatioToControl};

/// What is known of a service's work by one measure, over the time over which its memory is compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceWork {
    /// What is counted, such as `documents`.
    pub measure: String,
    /// What it did a second; where failures are counted, the share that did not fail; where less is better, what it took.
    pub amount: f64,
    /// Whether less of it is better.
    pub less_is_better: bool,
    /// CPU seconds for each unit of what was done; not of failures and of what is better less.
    pub cpu_seconds_for_each: Option<f64>,
    /// Page faults for each unit.
    pub page_faults_for_each: Option<f64>,
    /// What was counted: done, or failed.
    pub counted: f64,
    /// Where failures are counted: what was tried.
    pub tried: Option<f64>,
    pub seconds: f64,
}

/// The work of an arm, without off-treatment services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmWork {
    /// Services of which bytes read and written are known.
    pub services: u32,
    /// Bytes read and written a second over that of the control.
    pub ratio: Option<RatioToControl>,
    /// Whether it does the control's work by all its measures. An arm that does clearly less is no extreme, has no rank and
    /// is not to be recommended.
    pub standing: WorkStanding,
    /// Every measure of the fleet, also those that are not known of this arm.
    pub measures: Vec<MeasureResult>,
    /// Open connections: median over services.
    pub connections: Option<f64>,
    /// Services whose own out-of-memory handler freed memory.
    pub oom_services: u32,
    /// What it freed, all services together, in bytes.
    pub oom_bytes: f64,
    /// Who has which flag at the last reading.
    pub flags: Vec<FlagCount>,
}

/// An arm's work by one measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureResult {
    /// What is counted, in the plural: `bytes`, `documents`.
    pub name: String,
    /// Services of which it is known.
    pub services: u32,
    pub of: u32,
    /// Services that did nothing: they are not in `amount` and `memory_for_each`, and count a
    /// thousandth of the control's in `ratio`.
    pub idle: u32,
    /// What a service did a second of its age, or the share that did not fail: geometric mean over services. Of a lab's relays
    /// that rest after each consensus ages are hours of life, and so is this second.
    pub amount: Option<f64>,
    /// What was counted of all services together over the time over which memory is compared: done, or failed.
    pub total: f64,
    /// Where failures are counted: what was tried over the same time.
    pub tried: Option<f64>,
    /// `amount` over that of the control, with its interval. Where less is better, above 1 is worse.
    pub ratio: Option<RatioToControl>,
    /// Whether less of it is better, as of a latency.
    pub less_is_better: bool,
    /// CPU seconds for each unit of what was done: geometric mean over services. Not of failures and of what is better less.
    pub cpu_seconds_for_each: Option<f64>,
    /// `cpu_seconds_for_each` over that of the control, with its interval.
    pub cpu_ratio: Option<RatioToControl>,
    /// Page faults for each unit: geometric mean over services.
    pub page_faults_for_each: Option<f64>,
    /// Bytes of memory for each unit a second: geometric mean over services. Not of failures.
    pub memory_for_each: Option<f64>,
    /// `memory_for_each` over that of the control, with its interval.
    pub memory_ratio: Option<RatioToControl>,
    /// Whether the arm does the control's work by this measure.
    pub standing: WorkStanding,
}

impl ArmWork {
    pub(crate) fn measure(&self, name: &str) -> Option<&MeasureResult> {
        self.measures.iter().find(|measure| measure.name == name)
    }
}

impl MeasureResult {
    /// The arm's work in proportion to the control's: below 1 is less work, or work that took longer.
    pub fn of_work(&self) -> Option<Estimate> {
        let estimate = self.ratio.as_ref()?.estimate;
        Some(if self.less_is_better { estimate.inverse() } else { estimate })
    }
}

/// Whether an arm does its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkStanding {
    /// Nothing says that it does less than the control.
    DoesItsWork,
    /// It is shown to do less.
    ClearlyLess,
    /// It was not measured, or the interval is too wide.
    Unknown,
}

/// How many services have a flag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlagCount {
    pub name: TorFlag,
    pub with: u32,
    /// Services of which it is known.
    pub of: u32,
}
