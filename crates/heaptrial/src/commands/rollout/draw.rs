//! The plan of a rollout: one arm over all services, and the waves in which they get it.

use heaptrial_change::{Prepared, ServiceTreatment, is_as_wanted};
use heaptrial_fleet::rollout::{Forced, RolloutPlan, WaveSizes, freeze, split};
use heaptrial_host::{HostRoot, Instant, Paths, host_name};
use heaptrial_inspect::Service;
use heaptrial_model::{DrawnPlan, HumanDuration, Pace, ServiceName};

use super::before;
use super::options::StartOptions;
use super::target::Target;
use crate::commands::host::obtain::{Allocators, builds};
use crate::commands::trial::plan::family::families;
use crate::commands::trial::plan::undrawn::{assigned, undrawn};
use crate::exit::Failure;

const SEED: u64 = 1;

/// A plan of one arm over all services, for the transaction.
pub(super) fn drawn(
    options: &StartOptions,
    target: &Target,
    name: &str,
    services: &[Service],
    allocators: &Allocators,
) -> Result<DrawnPlan, Failure> {
    let host = host_name(&HostRoot::default())?;
    let relays: Vec<_> = services.iter().map(|service| service.relay.as_ref()).collect();
    let arm = target.arm();
    let assignments = services.iter().zip(families(&relays));
    let assignments = assignments.map(|(service, family)| assigned(service, &host, &arm.name, family));
    let pace = target.verdict.pace;
    let soak: std::time::Duration = options.soak.iter().map(|soak| soak.0).sum();
    let mut plan = DrawnPlan {
        // Two rollouts of one name and plan, the first of them rolled back, are two.
        seed: Instant::now().wall_us.unsigned_abs(),
        metric: target.verdict.metric,
        pace: Pace {
            at_once: options.at_once.unwrap_or(pace.at_once),
            pause: options.pause.unwrap_or(pace.pause),
            failure_budget: 1,
            ..pace
        },
        services: assignments.collect(),
        ..undrawn(name, vec![arm.clone()], (&host, &builds(allocators)), HumanDuration(soak))
    };
    plan.id = plan.digest();
    Ok(plan)
}

/// What is frozen: the services that are not yet as wanted, in waves.
pub(super) fn frozen(
    options: &StartOptions,
    target: &Target,
    forced: Option<Forced>,
    whole: Prepared,
    services: &[Service],
    paths: &Paths,
) -> Result<(Prepared, RolloutPlan), Failure> {
    let is_there = |treatment: &ServiceTreatment| {
        let found = services.iter().find(|service| *service.name() == treatment.service);
        found.is_some_and(|service| is_as_wanted(service, treatment, paths))
    };
    let (already, open): (Vec<ServiceTreatment>, Vec<ServiceTreatment>) =
        whole.services.into_iter().partition(is_there);
    let names: Vec<ServiceName> = open.iter().map(|treatment| treatment.service.clone()).collect();
    let sizes = WaveSizes { canary: options.canary, ..options.waves.clone() };
    let waves = split(&names, &sizes, SEED);
    let order: Vec<ServiceName> = waves.concat();
    let mut treatments = open;
    treatments.sort_by_key(|treatment| order.iter().position(|name| *name == treatment.service));
    let plan = RolloutPlan {
        trial: target.verdict.trial.clone(),
        verdict: target.digest.clone(),
        forced,
        arm: target.verdict.arm.name.clone(),
        seed: SEED,
        already: already.into_iter().map(|treatment| treatment.service).collect(),
        soak: options.soak.clone(),
        quiet_hours: options.quiet_hours,
        judges_work: !options.no_work,
        strata: target.strata(services, &names),
        before: names
            .iter()
            .map(|name| (name.clone(), before::before(target, services, name, !options.no_work)))
            .collect(),
        waves,
    };
    let owner = freeze(&plan).map_err(Failure::failed)?;
    Ok((Prepared { services: treatments, owner, ..whole }, plan))
}
