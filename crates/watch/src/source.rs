//! What is watched: a trial or a rollout, and the services that keep an arm's treatment.

use std::collections::HashMap;

use heaptrial_adoption::{LeftOut, examined};
use heaptrial_allocator::{Expected, Mismatch, prove};
use heaptrial_analysis::{DAY, Fleet};
use heaptrial_host::HostRoot;
use heaptrial_host::Paths;
use heaptrial_host::systemd::{Systemd, Unit};
use heaptrial_inspect::examine;
use heaptrial_model::{KnownEvent, ServiceName, ServicePattern, TrialKind};
use heaptrial_store::{ArmRecord, ServiceRecord, Store, TrialRecord};

use crate::error::WatchError;
use crate::observe::{Digests, UnseenError, drop_in, fingerprint, foreign_file, overridden, units};
use crate::plan::{FailuresBefore, Fingerprint, WatchedService};

/// What is watched: an arm of a trial, a rollout or an adoption, and the services that run what it wants.
#[derive(Debug)]
pub struct Source {
    pub(crate) trial: TrialRecord,
    pub(crate) arm: ArmRecord,
    /// The services that run what the arm wants.
    pub(crate) services: Vec<WatchedService>,
    pub(crate) records: Vec<ServiceRecord>,
    pub(crate) others: Vec<ServiceName>,
    /// Services of the arm that do not run what it wants, and why.
    pub(crate) left_out: Vec<(ServiceName, String)>,
}

impl Source {
    /// Finds the last trial of a name, and in it the arm that is named or the one that most services run.
    pub fn find(
        store: &Store,
        systemd: &Systemd,
        paths: &Paths,
        name: &str,
        arm: Option<&str>,
    ) -> Result<Self, WatchError> {
        let trial = find_trial(store, name)?;
        let records = store.services(trial.id)?;
        let names: Vec<ServiceName> = records.iter().filter_map(|record| record.name.parse().ok()).collect();
        let units = units(systemd, &names).map_err(|error| WatchError::Refused(error.to_string()))?;
        let mut arms = store.arms(trial.id)?;
        if let Some(wanted) = arm {
            let known: Vec<String> = arms.iter().map(|record| record.arm.name.clone()).collect();
            arms.retain(|record| record.arm.name == wanted);
            if arms.is_empty() {
                let known = known.join(", ");
                return Err(WatchError::Refused(format!("`{name}` has no arm `{wanted}`; it has {known}")));
            }
        }
        let mut digests = Digests::default();
        let found =
            arms.into_iter().map(|arm| Self::of_arm(&trial, arm, &records, &units, paths, &mut digests));
        let mut found: Vec<Self> = found.collect();
        found.sort_by_key(|source| std::cmp::Reverse(source.services.len()));
        if let [first, second, ..] = found.as_slice() {
            if first.services.len() == second.services.len() {
                return Err(WatchError::Refused(format!(
                    "as many services run what arm `{}` of `{name}` wants as what arm `{}` does; name one with --arm",
                    first.arm.arm.name, second.arm.arm.name
                )));
            }
        }
        let source = found.into_iter().next().filter(|source| !source.services.is_empty());
        source.ok_or_else(|| {
            WatchError::Refused(format!(
                "no service of `{name}` runs what its arm wants, so there is nothing to watch"
            ))
        })
    }

    fn of_arm(
        trial: &TrialRecord,
        arm: ArmRecord,
        records: &[ServiceRecord],
        units: &HashMap<ServiceName, Unit>,
        paths: &Paths,
        digests: &mut Digests,
    ) -> Self {
        let mut source = Self {
            trial: trial.clone(),
            arm,
            services: Vec::new(),
            records: Vec::new(),
            others: Vec::new(),
            left_out: Vec::new(),
        };
        let expected = source.expected();
        for record in records {
            let Ok(name) = record.name.parse::<ServiceName>() else { continue };
            let own = record.arm_id == source.arm.id;
            // After a rollout services of other arms run it too; the host's own C library says nothing.
            let may = own || expected.as_ref().is_some_and(|expected| expected.object.is_some());
            if !may {
                source.others.push(name);
                continue;
            }
            let adopted = trial.plan.kind == TrialKind::Adoption;
            match proved(units.get(&name), expected.as_ref(), adopted, digests) {
                Ok(runs) => {
                    source.services.push(watched(trial, name, units, expected.clone(), runs, paths));
                    source.records.push(record.clone());
                }
                Err(why) => {
                    source.others.push(name.clone());
                    if own {
                        source.left_out.push((name, why.to_string()));
                    }
                }
            }
        }
        source
    }

    /// The services that run what the arm wants, and whether each is a relay.
    pub fn services(&self) -> impl Iterator<Item = (&ServiceName, bool)> {
        let is_relay = |record: &ServiceRecord| {
            record.attributes.as_ref().is_some_and(|attributes| attributes["role"].is_string())
        };
        let records = self.records.iter().map(is_relay);
        self.services.iter().map(|own| &own.service).zip(records)
    }

