//! Parts of a report.

use heaptrial_analysis::BeforeAfter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FindingKind, FlagCount, MeasureResult, Ratio, Severity, WorkStanding};

/// An arm's figures over the services that belong to it, without off-treatment services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AsTreated {
    pub services: u32,
    /// Arithmetic mean of the last readings of the metric.
    pub final_bytes: Option<u64>,
    /// The same where the metric is RSS.
    pub rss_bytes_final: Option<u64>,
    /// Geometric mean of the levels at the matched age.
    pub level_bytes: Option<u64>,
    /// The arm's memory in proportion to the control's, both without off-treatment services.
    pub ratio_to_control: Option<Ratio>,
}

/// Something odd about the data, and what it does to the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    pub kind: FindingKind,
    pub severity: Severity,
    /// Names of the arms that it is about.
    pub arms: Vec<String>,
    /// Names of the services that it is about.
    pub services: Vec<String>,
    pub evidence: String,
    /// What it does to the result.
    pub effect: String,
}

/// A sudden change of level common to the services of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelChange {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Median age of the services then, in days.
    pub age_days: f64,
    /// Level after over level before.
    pub factor: f64,
    pub services_agreeing: u32,
    /// Services that have readings on both sides.
    pub services: u32,
    /// p-value, adjusted for all times that were looked at (Holm).
    pub p_value: f64,
}

/// A file that data were imported from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    pub file: String,
    /// `memory`, `groups`, `config`, `events` or `diagnostics`.
    pub role: String,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    pub rows: u64,
    /// Malformed rows that were left out.
    pub skipped: u64,
}

/// The memory that services can use before something breaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryLimit {
    pub service_bytes: Option<u64>,
    pub host_bytes: Option<u64>,
    /// Of the host's memory, what was available at the last reading.
    pub host_available_bytes: Option<u64>,
}

/// The work of an arm, without off-treatment services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Services of which it is known over the window of comparison.
    pub services: u32,
    /// Bytes read and written a second: geometric mean over services.
    pub bytes_per_second: Option<f64>,
    /// The same over that of the control.
    pub ratio_to_control: Option<Ratio>,
    /// Bytes of memory for each 10^6 bytes read and written a second: geometric mean over services.
    pub memory_bytes_per_mb_per_second: Option<f64>,
    /// Whether it does the control's work by all its measures.
    pub standing: WorkStanding,
    /// Every measure of work that is known of any arm.
    pub measures: Vec<MeasureResult>,
    /// Open connections: median over services.
    pub connections: Option<f64>,
    /// Services whose own out-of-memory handler freed memory.
    pub oom_services: u32,
    /// What it freed, all services together.
    pub oom_bytes: u64,
    /// Who has which flag of its network at the last reading.
    pub flags: Vec<FlagCount>,
}

/// An analysis of a running trial at a time fixed in advance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedLook {
    pub number: u32,
    /// When, in seconds since the last service had its treatment.
    pub planned_seconds: f64,
    /// What it may spend of the error probability.
    pub alpha: f64,
    /// When it was taken, RFC 3339 in UTC; `None` where it was not.
    pub taken_at: Option<String>,
    pub result: Option<String>,
}

/// A service whose level is far from that of its arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outlier {
    pub service: String,
    pub arm: String,
    /// Its level at the matched age.
    pub level_bytes: f64,
    /// Median over the services of the arm.
    pub median_bytes: f64,
    pub factor: f64,
}

/// What the services of an arm need together on a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSum {
    /// The server's label; `None` where no name has one.
    pub server: Option<String>,
    pub arm: String,
    /// Services that were read to the end.
    pub services: u32,
    /// Services that were read no more before the end: what they had is in no sum.
    pub gone: u32,
    /// Sum of their last readings.
    pub last_bytes: f64,
    /// The same services before and after their treatment changed; `None` where none was read before, or no event tells of any change.
    pub compared: Option<BeforeAfter>,
}

/// A host of a trial over several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialHost {
    /// Its name in the plan.
    pub name: String,
    pub services: u32,
    /// Operating system and its release.
    pub os: Option<String>,
    pub kernel: Option<String>,
    /// The first processor's model name.
    pub cpu_model: Option<String>,
    pub cpu_count: Option<u32>,
    pub ram_bytes: Option<u64>,
    /// When the trial was started there, RFC 3339 in UTC.
    pub started_at: String,
    /// When it ended there; `None` where it ran when it was gathered.
    pub ended_at: Option<String>,
    /// Its last reading that is here; `None` where there is none.
    pub last_at: Option<String>,
}
