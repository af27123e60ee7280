//! Which services of this host belong to a trial or a rollout that has not ended.

use std::collections::BTreeMap;
use std::fmt;

use heaptrial_host::Paths;
use heaptrial_model::ServiceName;

use crate::edges::{Disk, ThisDisk};
use crate::error::ChangeError;
use crate::state::TrialStage;
use crate::trial::{names, prepared_of, state_of};

/// Whom a service belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// What that is, such as `trial`.
    pub kind: String,
    pub name: String,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)
    }
}

/// The services that belong to trials and rollouts of this host that have begun and not ended, but for those of `own`:
/// controls, and services that are yet to be reached, as well.
pub fn claims(paths: &Paths, own: &str) -> Result<BTreeMap<ServiceName, Claim>, ChangeError> {
    claimed(&ThisDisk, paths, own)
}

/// Refuses services that belong to somebody.
pub fn free<'s>(
    claims: &BTreeMap<ServiceName, Claim>,
    services: impl Iterator<Item = &'s ServiceName>,
) -> Result<(), ChangeError> {
    let taken: Vec<(ServiceName, Claim)> =
        services.filter_map(|service| Some((service.clone(), claims.get(service)?.clone()))).collect();
    if taken.is_empty() { Ok(()) } else { Err(ChangeError::Claimed { taken }) }
}

/// The same of those of another trial or rollout.
pub(crate) fn check_free<'s>(
    disk: &dyn Disk,
    paths: &Paths,
    own: &str,
    services: impl Iterator<Item = &'s ServiceName>,
) -> Result<(), ChangeError> {
    free(&claimed(disk, paths, own)?, services)
}

fn claimed(disk: &dyn Disk, paths: &Paths, own: &str) -> Result<BTreeMap<ServiceName, Claim>, ChangeError> {
    let mut claims = BTreeMap::new();
    for name in names(disk, paths)?.into_iter().filter(|name| name != own) {
        let state = state_of(disk, &paths.trial(&name))?;
        if matches!(state.stage, TrialStage::Stopped | TrialStage::Reverted) {
            continue;
        }
        let prepared = prepared_of(disk, paths, &name)?;
        let claim = Claim { kind: prepared.owner.kind, name };
        let services = prepared.services.into_iter().map(|treatment| treatment.service);
        for service in services.filter(|service| !state.dropped.contains(service)) {
            claims.insert(service, claim.clone());
        }
    }
    Ok(claims)
}

/// The first of some services and how many more there are, each with whom it belongs to.
pub(crate) fn words(taken: &[(ServiceName, Claim)]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> =
        taken.iter().take(SHOWN).map(|(service, claim)| format!("{service} ({claim})")).collect();
    let more = taken.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", shown.join(", "))
}
