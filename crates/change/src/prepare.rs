//! From a drawn plan and what is on this host to what a start needs.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_allocator::{Catalog, Expected, Obtained};
use heaptrial_host::Paths;
use heaptrial_inspect::Service;
use heaptrial_model::{AllocatorSpec, Arm, DrawnPlan};

use crate::error::ChangeError;
use crate::prepared::{HostUnit, Library, Owner, Prepared};
use crate::treatment::{ServiceTreatment, expected_of};

/// The loader's variable for libraries to load first.
pub const PRELOAD: &str = "LD_PRELOAD";

fn refuse<T>(why: String) -> Result<T, ChangeError> {
    Err(ChangeError::Refused(why))
}

/// What a start needs, from a plan, the services of this host and the allocators that were obtained, by arm.
pub fn prepare(
    plan: &DrawnPlan,
    host: &str,
    services: &[Service],
    obtained: &BTreeMap<String, Obtained>,
    paths: &Paths,
    agent: Option<HostUnit>,
) -> Result<Prepared, ChangeError> {
    let own: Vec<_> = plan.services.iter().filter(|assignment| assignment.host == host).collect();
    if own.is_empty() {
        let hosts: BTreeSet<&str> = plan.services.iter().map(|service| service.host.as_str()).collect();
        let hosts = hosts.into_iter().collect::<Vec<_>>().join(", ");
        return refuse(format!("the plan has no service of this host ({host}); its hosts are {hosts}"));
    }
    let mut treatments = Vec::new();
    for assignment in own {
        let name = &assignment.service;
        let found = services.iter().find(|service| service.name() == name);
        let Some(service) = found.filter(|service| service.unit.load_state == "loaded") else {
            return refuse(format!(
                "{name} is not loaded on this host; plan again, or take it out of the plan"
            ));
        };
        let Some(arm) = plan.arms.iter().find(|arm| arm.name == assignment.arm) else { continue };
        let mut treatment = of_service((plan, host), arm, service, obtained, paths)?;
        treatment.family = assignment.family.clone();
        treatments.push(treatment);
    }
    let mut libraries: Vec<Library> = Vec::new();
    for obtained in plan.arms.iter().filter_map(|arm| obtained.get(&arm.name)) {
        let Some(source) = &obtained.library else { continue };
        let installed = obtained.installed_below(&paths.allocators());
        let is_used =
            treatments.iter().any(|treatment| treatment.expected.object.as_ref() == Some(&installed));
        if is_used && libraries.iter().all(|library| library.installed != installed) {
            libraries.push(Library { source: source.clone(), installed, sha256: obtained.sha256.clone() });
        }
    }
    Ok(Prepared {
        schema_version: Prepared::VERSION,
        plan: plan.clone(),
        host: host.to_owned(),
        services: treatments,
        libraries,
        agent,
        owner: Owner::trial(),
    })
}

fn of_service(
    (plan, host): (&DrawnPlan, &str),
    arm: &Arm,
    service: &Service,
    obtained: &BTreeMap<String, Obtained>,
    paths: &Paths,
) -> Result<ServiceTreatment, ChangeError> {
    let name = service.name().clone();
    let of_arm = format!("arm `{}`", arm.name);
    let Some(process) = &service.process else {
        let status = &service.unit.status;
        return refuse(format!(
            "{name} is not running ({}, {}); start it, or take it out of the plan",
            status.active_state, status.sub_state
        ));
    };
    let torrc = arm.treatment.torrc.clone();
    if !torrc.is_empty() && service.relay.is_none() {
        return refuse(format!("{name}: {of_arm} sets torrc options, and it is not a Tor instance"));
    }
    let mut treatment = ServiceTreatment {
        service: name.clone(),
        arm: arm.name.clone(),
        family: None,
        environment: Vec::new(),
        unset: Vec::new(),
        torrc,
        restart_every: arm.treatment.restart_every,
        expected: Expected::own_c_library(AllocatorSpec::family("glibc"), Vec::new()),
        relay: service.relay.clone(),
    };
    if treatment.restart_every.is_some() && treatment.timer().is_none() {
        return refuse(format!("{name}: its name is too long for a timer that restarts it"));
    }
    let Some(spec) = &arm.treatment.allocator else {
        let Some(identity) = &process.identity else {
            let why = process.unidentified.as_deref().unwrap_or("no reason given");
            return refuse(format!(
                "{name}: {of_arm} leaves it with the allocator that it has, which could not be identified ({why}); name an \
                 allocator in the arm"
            ));
        };
        treatment.expected = expected_of(identity);
        return Ok(treatment);
    };
    let Some(build) = obtained.get(&arm.name) else {
        return refuse(format!("{of_arm}: its allocator {spec} was not obtained"));
    };
    if build.loader.is_some() {
        return refuse(format!(
            "{of_arm}: {spec} would run the program under another C library, which a service cannot be switched to by its \
             environment; try it with `heaptrial lab run`"
        ));
    }
    match plan.build(&arm.name, host) {
        Some(planned) if planned.sha256 != build.sha256 => {
            return refuse(format!(
                "{of_arm}: the plan was drawn for the build {}, and here {} was obtained; use the same build, or plan again",
                planned.sha256, build.sha256
            ));
        }
        None if build.library.is_some() => {
            return refuse(format!("{of_arm}: the plan names no build of its allocator; draw it again"));
        }
        _ => {}
    }
    if build.library.is_some() {
        let path = build.installed_below(&paths.allocators());
        treatment.environment.push((PRELOAD.to_owned(), path.display().to_string()));
        treatment.expected = Expected { object: Some(path), ..build.expected() };
    } else {
        treatment.expected = Expected::own_c_library(spec.clone(), build.settings.clone());
    }
    treatment.environment.extend(build.settings.iter().cloned());
    treatment.unset = to_unset(service, &spec.family, &treatment.environment);
    Ok(treatment)
}

/// Variables that the service has now, that the loader or an allocator of the arm's family reads, and that are no part of the
/// treatment. What other allocators read stays as it is.
pub fn to_unset(service: &Service, family: &str, environment: &[(String, String)]) -> Vec<String> {
    let family = Catalog::builtin().family(family);
    let read = |name: &str| name == PRELOAD || family.is_some_and(|family| family.reads_variable(name));
    let identity = service.process.as_ref().and_then(|process| process.identity.as_ref());
    let settings = identity.into_iter().flat_map(|identity| identity.settings.keys());
    let unit = service.unit.environment.iter().map(|(name, _)| name);
    let preload = identity
        .filter(|identity| identity.linkage == heaptrial_model::Linkage::Preloaded)
        .map(|_| PRELOAD.to_owned());
    let names: BTreeSet<String> =
        unit.chain(settings).filter(|name| read(name) && is_name(name)).cloned().chain(preload).collect();
    names.into_iter().filter(|name| environment.iter().all(|(set, _)| set != name)).collect()
}

/// Whether a text is the name of a variable: what a process says of itself may be anything.
fn is_name(text: &str) -> bool {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What the lives of an arm must run, for the agent: that of its services, which is the same for all of them.
pub fn expected_of_arm(prepared: &Prepared, arm: &str) -> Option<Expected> {
    Some(prepared.services.iter().find(|treatment| treatment.arm == arm)?.expected.clone())
}
