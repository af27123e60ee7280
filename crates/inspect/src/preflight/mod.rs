//! Whether a treatment would take hold on a service of this host. Nothing is changed.
//!
//! A preload that fails is silent: the unit is active and runs its old allocator. [`check`] looks for every reason
//! for that which can be seen beforehand, and for what would make the service fail. What it refuses has been tried on
//! a real systemd; what cannot be told beforehand is a warning, and the identity proof after the restart decides.
//!
//! Everything is read below a [`HostRoot`], so that tests read fixture trees.

mod apparmor;
mod environment;
mod finding;
mod head_room;
mod library;
mod limits;
mod mounts;
mod planned;
mod program;
mod relay;
mod secure_execution;
mod state;
mod subject;
mod system_calls;
mod unit_files;
mod unit_text;
mod visibility;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use crate::Service;
use heaptrial_allocator::Examiner;
use heaptrial_host::HostRoot;

pub(crate) use apparmor::glob;
pub use finding::{Check, Finding, Severity};
pub use head_room::{Need, head_room};
pub use planned::{PlannedPreload, PlannedTreatment};

use finding::Findings;
use subject::Subject;
pub(crate) use unit_text::{UnitText, variables};

/// Everything that speaks against a treatment of a service, refusals first. `examiner` remembers the programs and
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
            limits::check(&subject, preload, &mut findings);
        }
    }
    findings.into_sorted()
}
