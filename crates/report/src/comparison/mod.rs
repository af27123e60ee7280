//! Several trials side by side. Numbers of different trials are never pooled into one.

mod caveats;
mod forms;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::{Arm, Assignment, Estimate, Host, Kind, Ratio, Report};
use crate::{libraries, table};
use heaptrial_model::{MappedLibrary, Metric};

/// The form of [`Comparison`] as JSON.
pub const COMPARISON_SCHEMA_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub schema_version: u32,
    /// The trials in the order given.
    pub trials: Vec<ComparedTrial>,
    /// The treatments, best first: by the highest ratio to the control that a treatment has in any trial. Those
    pub treatments: Vec<ComparedTreatment>,
    pub caveats: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedTrial {
    pub name: String,
    pub kind: Kind,
    /// Start, RFC 3339 in UTC.
    pub started_at: String,
    pub duration_seconds: f64,
    pub control: Option<String>,
    pub metric: Metric,
    /// Age at which services are compared; `None` where there is none.
    pub matched_age_seconds: Option<f64>,
    pub assignment: Option<Assignment>,
    pub services: u32,
    pub shares_measurements: bool,
    pub host: Host,
    pub tool_version: String,
    /// The shared libraries that its services mapped, without the allocators; empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<MappedLibrary>,
    /// How a lab's services were run and loaded: options and their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Value>,
}

/// A treatment with its result in each trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedTreatment {
    pub treatment: String,
    /// Its arm in each trial, in the order of the trials; `None` where a trial has none.
    pub results: Vec<Option<ArmInTrial>>,
}

/// An arm of one of the trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmInTrial {
    pub arm: String,
    pub control: bool,
    /// Its place in its trial by memory, from 1.
    pub place: Option<u32>,
    pub services: u32,
    pub level_bytes: Option<u64>,
    pub ratio_to_control: Option<Ratio>,
    /// Growth as a share a day, in a field trial.
    pub growth_share_per_day: Option<Estimate>,
    /// Growth in bytes an hour.
    pub slope_bytes_per_hour: Option<f64>,
    pub verdict: Option<String>,
    pub does_less: bool,
}

/// Puts reports side by side. Arms are matched by their treatment, or by name where it is not known.
pub fn compare(reports: &[Report]) -> Comparison {
    let mut treatments: Vec<ComparedTreatment> = Vec::new();
    for (trial, report) in reports.iter().enumerate() {
        let order = report.ranking();
        for (index, arm) in report.arms.iter().enumerate() {
            let place = order
                .iter()
                .position(|ranked| *ranked == index)
                .filter(|_| arm.memory.is_some() && !arm.does_less());
            let treatment = treatment(arm);
            // A second arm of the same treatment in one trial is one by itself.
            let free = |known: &&mut ComparedTreatment| {
                known.treatment == treatment && known.results[trial].is_none()
            };
            let result = Some(in_trial(arm, place.map(|place| place as u32 + 1)));
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
    let measured = |report: &Report| -> Vec<String> {
        let memory = report.sources.iter().filter(|source| source.role == "memory");
        memory.map(|source| source.sha256.clone()).collect()
    };
    let files: Vec<Vec<String>> = reports.iter().map(measured).collect();
    for (index, trial) in trials.iter_mut().enumerate() {
        let mut others = files.iter().enumerate().filter(|(other, _)| *other != index);
        trial.shares_measurements =
            others.any(|(_, other)| other.iter().any(|file| files[index].contains(file)));
    }
    let caveats = caveats::of(reports, &trials, &treatments);
    Comparison { schema_version: COMPARISON_SCHEMA_VERSION, trials, treatments, caveats }
}

impl ComparedTreatment {
    /// The highest ratio to a control in any trial; of one that does less somewhere none, which comes last.
    fn worst(&self) -> f64 {
        let results = || self.results.iter().flatten();
        if results().any(|result| result.does_less) {
            return f64::INFINITY;
        }
        let ratios = results().filter_map(|result| match &result.ratio_to_control {
            Some(ratio) => Some(ratio.estimate),
            None => result.control.then_some(1.0),
        });
        ratios.max_by(f64::total_cmp).unwrap_or(f64::INFINITY)
    }
}

fn treatment(arm: &Arm) -> String {
    Some(table::treatment(arm)).filter(|text| !text.is_empty()).unwrap_or_else(|| arm.name.clone())
}

fn in_trial(arm: &Arm, place: Option<u32>) -> ArmInTrial {
    ArmInTrial {
        arm: arm.name.clone(),
        control: arm.control,
        place,
        services: arm.services_belonging(),
        level_bytes: arm.level().map(|bytes| bytes.round() as u64),
        ratio_to_control: arm.ratio().map(Ratio::from),
        growth_share_per_day: arm.result.growth.as_ref().map(|growth| growth.share_per_day),
        slope_bytes_per_hour: match &arm.result.growth {
            Some(growth) => Some(growth.bytes_per_day.value / 24.0),
            None => arm.slope_bytes_per_hour,
        },
        verdict: arm.verdict.clone(),
        does_less: arm.does_less(),
    }
}

fn trial(report: &Report) -> ComparedTrial {
    let mut services: Vec<&str> = report.services.iter().map(|service| service.name.as_str()).collect();
    services.sort_unstable();
    services.dedup();
    ComparedTrial {
        name: report.name.clone(),
        kind: report.kind,
        started_at: report.started_at.clone(),
        duration_seconds: report.duration_seconds,
        control: report.control().map(treatment),
        metric: report.analysis.metric,
        matched_age_seconds: report.analysis.matched_age_seconds,
        assignment: report.assignment,
        services: services.len() as u32,
        shares_measurements: false,
        host: report.host.clone(),
        tool_version: report.tool_version.clone(),
        libraries: libraries::all(report),
        parameters: report
            .parameters
            .as_object()
            .filter(|_| report.kind.is_lab())
            .map(|parameters| parameters.clone().into_iter().collect())
            .unwrap_or_default(),
    }
}
