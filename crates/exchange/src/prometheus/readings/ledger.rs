//! The lives of a trial that its ledger knows, by host.

use std::collections::BTreeMap;

use heaptrial_store::{Store, StoreError, TrialRecord};

use super::super::query::quoted;

/// The ledger of a trial.
#[derive(Debug)]
pub(super) struct Ledger {
    pub trial: String,
    /// Id of its plan; empty where nothing was drawn.
    plan: String,
    /// In microseconds since 1970.
    pub started_us: i64,
    pub hosts: Vec<HostLedger>,
}

/// What of it is of one host.
#[derive(Debug)]
pub(super) struct HostLedger {
    /// As the plan names it; `None` where the database is the host's own.
    pub name: Option<String>,
    /// The end of what the ledger covers, in microseconds since 1970 by the host's clock.
    pub until_us: i64,
    /// By the name of the service on its host.
    pub services: BTreeMap<String, Vec<KnownLife>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct KnownLife {
    pub id: i64,
    /// By the host's clock, which is what its agent tells: in microseconds since 1970.
    pub started_us: i64,
    /// On the boot clock, in microseconds.
    pub started_boottime_us: i64,
}

impl Ledger {
    pub fn read(store: &Store, trial: &TrialRecord, until_us: Option<i64>) -> Result<Self, StoreError> {
        let trial_id = trial.id;
        let mut lives: BTreeMap<i64, Vec<KnownLife>> = BTreeMap::new();
        for life in store.lives(trial_id)? {
            lives.entry(life.service_id).or_default().push(KnownLife {
                id: life.id,
                started_us: life.started_wall_us,
                started_boottime_us: life.started_boottime_us,
            });
        }
        let until_us = until_us.unwrap_or(i64::MAX);
        let mut hosts: Vec<HostLedger> = store
            .parts(trial_id)?
            .into_iter()
            .map(|part| {
                let last_us = part.last.map_or(part.started_wall_us, |tick| tick.wall_us);
                let ended_us = part.ended_wall_us.unwrap_or(i64::MAX);
                HostLedger {
                    name: Some(part.host),
                    until_us: until_us.min(last_us).min(ended_us),
                    services: BTreeMap::new(),
                }
            })
            .collect();
        if hosts.is_empty() {
            let last_us = store.last_tick(trial_id)?.map_or(trial.plan.started_wall_us, |tick| tick.wall_us);
            let ended_us = trial.ended_wall_us.unwrap_or(i64::MAX);
            let until_us = until_us.min(last_us).min(ended_us);
            hosts.push(HostLedger { name: None, until_us, services: BTreeMap::new() });
        }
        for service in store.services(trial_id)? {
            let own =
                hosts.iter_mut().find(|host| host.name.is_none() || host.name.as_deref() == service.host());
            let Some(host) = own else { continue };
            let name = match &host.name {
                Some(host) => {
                    service.name.strip_prefix(host.as_str()).and_then(|name| name.strip_prefix('/'))
                }
                None => None,
            };
            let name = name.unwrap_or(&service.name).to_owned();
            host.services.insert(name, lives.remove(&service.id).unwrap_or_default());
        }
        let plan = trial.plan.parameters["plan"]["id"].as_str().unwrap_or_default().to_owned();
        Ok(Self { trial: trial.plan.name.clone(), plan, started_us: trial.plan.started_wall_us, hosts })
    }

    /// What agents tell of the trial itself.
    pub fn info_selector(&self) -> String {
        format!("heaptrial_trial_info{{trial={},plan={}}}", quoted(&self.trial), quoted(&self.plan))
    }
}
