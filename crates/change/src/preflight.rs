//! The preflight of a whole plan: each service with the treatment of its arm, and the memory of the host.

use std::collections::BTreeMap;

use heaptrial_allocator::Obtained;
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{HostRoot, Paths};
use heaptrial_inspect::Service;
use heaptrial_inspect::preflight::{Finding, PlannedPreload, PlannedTreatment, Prober, check_all};

use crate::prepared::Prepared;
use crate::treatment::ServiceTreatment;

/// Everything that speaks against the treatments of a plan, by service in the order of the plan. Treatments are tried where this
/// process may start units; with a library that is not installed only if it may be copied (`copies`).
pub fn preflight(
    systemd: &Systemd,
    paths: &Paths,
    prepared: &Prepared,
    services: &[Service],
    obtained: &BTreeMap<String, Obtained>,
    copies: bool,
) -> Vec<Finding> {
    let planned = |treatment: &ServiceTreatment| {
        let service = services.iter().find(|service| *service.name() == treatment.service)?;
        let preload = obtained.get(&treatment.arm).map(|obtained| PlannedPreload {
            unset: treatment.unset.clone(),
            ..PlannedPreload::of(obtained, treatment.expected.object.clone())
        });
        let planned = PlannedTreatment {
            preload,
            torrc: treatment.torrc.clone(),
            unit_files: treatment.unit_files(paths),
            left_overs: vec![paths.unit(&treatment.timer_name())],
            replaces: prepared.owner.takes_over,
        };
        Some((service, planned))
    };
    let planned: Vec<_> = prepared.services.iter().filter_map(planned).collect();
    let prober = Prober::of(systemd).map(|prober| if copies { prober } else { prober.without_copies() });
    check_all(&HostRoot::default(), &planned, prober.as_ref())
}
