//! The preflight of a whole plan: each service with the treatment of its arm, and the memory of the host.

use std::collections::BTreeMap;

use heaptrial_allocator::{Examiner, Obtained};
use heaptrial_host::{HostRoot, Paths};
use heaptrial_inspect::Service;
use heaptrial_inspect::preflight::{
    Finding, Need, PlannedPreload, PlannedTreatment, Severity, check, head_room,
};

use crate::prepared::Prepared;
use crate::treatment::ServiceTreatment;

/// Nobody knows beforehand how much an arm needs: production saw one allocator at twice the memory of glibc.
const WORST_FACTOR: f64 = 2.0;

/// Everything that speaks against the treatments of a plan, by service in the order of the plan.
pub fn preflight(
    root: &HostRoot,
    paths: &Paths,
    prepared: &Prepared,
    services: &[Service],
    obtained: &BTreeMap<String, Obtained>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let examiner = Examiner::default();
    for treatment in &prepared.services {
        let Some(service) = services.iter().find(|service| *service.name() == treatment.service) else {
            continue;
        };
        let planned = PlannedTreatment {
            unit_files: treatment.unit_files(paths),
            left_overs: vec![paths.unit(&treatment.timer_name())],
            replaces: prepared.owner.takes_over,
            ..planned(treatment, obtained.get(&treatment.arm))
        };
        findings.extend(check(root, service, &planned, &examiner));
    }
    findings.extend(memory(root, prepared, services));
    findings
}

/// A warning where the host would run out of memory if every service that gets another allocator needed twice as much.
fn memory(root: &HostRoot, prepared: &Prepared, services: &[Service]) -> Option<Finding> {
    let changed = prepared.services.iter().filter(|treatment| !treatment.environment.is_empty());
    let needs: Vec<Need> = changed
        .filter_map(|treatment| {
            let service = services.iter().find(|service| *service.name() == treatment.service)?;
            let rss_bytes = service.process.as_ref()?.sample.rss_bytes;
            Some(Need { service: treatment.service.clone(), rss_bytes, factor: WORST_FACTOR })
        })
        .collect();
    head_room(root, &needs).map(|finding| Finding { severity: Severity::Warn, ..finding })
}

fn planned(treatment: &ServiceTreatment, obtained: Option<&Obtained>) -> PlannedTreatment {
    let preload = obtained.map(|obtained| PlannedPreload {
        unset: treatment.unset.clone(),
        ..PlannedPreload::of(obtained, treatment.expected.object.clone())
    });
    let (torrc, restart_every) = (treatment.torrc.clone(), treatment.restart_every);
    PlannedTreatment { preload, torrc, restart_every, ..PlannedTreatment::default() }
}