    /// What the processes of its services run, where the trial recorded it.
    pub fn expected(&self) -> Option<Expected> {
        serde_json::from_value(self.arm.obtained.clone()?).ok()
    }

    /// Row id of the trial.
    pub fn trial_id(&self) -> i64 {
        self.trial.id
    }

    pub fn arm(&self) -> &str {
        &self.arm.arm.name
    }

    /// Patterns of units of which the trial's services are instances.
    pub(crate) fn patterns(&self) -> Vec<ServicePattern> {
        let names = self.services.iter().map(|own| &own.service).chain(&self.others);
        let mut patterns: Vec<ServicePattern> = names
            .filter_map(|name| format!("{}@*.service", name.as_str().split_once('@')?.0).parse().ok())
            .collect();
        patterns.sort();
        patterns.dedup();
        patterns
    }
}

/// A service as it is now. What a trial or rollout treats has a drop-in of Heaptrial; what was adopted has one of somebody else,
/// or none.
fn watched(
    trial: &TrialRecord,
    service: ServiceName,
    units: &HashMap<ServiceName, Unit>,
    expected: Option<Expected>,
    runs: Fingerprint,
    paths: &Paths,
) -> WatchedService {
    let own = drop_in(paths, &service);
    if trial.plan.kind.treats_services() || own.is_some() {
        let needs = |expected: &Expected| expected.object.is_some() || !expected.settings.is_empty();
        let needs_drop_in = expected.as_ref().map_or(own.is_some(), needs);
        return WatchedService {
            service,
            expected,
            runs: Some(runs),
            drop_in: own,
            needs_drop_in,
            drop_in_path: None,
            usual_work: None,
            usual_excess: None,
            not_of_unit: Vec::new(),
        };
    }
    let unit = units.get(&service);
    let (drop_in_path, drop_in) = unit.and_then(foreign_file).unzip();
    let not_of_unit = unit.map_or(Vec::new(), |unit| overridden(expected.as_ref(), unit));
    let needs_drop_in = drop_in.is_some();
    WatchedService {
        service,
        expected,
        runs: Some(runs),
        drop_in,
        needs_drop_in,
        drop_in_path,
        usual_work: None,
        usual_excess: None,
        not_of_unit,
    }
}

/// Why a service does not count as one that runs what its arm wants.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotProved {
    #[error("systemd does not know it")]
    NoUnit,
    #[error("it is {0}")]
    NotRunning(String),
    /// What it runs cannot be told.
    #[error(transparent)]
    Unseen(#[from] UnseenError),
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// Its next start would run something else.
    #[error(transparent)]
    NextStart(#[from] LeftOut),
}

fn proved(
    unit: Option<&Unit>,
    expected: Option<&Expected>,
    adopted: bool,
    digests: &mut Digests,
) -> Result<Fingerprint, NotProved> {
    let unit = unit.ok_or(NotProved::NoUnit)?;
    // What Heaptrial wrote is held to the byte; of what somebody else wrote it counts what the next start will run.
    if adopted {
        let root = HostRoot::default();
        examine(&root, vec![unit.clone()])
            .iter()
            .try_for_each(|service| examined(&root, service).map(drop))?;
    }
    let pid = unit.status.main_pid.ok_or_else(|| NotProved::NotRunning(unit.status.active_state.clone()))?;
    let (runs, identity) = fingerprint(&HostRoot::default(), unit, pid, digests)?;
    expected.map_or(Ok(()), |expected| prove(expected, &identity))?;
    Ok(runs)
}

fn find_trial(store: &Store, name: &str) -> Result<TrialRecord, WatchError> {
    let mut trials = store.trials()?;
    trials.retain(|trial| trial.plan.kind.can_be_watched());
    match trials.iter().rposition(|trial| trial.plan.name == name) {
        Some(index) => Ok(trials.swap_remove(index)),
        None => {
            let known: Vec<&str> = trials.iter().map(|trial| trial.plan.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Err(WatchError::Refused(format!(
                "{} has no trial, rollout or adoption `{name}`; it has {known}",
                store.path().display()
            )))
        }
    }
}

/// Failures of an arm's services in a trial.
pub fn failures_before(fleet: &Fleet, arm: &str) -> FailuresBefore {
    let position = fleet.arms.iter().position(|own| own.name == arm);
    let member = |index: usize| position.is_some_and(|arm| fleet.services[index].arms.contains(&arm));
    let failed = fleet.events.iter().filter(|event| event.kind.known().is_some_and(KnownEvent::is_failure));
    let own = (0..fleet.services.len()).filter(|index| member(*index));
    let lives = own.flat_map(|index| &fleet.services[index].lives);
    let seconds: f64 =
        lives.filter_map(|life| Some(life.last_age()? - f64::from(life.readings.first()?.age_seconds))).sum();
    FailuresBefore {
        failures: failed.filter(|event| event.service.is_some_and(member)).count() as u32,
        service_days: seconds / DAY,
        assumed: false,
    }
}
