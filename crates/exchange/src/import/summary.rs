//! What an import did.

use heaptrial_model::LifeStart;
use heaptrial_store::{ImportedService, ImportedTrial};
use serde::Serialize;

use super::lists::Wanted;
use crate::problem::Problems;

/// One arm of an imported trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArmSummary {
    pub name: String,
    /// Whether it is the control.
    pub control: bool,
    /// The allocator that its name or the configuration claims.
    pub claimed_allocator: Option<String>,
    /// Services in its list that were measured.
    pub services: usize,
}

/// What an import did, and what was decided on the way.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ImportSummary {
    pub trial: String,
    pub trial_id: i64,
    /// Whether an earlier import of this name was replaced.
    pub replaced: bool,
    pub arms: Vec<ArmSummary>,
    /// Services in the arms that were measured.
    pub services: usize,
    /// Measured services that are in no arm; their readings are not stored.
    pub ungrouped_services: usize,
    pub samples: u64,
    /// Readings that the files have more than once.
    pub duplicate_samples: u64,
    /// Lives whose start was reported.
    pub lives_observed: u64,
    /// Lives whose start was inferred.
    pub lives_inferred: u64,
    /// Lives that began before the first reading.
    pub lives_unknown: u64,
    pub events: usize,
    /// The timezone of times without an offset, of files.
    pub timezone: String,
    /// Times without an offset that were read so; the rows of a collection share one.
    pub local_times: u64,
    /// What was wrong with parts of the files.
    pub problems: Problems,
    /// What was decided or excluded, in sentences.
    pub notes: Vec<String>,
}

fn is_measured(service: &ImportedService) -> bool {
    !service.lives.is_empty()
}

impl ImportSummary {
    /// What can be counted in the trial itself.
    pub(crate) fn of(trial: &ImportedTrial) -> Self {
        let lives = || trial.services.iter().flat_map(|service| &service.lives);
        let with = |wanted: fn(LifeStart) -> bool| lives().filter(|life| wanted(life.start)).count() as u64;
        Self {
            trial: trial.plan.name.clone(),
            services: trial.services.iter().filter(|service| is_measured(service)).count(),
            samples: lives().map(|life| life.samples.len() as u64).sum(),
            lives_observed: with(|start| start == LifeStart::Observed),
            lives_inferred: with(|start| matches!(start, LifeStart::Inferred { .. })),
            lives_unknown: with(|start| start == LifeStart::Unknown),
            events: trial.events.len(),
            ..Self::default()
        }
    }
}

pub(crate) fn arm_summaries(wanted: &Wanted, trial: &ImportedTrial) -> Vec<ArmSummary> {
    let lists = wanted.lists.iter().zip(&trial.lists);
    lists
        .map(|(wanted, list)| ArmSummary {
            name: list.arm.name.clone(),
            control: list.arm.control,
            claimed_allocator: wanted.claimed_allocator().map(ToString::to_string),
            services: list.members.iter().filter(|index| is_measured(&trial.services[**index])).count(),
        })
        .collect()
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
