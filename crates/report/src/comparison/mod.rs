//! Several trials side by side. Numbers of different trials are never pooled into one.

mod caveats;
mod forms;

use heaptrial_model::TrialKind;
use serde::{Deserialize, Serialize};

use crate::document::{Arm, Report};
use crate::table;

/// The form of [`Comparison`] as JSON.
pub const COMPARISON_SCHEMA_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub schema_version: u32,
    /// The trials in the order given.
    pub trials: Vec<ComparedTrial>,
    /// The treatments, best first: by the highest ratio to the control that a treatment has in any trial.
    pub treatments: Vec<ComparedTreatment>,
    pub caveats: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedTrial {
    pub name: String,
    pub kind: TrialKind,
    /// Start, RFC 3339 in UTC.
    pub started_at: String,
    pub duration_seconds: f64,
    pub control: Option<String>,
    /// Age at which services are compared; `None` where there is none.
    pub matched_age_seconds: Option<f64>,
    pub services: u32,
}

/// A treatment with its result in each trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedTreatment {
    pub treatment: String,
    /// Its arm in each trial, in the order of the trials; `None` where a trial has none.
    pub results: Vec<Option<ArmInTrial>>,
}

/// An arm of one of the trials, as in its report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmInTrial {
    /// Its place in its trial by memory, from 1; `None` of an arm without a rank.
    pub place: Option<u32>,
    #[serde(flatten)]
    pub arm: Arm,
}

/// Puts reports side by side. Arms are matched by their treatment, or by name where it is not known.
pub fn compare(reports: &[Report]) -> Comparison {
    let mut treatments: Vec<ComparedTreatment> = Vec::new();
    for (trial, report) in reports.iter().enumerate() {
        let ranked = report.ranked();
        for arm in &report.arms {
            let treatment = treatment(arm);
            // A second arm of the same treatment in one trial is one by itself.
            let free = |known: &&mut ComparedTreatment| {
                known.treatment == treatment && known.results[trial].is_none()
            };
            let place = ranked.iter().position(|(other, _)| other.name == arm.name);
            let place = place.map(|place| place as u32 + 1);
            let result = Some(ArmInTrial { place, arm: arm.clone() });
            match treatments.iter_mut().find(free) {
                Some(known) => known.results[trial] = result,
                None => {
                    let mut results = vec![None; reports.len()];
                    results[trial] = result;
                    treatments.push(ComparedTreatment { treatment, results });
                }
            }
        }
    }
    treatments.sort_by(|a, b| a.worst().total_cmp(&b.worst()));
    let mut trials: Vec<ComparedTrial> = reports.iter().map(trial).collect();
    for later in 1..trials.len() {
        let same = reports[..later].iter().filter(|earlier| earlier.name == reports[later].name).count();
        if same > 0 {
            trials[later].name = format!("{} ({})", reports[later].name, same + 1);
        }
    }
    let caveats = caveats::of(reports, &trials, &treatments);
    Comparison { schema_version: COMPARISON_SCHEMA_VERSION, trials, treatments, caveats }
}

impl ComparedTreatment {
    /// The highest ratio to a control in any trial; of one that does less somewhere none, which comes last.
    fn worst(&self) -> f64 {
        let results = || self.results.iter().flatten();
        if results().any(|result| result.arm.does_less()) {
            return f64::INFINITY;
        }
        let ratios = results().filter_map(|result| match result.arm.ratio() {
            Some(ratio) => Some(ratio.estimate.value),
            None => result.arm.control.then_some(1.0),
        });
        ratios.max_by(f64::total_cmp).unwrap_or(f64::INFINITY)
    }
}

fn treatment(arm: &Arm) -> String {
    Some(table::treatment(arm)).filter(|text| !text.is_empty()).unwrap_or_else(|| arm.name.clone())
}

fn trial(report: &Report) -> ComparedTrial {
    ComparedTrial {
        name: report.name.clone(),
        kind: report.kind,
        started_at: report.started_at.clone(),
        duration_seconds: report.duration_seconds,
        control: report.control().map(treatment),
        matched_age_seconds: report.analysis.matched_age_seconds,
        services: report.service_count(),
    }
}
