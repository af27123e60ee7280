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
    pub looks: u32,
    /// Start of the trial, RFC 3339 in UTC.
    pub started_at: String,
    /// When the look was planned, in seconds since the last service had its treatment.
    pub planned_seconds: Option<f64>,
    /// The last reading that it is of, RFC 3339 in UTC.
    pub data_until: String,
    /// By how much the last reading is before the planned time, in seconds, where that is so much that the look was
    pub accepted_gap_seconds: Option<f64>,
    /// When it was taken, RFC 3339 in UTC.
    pub taken_at: String,
    pub metric: Metric,
    pub matched_age_seconds: Option<f64>,
    pub alpha: Option<f64>,
    pub alpha_spent: Option<f64>,
    pub confidence_level: Option<f64>,
    /// The arms in the order given.
    pub arms: Vec<LookedArm>,
    /// What follows; `None` of a peek.
    pub decision: Option<Decision>,
    pub result: String,
    /// When the next look is planned, RFC 3339 in UTC.
    pub next_look_at: Option<String>,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookedArm {
    pub name: String,
    pub control: bool,
    pub services: u32,
    pub services_treated: u32,
    pub level_bytes: Option<u64>,
    pub level_bytes_as_assigned: Option<u64>,
    pub ratio: Option<Ratio>,
    pub ratio_as_assigned: Option<Ratio>,
    pub p_value_adjusted: Option<f64>,
    pub assumes_normality: bool,
    pub assignments_drawn: bool,
    pub standing: LookStanding,
    pub verdict: Option<String>,
    /// What is uncertain about it, and what blocks a recommendation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objections: Vec<Objection>,
    /// Growth a day as a share.
    pub growth_share_per_day: Option<Estimate>,
    pub work: Option<ArmWork>,
    pub events: ArmEvents,
}

impl LookedArm {
    /// An arm of a report; of a peek (`looked` is `None`) without anything that could decide.
    pub(super) fn of(arm: &Arm, looked: Option<&LookArm>) -> Self {
        let whole = |bytes: Option<f64>| bytes.map(|bytes| bytes.round() as u64);
        let (level, assigned) = (whole(arm.level()), whole(arm.result.as_assigned.level_bytes));
        Self {
            name: arm.name.clone(),
            control: arm.control,
            services: arm.services,
            services_treated: arm.services_belonging(),
            level_bytes: level,
            level_bytes_as_assigned: assigned.filter(|_| level != assigned),
            ratio: looked.and(arm.ratio()).map(Ratio::from),
            ratio_as_assigned: looked.and(arm.result.as_treated.as_ref()).and(arm.ratio_to_control.clone()),
            p_value_adjusted: looked.and_then(|looked| looked.p_value_adjusted),
            assumes_normality: looked.is_some_and(|looked| looked.assumes_normality),
            assignments_drawn: looked.is_some_and(|looked| looked.assignments_drawn),
            standing: looked.map_or(LookStanding::NotCompared, |looked| looked.standing),
            verdict: looked.and(arm.verdict.clone()),
            objections: looked.map_or_else(Vec::new, |_| arm.objections.clone()),
            growth_share_per_day: looked.and(arm.result.growth.as_ref()).map(|growth| growth.share_per_day),
            work: looked.and(arm.result.work.clone()),
            events: arm.result.events,
        }
    }
}
