//! The plan as drawn: a file that can be read, edited, and applied elsewhere.

use std::collections::BTreeMap;

use heaptrial_model::{About, Arm, HumanDuration, Metric, Pace, PlanId, ServiceName};
use serde::{Deserialize, Serialize};

/// Who gets what, when, and how it is looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawnPlan {
    /// The trial's name.
    pub name: String,
    /// Tells this drawing from any other: of the digest of all that was drawn.
    pub id: PlanId,
    /// Version of Heaptrial that drew it.
    pub tool_version: String,
    /// Decides everything random.
    pub seed: u64,
    /// Which reading is compared.
    pub metric: Metric,
    /// How long.
    pub duration: HumanDuration,
    /// Looks as times since the start, ascending; the last is the end.
    pub looks: Vec<HumanDuration>,
    /// How services are restarted.
    pub pace: Pace,
    /// What the trial is about.
    #[serde(default, skip_serializing_if = "About::is_empty")]
    pub about: About,
    /// The arms; exactly one is the control.
    pub arms: Vec<Arm>,
    /// The very build of each arm's allocator, by the arm's name; arms on the service's own C library have none.
    pub builds: BTreeMap<String, Build>,
    /// The services in the order in which they are restarted.
    pub services: Vec<Assignment>,
}

/// The build that an arm's services run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// SHA-256 of the library in hexadecimal.
    pub sha256: String,
    /// Version as the loaded code told it.
    pub version: Option<String>,
    /// Name of the file, such as `libmimalloc.so.2.0`.
    pub file: String,
}

/// What one service gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    /// The service.
    pub service: ServiceName,
    /// The host it runs on, by its host name.
    pub host: String,
    /// Name of the arm.
    pub arm: String,
    /// Block within which the arm was drawn, counted from 0.
    pub block: u32,
    /// What makes the block, such as `exit, 1.2 GiB to 2.0 GiB, older than 7d`.
    pub stratum: String,
    /// Services of one family are never restarted together; `None` has no family.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
}
