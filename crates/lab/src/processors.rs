//! How many processors services see, and as on how many their allocators run.

use std::collections::BTreeMap;

use heaptrial_allocator::{AsOn, Catalog};
use serde_json::{Value, json};

use crate::LabPlan;

/// The parameters of a workload with the processors that its services see (those that this process may run on, which
/// they inherit) and what was done so that their allocators run as on another number.
pub(crate) fn with_processors(mut parameters: Value, plan: &LabPlan) -> Value {
    let mut told = json!({ "seen": seen() });
    if let Some(processors) = plan.processors {
        let arms: BTreeMap<&str, String> = as_on(plan).map(|(arm, as_on)| (arm, as_on.to_string())).collect();
        told["as_on"] = processors.into();
        told["arms"] = json!(arms);
    }
    parameters["processors"] = told;
    parameters
}

/// What to say of arms that do not run as on the number of processors asked for.
pub(crate) fn not_as_on(plan: &LabPlan) -> Vec<String> {
    let told = as_on(plan).filter_map(|(arm, as_on)| match as_on {
        AsOn::Impossible(_) => {
            Some(format!("{arm} could not be run as on {} processors; it ran {as_on}", plan.processors?))
        }
        _ => None,
    });
    told.collect()
}

fn as_on(plan: &LabPlan) -> impl Iterator<Item = (&str, AsOn)> {
    let number = plan.processors;
    plan.arms.iter().filter_map(move |prepared| {
        let arm = &prepared.arm;
        Some((arm.name.as_str(), Catalog::builtin().as_on(&arm.allocator(), number?)))
    })
}

/// Processors that this process may run on; `None` where the kernel does not tell.
fn seen() -> Option<u32> {
    rustix::thread::sched_getaffinity(None).ok().map(|set| set.count())
}
