//! Whether the arms were alike before the trial.

use std::collections::BTreeMap;

use heaptrial_model::{DrawnPlan, units};
use heaptrial_stats::{mean, variance};
use serde::Serialize;

use crate::Candidate;

/// A difference beyond this is worth a word (D. B. Rubin, "Using propensity scores to help design observational
/// studies", Health Services & Outcomes Research Methodology 2 (2001): a quarter of a standard deviation).
pub const WORTH_A_WORD: f64 = 0.25;

/// Services that spread less than this on the log scale, 1%, are alike.
const ALIKE: f64 = 0.01;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Balance {
    pub arms: Vec<ArmBalance>,
    /// Of every arm but the control, for everything that differs between services; largest first.
    pub differences: Vec<Difference>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmBalance {
    pub arm: String,
    pub control: bool,
    pub services: usize,
    pub roles: BTreeMap<String, usize>,
    pub hosts: BTreeMap<String, usize>,
    pub baseline_bytes: Option<Spread>,
    pub age_seconds: Option<Spread>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

/// How far an arm is from the control, in standard deviations over all services of the trial (P. C. Austin, "Balance
/// diagnostics for comparing the distribution of baseline covariates between treatment groups", Statistics in Medicine
/// 28 (2009)). All services, since two or three of an arm hardly have a standard deviation of their own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    pub arm: String,
    /// What differs, on the log scale: `memory` or `age`. Ages count from a day on, because memory of services of some minutes and of some
    /// hours says equally little. Blocks see to roles and hosts.
    pub what: &'static str,
    pub standardised: f64,
}

/// The balance of a plan, by what was known of its services.
pub fn balance(plan: &DrawnPlan, candidates: &[Candidate]) -> Balance {
    let known: BTreeMap<_, _> =
        candidates.iter().map(|candidate| ((&candidate.host, &candidate.service), candidate)).collect();
    let members: Vec<Vec<&Candidate>> = plan
        .arms
        .iter()
        .map(|arm| {
            let own = plan.services.iter().filter(|assignment| assignment.arm == arm.name);
            own.filter_map(|assignment| known.get(&(&assignment.host, &assignment.service)).copied())
                .collect()
        })
        .collect();
    let arms = plan
        .arms
        .iter()
        .zip(&members)
        .map(|(arm, members)| ArmBalance {
            arm: arm.name.clone(),
            control: arm.control,
            services: members.len(),
            roles: counts(members, |candidate| &candidate.role),
            hosts: counts(members, |candidate| &candidate.host),
            baseline_bytes: spread(members, memory),
            age_seconds: spread(members, |candidate| candidate.age_seconds),
        })
        .collect();
    Balance { arms, differences: differences(plan, &members) }
}

impl Balance {
    pub fn large(&self) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(|difference| difference.standardised.abs() > WORTH_A_WORD)
    }
}

fn memory(candidate: &Candidate) -> Option<f64> {
    candidate.baseline_bytes.map(|bytes| bytes as f64)
}

fn counts(members: &[&Candidate], of: impl Fn(&Candidate) -> &String) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    members.iter().for_each(|member| *counts.entry(of(member).clone()).or_insert(0) += 1);
    counts
}

fn spread(members: &[&Candidate], of: impl Fn(&Candidate) -> Option<f64>) -> Option<Spread> {
    let values: Vec<f64> = members.iter().filter_map(|member| of(member)).collect();
    let logs: Vec<f64> = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
    (!logs.is_empty()).then(|| Spread {
        mean: mean(&logs).exp(),
        low: values.iter().copied().fold(f64::INFINITY, f64::min),
        high: values.iter().copied().fold(0.0, f64::max),
    })
}

/// Something known of services as a number, by its name.
type Covariate<'a> = (&'static str, &'a dyn Fn(&Candidate) -> Option<f64>);

fn differences(plan: &DrawnPlan, members: &[Vec<&Candidate>]) -> Vec<Difference> {
    let all: Vec<&Candidate> = members.iter().flatten().copied().collect();
    let log = |value: Option<f64>| value.filter(|value| *value > 0.0).map(f64::ln);
    let memory = |candidate: &Candidate| log(memory(candidate));
    let age = |candidate: &Candidate| log(candidate.age_seconds.map(|age| units::DAY + age));
    let covariates: [Covariate<'_>; 2] = [("memory", &memory), ("age", &age)];
    let Some(control) = plan.arms.iter().position(|arm| arm.control) else { return Vec::new() };
    let mut found = Vec::new();
    for (what, value) in covariates {
        let values = |services: &[&Candidate]| -> Vec<f64> {
            services.iter().filter_map(|service| value(service)).collect()
        };
        let (controls, deviation) =
            (values(&members[control]), variance(&values(&all)).map_or(0.0, f64::sqrt));
        if controls.is_empty() || deviation < ALIKE {
            continue;
        }
        for (index, arm) in plan.arms.iter().enumerate().filter(|(index, _)| *index != control) {
            let own = values(&members[index]);
            if !own.is_empty() {
                let standardised = (mean(&own) - mean(&controls)) / deviation;
                found.push(Difference { arm: arm.name.clone(), what, standardised });
            }
        }
    }
    found.sort_by(|a, b| b.standardised.abs().total_cmp(&a.standardised.abs()));
    found
}
