//! What is rolled out: an arm of an ended trial, or an allocator by its spec.

use std::collections::BTreeMap;
use std::path::Path;

use heaptrial_allocator::Obtained;
use heaptrial_analysis::{Fleet, Forecast, Settings};
use heaptrial_field::{Places, Prepared, Stage, TrialStage, read_prepared, read_state, trials};
use heaptrial_model::{AllocatorSpec, Arm, Metric, ServicePattern, Treatment};
use heaptrial_plan::Build;
use heaptrial_report::{Options, read_fleet};
use heaptrial_store::Store;

use crate::commands::trial::on_host::failure_of;
use crate::exit::Failure;

/// What is rolled out, and what is known of it.
pub struct Target {
    /// The trial that measured it.
    pub trial: Option<Prepared>,
    /// What services get.
    pub arm: Arm,
    /// The very build that was measured.
    pub build: Option<Build>,
    /// Which services.
    pub patterns: Vec<String>,
    /// What is compared.
    pub metric: Metric,
    /// The trial's readings, where the database has them.
    pub fleet: Option<Fleet>,
}

/// An arm of a trial that has ended on this host.
pub fn of_trial(
    places: &Places,
    database: &Path,
    name: &str,
    arm: Option<&str>,
    patterns: &[ServicePattern],
) -> Result<Target, Failure> {
    let prepared = read_prepared(places, name).map_err(failure_of)?;
    let state = read_state(places, name).map_err(failure_of)?;
    if prepared.rollout.is_some() {
        return Err(Failure::refused(format!(
            "`{name}` is a rollout; `heaptrial rollout resume {name}` goes on with it"
        )));
    }
    if state.stage != TrialStage::Stopped && state.stage != TrialStage::Reverted {
        return Err(Failure::refused(format!(
            "trial `{name}` has not ended, and a rollout would change what its arms run; `heaptrial trial stop {name}` ends it and leaves services as they are"
        )));
    }
    let arms = &prepared.plan.arms;
    let known = arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>().join(", ");
    let Some(wanted) = arm else {
        return Err(Failure::usage(format!("which arm of trial `{name}`? --arm takes one of: {known}")));
    };
    let arm = arms
        .iter()
        .find(|arm| arm.name == wanted)
        // `mimalloc-2.0.9` is how one says `mimalloc@2.0.9`, which is what `trial new` names an arm.
        .or_else(|| arms.iter().find(|arm| arm.name.replace('@', "-") == wanted))
        .ok_or_else(|| Failure::usage(format!("trial `{name}` has no arm `{wanted}`; it has {known}")))?;
    let wanted = arm.name.as_str();
    if arm.treatment.allocator.is_none() {
        return Err(Failure::refused(format!(
            "arm `{wanted}` of trial `{name}` names no allocator, and services of other arms run another one: what all of them shall run cannot be told. Measure an arm that names it, such as allocator = \"glibc\""
        )));
    }
    let own = prepared.services.iter().map(|treatment| quoted(treatment.service.as_str()));
    let patterns = if patterns.is_empty() { own.collect() } else { words(patterns) };
    Ok(Target {
        build: prepared.plan.builds.get(wanted).cloned(),
        metric: prepared.plan.metric,
        fleet: fleet_of(database, &prepared),
        arm: Arm { control: true, ..arm.clone() },
        patterns,
        trial: Some(prepared),
    })
}

/// An allocator, without a trial of this host that is named.
pub fn of_spec(spec: &AllocatorSpec, patterns: &[ServicePattern]) -> Result<Target, Failure> {
    if patterns.is_empty() {
        return Err(Failure::usage("--allocator needs --services, such as --services 'tor@*'"));
    }
    let treatment = Treatment { allocator: Some(spec.clone()), ..Treatment::default() };
    Ok(Target {
        trial: None,
        arm: Arm { name: spec.to_string(), control: true, treatment },
        build: None,
        patterns: words(patterns),
        metric: Metric::Rss,
        fleet: None,
    })
}

/// The trial of this host in which a build ran in a proved service.
pub fn measured_in(places: &Places, sha256: &str) -> Option<String> {
    trials(places).into_iter().find(|name| {
        let Ok(state) = read_state(places, name) else { return false };
        let proved = |service: &heaptrial_field::ServiceState| {
            service.identity.as_ref().is_some_and(|identity| identity.sha256.as_deref() == Some(sha256))
        };
        let is_trial = read_prepared(places, name).is_ok_and(|prepared| prepared.rollout.is_none());
        is_trial && state.services.values().any(proved)
    })
}

/// The forecast of the arm, or why there is none.
pub fn forecast(target: &Target) -> Result<Forecast, String> {
    let fleet = target.fleet.as_ref().ok_or("the database has no readings of a trial with it")?;
    Forecast::of_arm(fleet, &Settings::default(), &target.arm.name).map_err(|error| error.to_string())
}

/// Whether the build at hand is the one that the trial's processes were proved to run.
pub fn is_proved(target: &Target, places: &Places, obtained: &BTreeMap<String, Obtained>) -> bool {
    let Some(prepared) = &target.trial else { return false };
    let Ok(state) = read_state(places, &prepared.plan.name) else { return false };
    let of_arm = |service: &&heaptrial_field::ServiceState| {
        service.arm == target.arm.name && matches!(service.stage, Stage::Committed | Stage::Reverted)
    };
    let proved: Vec<Option<String>> = state
        .services
        .values()
        .filter(of_arm)
        .filter_map(|service| Some(service.identity.as_ref()?.sha256.clone()))
        .collect();
    match obtained.get(&target.arm.name).filter(|obtained| obtained.library.is_some()) {
        Some(obtained) => proved.iter().any(|sha256| sha256.as_deref() == Some(obtained.sha256.as_str())),
        // The service's own C library is whatever the host has.
        None => !proved.is_empty(),
    }
}

fn fleet_of(database: &Path, prepared: &Prepared) -> Option<Fleet> {
    let store = Store::open(database).ok()?;
    let id = prepared.plan.id.as_str();
    let row = store.trials().ok()?.into_iter().rfind(|row| row.plan.parameters["plan"]["id"] == id)?;
    read_fleet(&store, row.id, &Options::default()).ok()
}

fn words(patterns: &[ServicePattern]) -> Vec<String> {
    patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect()
}

/// systemd takes names as patterns, in which a backslash quotes.
fn quoted(name: &str) -> String {
    name.replace('\\', "\\\\")
}
