//! What speaks against a rollout before it may start.

use std::collections::BTreeMap;

use heaptrial_allocator::Obtained;
use heaptrial_fleet::rollout::{Forced, MeasuredTreatment, RolloutPlan, settings_of};
use heaptrial_host::{HostFacts, HostRoot};
use heaptrial_model::units;

use super::options::StartOptions;
use super::target::Target;
use crate::exit::Failure;

/// Refuses what speaks against it, unless that is accepted with a reason.
pub(super) fn admit(
    options: &StartOptions,
    target: &Target,
    obtained: &BTreeMap<String, Obtained>,
) -> Result<Option<Forced>, Failure> {
    let host = HostFacts::read(&HostRoot::default()).map_err(Failure::failed)?;
    let objections = target.verdict.refusals(&host, &wanted(target, obtained, &host));
    match (&options.force, objections.is_empty()) {
        (_, true) => Ok(None),
        (Some(reason), false) => Ok(Some(Forced { reason: reason.clone(), objections })),
        (None, false) => Err(Failure::refused(format!(
            "what is known speaks against a rollout of {}: {}. A build flag or a setting can matter more than the version. Measure it \
             with `heaptrial trial`, install the build that was measured, or say --force REASON, which keeps this with the reason in the \
             rollout's record",
            target.verdict.arm.name,
            objections.join("; ")
        ))),
    }
}

/// The treatment as services would get it now.
fn wanted(target: &Target, obtained: &BTreeMap<String, Obtained>, host: &HostFacts) -> MeasuredTreatment {
    let treatment = &target.verdict.arm.treatment;
    let obtained = obtained.get(&target.verdict.arm.name);
    let library = obtained.filter(|obtained| obtained.library.is_some());
    let own = obtained.filter(|obtained| obtained.library.is_none());
    MeasuredTreatment {
        library: library.map(|obtained| obtained.sha256.clone()),
        c_library: own.and_then(|obtained| obtained.version.as_ref()).map(ToString::to_string),
        settings: obtained.map(|obtained| settings_of(&obtained.settings)).unwrap_or_default(),
        torrc: treatment.torrc.clone(),
        restart_every: treatment.restart_every,
        thp_mode: host.thp_mode.clone(),
    }
}

/// Whether the trial saw services as old as they will be when a gate looks at them.
pub(super) fn reaches(plan: &RolloutPlan) -> Result<(), Failure> {
    let ratios = plan.strata.iter().filter_map(|stratum| Some((&stratum.name, stratum.ratio.as_ref()?)));
    let Some((stratum, ratio)) = ratios.min_by(|a, b| a.1.end_age().total_cmp(&b.1.end_age())) else {
        return Ok(());
    };
    let soak = (0..plan.waves.len()).map(|wave| plan.soak_of(wave)).max();
    let Some(soak) = soak.filter(|soak| soak.0.as_secs_f64() > ratio.end_age()) else { return Ok(()) };
    Err(Failure::refused(format!(
        "waves are watched for {soak}, and the trial's ratio for {stratum} reaches to an age of {}: gates would miss data. Give a shorter \
         --soak",
        units::duration(ratio.end_age())
    )))
}
