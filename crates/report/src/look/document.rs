//! What a look shows, as a document: what is stored of it and printed.

use heaptrial_evaluate::analysis::{ArmEvents, ArmWork, Decision, LookArm, LookStanding, Objection};
use heaptrial_model::Metric;
use serde::{Deserialize, Serialize};

use crate::document::{Arm, Estimate, Finding, Ratio};

/// The form of [`LookReport`] as JSON that this version writes.
pub const LOOK_SCHEMA_VERSION: u32 = 1;

/// A look at a running trial. Of a peek, everything that could decide is missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookReport {
    pub schema_version: u32,
    pub trial: String,
    /// Which look, from 1; `None` of a peek.
    pub number: Option<u32>,
    /// How many looks were planned.
    pub looks: u32,
    /// Start of the trial, RFC 3339 in UTC.
    pub started_at: String,
    /// When the look was planned, in seconds since the last service had its treatment.
    pub planned_seconds: Option<f64>,
    /// The last reading that it is of, RFC 3339 in UTC.
    pub data_until: String,
    /// By how much the last reading is before the planned time, in seconds, where that is so much that the look was
    /// taken only because the gap was accepted.
    pub accepted_gap_seconds: Option<f64>,
    /// When it was taken, RFC 3339 in UTC.
    pub taken_at: String,
    /// The reading that is compared.
    pub metric: Metric,
    /// The age at which services are compared.
    pub matched_age_seconds: Option<f64>,
    /// The error probability of this look, over all arms.
    pub alpha: Option<f64>,
    /// That of this look and all before it.
    pub alpha_spent: Option<f64>,
    /// Of the intervals: 1 less `alpha`.
    pub confidence_level: Option<f64>,
    /// The arms in the order given.
    pub arms: Vec<LookedArm>,
    /// What follows; `None` of a peek.
    pub decision: Option<Decision>,
    /// The same as a sentence.
    pub result: String,
    /// When the next look is planned, RFC 3339 in UTC.
    pub next_look_at: Option<String>,
    /// What is odd about the data.
    pub findings: Vec<Finding>,
}

/// An arm at a look.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookedArm {
    pub name: String,
    /// Whether the others are compared to it.
    pub control: bool,
    /// Services that were put into it and have readings.
    pub services: u32,
    /// Of these, services that ran its treatment as far as is proved: what the figures below are over.
    pub services_treated: u32,
    /// Level at the matched age, geometric mean; of a peek the same.
    pub level_bytes: Option<u64>,
    /// The level over all services that were put into it, where that is another.
    pub level_bytes_as_assigned: Option<u64>,
    /// Memory in proportion to the control's, with its interval at the look's level.
    pub ratio: Option<Ratio>,
    /// The same over all services as assigned, where some were non-compliant.
    pub ratio_as_assigned: Option<Ratio>,
    /// p-value of no difference, adjusted for the number of arms.
    pub p_value_adjusted: Option<f64>,
    /// Whether that p-value is of Student's t, which assumes normality of the logarithms: there are too few
    /// assignments for a permutation test at the look's level.
    pub assumes_normality: bool,
    /// Whether there are more assignments than a permutation test looks at, so that these are what is too few.
    pub assignments_drawn: bool,
    /// Where it stands to the control.
    pub standing: LookStanding,
    /// `stable`, `growing`, `bloating` or `inconclusive`.
    pub verdict: Option<String>,
    /// What is uncertain about it, and what blocks a recommendation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objections: Vec<Objection>,
    /// Growth a day as a share.
    pub growth_share_per_day: Option<Estimate>,
    pub work: Option<ArmWork>,
    /// What happened to its services.
    pub events: ArmEvents,
}

impl LookedArm {
    pub(super) fn new(arm: &Arm, looked: &LookArm) -> Self {
        let assigned = arm.result.as_treated.as_ref();
        Self {
            ratio: arm.ratio().map(Ratio::from),
            ratio_as_assigned: assigned.and(arm.ratio_to_control.clone()),
            p_value_adjusted: looked.p_value_adjusted,
            assumes_normality: looked.assumes_normality,
            assignments_drawn: looked.assignments_drawn,
            standing: looked.standing,
            verdict: arm.verdict.clone(),
            objections: arm.objections.clone(),
            growth_share_per_day: arm.result.growth.as_ref().map(|growth| growth.share_per_day),
            work: arm.result.work.clone(),
            ..Self::peeked(arm)
        }
    }

    pub(super) fn peeked(arm: &Arm) -> Self {
        let whole = |bytes: Option<f64>| bytes.map(|bytes| bytes.round() as u64);
        let (level, assigned) = (whole(arm.level()), whole(arm.result.as_assigned.level_bytes));
        Self {
            name: arm.name.clone(),
            control: arm.control,
            services: arm.services,
            services_treated: arm.services_belonging(),
            level_bytes: level,
            level_bytes_as_assigned: assigned.filter(|_| level != assigned),
            ratio: None,
            ratio_as_assigned: None,
            p_value_adjusted: None,
            assumes_normality: false,
            assignments_drawn: false,
            standing: LookStanding::NotCompared,
            verdict: None,
            objections: Vec::new(),
            growth_share_per_day: None,
            work: None,
            events: arm.result.events,
        }
    }
}
