//! Whether a treatment would take hold on a service of this host. Nothing is changed that lasts.
//!
//! A preload that fails is silent: the unit is active and runs its old allocator. A probe is therefore started where the service
//! would run ([`Prober`]), with the treatment, and asked what it runs. What a probe cannot show is read from the unit, its
//! process and its program ([`check`]).
//!
//! Files are read below a [`HostRoot`], so that tests read fixture trees.

mod environment;
mod finding;
mod library;
mod memory;
mod planned;
mod program;
mod relay;
mod state;
mod subject;
mod tried;
mod unit_files;

use crate::Service;
use heaptrial_allocator::Examiner;
use heaptrial_host::HostRoot;

pub use finding::{Check, Finding, Severity};
pub use planned::{PlannedPreload, PlannedTreatment};
pub use tried::Prober;

use finding::Findings;
use subject::Subject;

/// Everything that speaks against the treatments of some services, by service in their order, and against all of them together.
/// Without a prober no treatment is tried.
pub fn check_all(
    root: &HostRoot,
    planned: &[(&Service, PlannedTreatment)],
    prober: Option<&Prober<'_>>,
) -> Vec<Finding> {
    let examiner = Examiner::default();
    let mut of_service: Vec<Vec<Finding>> =
        planned.iter().map(|(service, treatment)| check(root, service, treatment, &examiner)).collect();
    if let Some(prober) = prober {
        // What is refused already needs no probe.
        let passed = |findings: &[Finding]| !findings.iter().any(Finding::refuses);
        let to_try: Vec<bool> = of_service.iter().map(|findings| passed(findings)).collect();
        let tried = prober.try_all(planned, &to_try);
        for (findings, tried) in of_service.iter_mut().zip(tried) {
            findings.extend(tried);
            findings.sort_by_key(|finding| finding.severity);
        }
    }
    let mut findings = of_service.concat();
    findings.extend(memory::of_host(root, planned));
    findings
}

/// What speaks against a treatment of a service without trying it, refusals first. `examiner` remembers the programs and
/// libraries that services have in common.
pub fn check(
    root: &HostRoot,
    service: &Service,
    planned: &PlannedTreatment,
    examiner: &Examiner,
) -> Vec<Finding> {
    let subject = Subject::new(root, service, planned, examiner);
    let mut findings = Findings::new(service.name().clone());
    if state::check(&subject, &mut findings) {
        unit_files::check(&subject, &mut findings);
        relay::check(&subject, &mut findings);
        if let Some(preload) = &planned.preload {
            environment::check(&subject, preload, &mut findings);
            program::check(&subject, preload, &mut findings);
            library::check(&subject, preload, &mut findings);
            memory::check(&subject, &mut findings);
        }
    }
    findings.into_sorted()
}
