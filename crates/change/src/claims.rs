//! Which services of this host belong to a trial or a rollout that has not ended.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use heaptrial_host::Paths;
use heaptrial_model::ServiceName;

use crate::edges::{Disk, ThisDisk};
use crate::error::ChangeError;
use crate::state::{TrialStage, TrialState};
use crate::trial::{names, prepared_of, state_of};

/// Whom a service belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// What that is, such as `trial`.
    pub kind: String,
    pub name: String,
    /// Its folder, where it cannot be read whether it has ended.
    pub unread: Option<PathBuf>,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)?;
        match &self.unread {
            Some(folder) => {
                write!(f, ", whose journal cannot be read; if it has ended, move {} away", folder.display())
            }
            None => Ok(()),
        }
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
        let folder = paths.trial(&name);
        let state = state_of(disk, &folder).ok();
        let is_over = |state: &TrialState| matches!(state.stage, TrialStage::Stopped | TrialStage::Reverted);
        if state.as_ref().is_some_and(is_over) {
            continue;
        }
        let prepared = prepared_of(disk, paths, &name)
            .map_err(|source| ChangeError::Unread { folder: folder.clone(), source: Box::new(source) })?;
        let unread = state.is_none().then_some(folder);
        let claim = Claim { kind: prepared.owner.kind, name, unread };
        let services = prepared.services.into_iter().map(|treatment| treatment.service);
        let is_dropped =
            |service: &ServiceName| state.as_ref().is_some_and(|state| state.dropped.contains(service));
        for service in services.filter(|service| !is_dropped(service)) {
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

#[cfg(test)]
mod tests {
    use heaptrial_allocator::Expected;

    use super::*;
    use crate::prepared::{Owner, Prepared};
    use crate::treatment::ServiceTreatment;

    fn prepared(name: &str, service: &ServiceName) -> Prepared {
        let plan = serde_json::json!({
            "name": name, "id": "0123456789abcdef", "tool_version": "0", "seed": 1, "metric": "rss", "duration": "1d",
            "looks": [], "pace": {}, "arms": [], "builds": {}, "services": []
        });
        let treatment = ServiceTreatment {
            service: service.clone(),
            arm: "a".to_owned(),
            family: None,
            environment: Vec::new(),
            unset: Vec::new(),
            torrc: BTreeMap::new(),
            restart_every: None,
            expected: Expected::own_c_library("glibc".parse().unwrap(), Vec::new()),
            relay: None,
        };
        Prepared {
            schema_version: Prepared::VERSION,
            plan: serde_json::from_value(plan).unwrap(),
            host: "here".to_owned(),
            services: vec![treatment],
            libraries: Vec::new(),
            agent: None,
            owner: Owner::trial(),
        }
    }

    #[test]
    fn a_damaged_journal_refuses_the_services_of_its_trial_alone_and_names_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths { state: dir.path().to_owned(), ..Paths::default() };
        let [own, other] =
            ["tor@a.service", "tor@b.service"].map(|name| name.parse::<ServiceName>().unwrap());
        let folder = paths.trial("old");
        std::fs::create_dir_all(&folder).unwrap();
        let text = serde_json::to_string(&prepared("old", &own)).unwrap();
        std::fs::write(folder.join("prepared.json"), text).unwrap();
        std::fs::write(folder.join("journal.jsonl"), "{}\n{}\n").unwrap();
        let known = claims(&paths, "new").unwrap();
        assert!(free(&known, [&other].into_iter()).is_ok());
        let why = free(&known, [&own].into_iter()).unwrap_err().to_string();
        assert!(why.contains(&format!("move {} away", folder.display())), "{why}");

        // Of which services it is nobody knows.
        std::fs::write(folder.join("prepared.json"), "{").unwrap();
        let why = claims(&paths, "new").unwrap_err().to_string();
        assert!(why.contains(&format!("move {} away", folder.display())), "{why}");
    }
}
