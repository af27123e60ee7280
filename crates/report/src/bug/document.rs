//! What a bug bundle says: `bug.json`.

use heaptrial_analysis::Severity;
use heaptrial_model::Metric;
use serde::{Deserialize, Serialize};

use crate::BisectReport;
use crate::document::{Assignment, Estimate, Host, Kind, Ratio};

/// The form of [`Bug`] as JSON that this version writes.
pub const BUG_SCHEMA_VERSION: u32 = 1;

/// Everything that the maintainers of an allocator get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bug {
    pub schema_version: u32,
    /// The finding in a line.
    pub title: String,
    /// The allocator that needs more, as asked for.
    pub bad: String,
    /// The allocator that it is compared to.
    pub good: String,
    /// Version of Heaptrial that wrote it.
    pub tool_version: String,
    /// One for each run or trial.
    pub evidence: Vec<Evidence>,
    /// Settings whose defaults differ between the two, as the catalog has them.
    pub defaults: Vec<SettingDefault>,
    /// Which release or commit made the difference; `None` where none was searched for.
    pub bisect: Option<BisectReport>,
    /// How to see it again.
    pub reproduce: Vec<Reproduction>,
    /// What the evidence does not show.
    pub limits: Vec<String>,
}

/// What the two allocators have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Common {
    /// One build, with unlike settings.
    Build,
    /// Versions or variants of one family.
    Family,
    Nothing,
}

impl Bug {
    pub(super) fn common(&self) -> Common {
        let up_to = |end: &[char]| {
            let part = |spec: &str| spec.split(end).next().unwrap_or_default().to_owned();
            part(&self.good) == part(&self.bad)
        };
        match (up_to(&['?']), up_to(&['@', '+', '?'])) {
            (true, _) => Common::Build,
            (false, true) => Common::Family,
            (false, false) => Common::Nothing,
        }
    }
}

/// A run or trial that has an arm of the bad allocator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub kind: Kind,
    /// The day of its start.
    pub date: String,
    /// From the start to the end.
    pub duration_seconds: f64,
    pub repeats: u32,
    /// How services came into arms, where Heaptrial did not start them.
    pub assignment: Option<Assignment>,
    pub outcome: String,
    /// The reading that is compared.
    pub metric: Metric,
    /// From which age on medians count.
    pub warm_up_seconds: f64,
    /// The age at which services are compared.
    pub matched_age_seconds: Option<f64>,
    /// How long before that age the window of the level begins, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<f64>,
    pub host: Host,
    /// Version of Heaptrial that ran it.
    pub tool_version: String,
    /// The arm of the bad allocator.
    pub bad_arm: String,
    /// The arm that it is compared to.
    pub good_arm: String,
    pub ratio: Option<Ratio>,
    /// The arms, in the order given.
    pub arms: Vec<ArmEvidence>,
    /// What is odd about the data, grave first.
    pub findings: Vec<OddFinding>,
    /// What may have distorted the result.
    pub warnings: Vec<String>,
    /// Files of its charts, without the ending.
    pub charts: Vec<ChartFile>,
}

/// An arm's figures and what really ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmEvidence {
    pub name: String,
    /// Whether the others are compared to it in the run's own report.
    pub control: bool,
    pub services: u32,
    pub services_excluded: u32,
    /// Median after warm-up, or level at the matched age.
    pub level_bytes: Option<u64>,
    /// Mean of the last readings.
    pub final_bytes: Option<u64>,
    /// Mean of the last RssAnon.
    pub anon_bytes_final: Option<u64>,
    pub ratio_to_control: Option<Ratio>,
    /// Of a field trial: growth as a share a day.
    pub growth_share_per_day: Option<Estimate>,
    /// Of a field trial: growth in bytes a day.
    pub growth_bytes_per_day: Option<Estimate>,
    /// Of a lab run: median slope after warm-up, and the lowest and highest of the services.
    pub slope_bytes_per_hour: Option<Estimate>,
    /// `stable`, `growing`, `bloating` or `inconclusive`.
    pub verdict: Option<String>,
    /// Median age at the last reading.
    pub age_seconds: Option<f64>,
    /// Mean CPU time since start.
    pub cpu_seconds: Option<f64>,
    pub identity: Option<Ran>,
}

/// The build that ran, as proved in the running process, and where it came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    pub label: String,
    /// File name of the library.
    pub file: Option<String>,
    pub build_id: Option<String>,
    pub sha256: Option<String>,
    /// How it got into the process.
    pub linkage: String,
    /// Environment variables in force, name and value.
    pub environment: Vec<(String, String)>,
    /// Where the library came from.
    pub source: Option<String>,
    /// All settings as the loaded library told them, name and value.
    pub settings: Vec<(String, String)>,
}

/// Something odd about the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OddFinding {
    pub severity: Severity,
    pub evidence: String,
    /// What it does to the result.
    pub effect: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChartFile {
    /// Stem of the files' names.
    pub file: String,
    pub title: String,
    pub caption: String,
}

/// A setting whose default differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingDefault {
    pub name: String,
    /// What it does, with the unit of its values.
    pub about: String,
    /// Default in the good version; `None` where it has no such setting.
    pub good: Option<String>,
    /// Default in the bad version.
    pub bad: Option<String>,
}

impl SettingDefault {
    /// Whether both versions have it.
    pub(super) fn is_shared(&self) -> bool {
        self.good.is_some() && self.bad.is_some()
    }
}

/// A command that shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reproduction {
    pub command: String,
    /// Whether figures are of a run with these arms; if not, it is a proposal.
    pub measured: bool,
    /// What to know about it.
    pub notes: Vec<String>,
}
