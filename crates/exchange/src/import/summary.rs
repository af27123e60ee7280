//! What an import did, counted and in notes.

use heaptrial_model::LifeStart;
use heaptrial_store::{ImportedService, ImportedTrial};
use serde::Serialize;

use crate::problem::Problems;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArmSummary {
    pub name: String,
    pub control: bool,
    pub claimed_allocator: Option<String>,
    pub services: usize,
}

/// What an import did, and what was decided on the way.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ImportSummary {
    pub trial: String,
    pub trial_id: i64,
    pub replaced: bool,
    pub arms: Vec<ArmSummary>,
    pub services: usize,
    pub ungrouped_services: usize,
    pub samples: u64,
    pub duplicate_samples: u64,
    pub lives_observed: u64,
    pub lives_inferred: u64,
    pub lives_unknown: u64,
    pub events: usize,
    pub timezone: String,
    /// Times without an offset that were read so; the rows of a collection share one.
    pub local_times: u64,
    pub problems: Problems,
    pub notes: Vec<String>,
}

impl ImportSummary {
    /// What can be counted in the trial itself.
    pub(crate) fn of(trial: &ImportedTrial) -> Self {
        let measured: Vec<&ImportedService> =
            trial.services.iter().filter(|service| !service.lives.is_empty()).collect();
        let lives = || measured.iter().flat_map(|service| &service.lives);
        let with = |wanted: fn(LifeStart) -> bool| lives().filter(|life| wanted(life.start)).count() as u64;
        let arms = trial.plan.arms.iter().enumerate().map(|(index, arm)| ArmSummary {
            name: arm.name.clone(),
            control: arm.control,
            claimed_allocator: arm.treatment.allocator.as_ref().map(ToString::to_string),
            services: measured.iter().filter(|service| service.arms().any(|own| own == index)).count(),
        });
        Self {
            trial: trial.plan.name.clone(),
            arms: arms.collect(),
            services: measured.len(),
            samples: lives().map(|life| life.samples.len() as u64).sum(),
            lives_observed: with(|start| start == LifeStart::Observed),
            lives_inferred: with(|start| matches!(start, LifeStart::Inferred { .. })),
            lives_unknown: with(|start| start == LifeStart::Unknown),
            events: trial.events.len(),
            ..Self::default()
        }
    }
}

/// Up to eight names, and how many more there are.
pub(crate) fn some_of<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(8);
    let mut shown: Vec<&str> = names.take(8).collect();
    let rest = format!("{more} more");
    if more > 0 {
        shown.push(&rest);
    }
    shown.join(", ")
}
