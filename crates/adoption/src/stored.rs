//! An adoption in a database.

use std::collections::BTreeMap;

use heaptrial_allocator::Expected;
use heaptrial_host::{HostFacts, Instant};
use heaptrial_model::{Arm, Classified, ErrorClass, Metric, ServiceName, ServicePattern, TrialKind};
use heaptrial_store::{NewService, NewTrial, ServiceRecord, Store, StoreError, TrialRecord};
use serde_json::{Value, json};

use crate::Adoption;

/// Why an adoption cannot be stored or found.
#[derive(Debug, thiserror::Error)]
pub enum AdoptionError {
    #[error("the database has `{name}` already ({kind}); --name gives another name")]
    NameTaken {
        name: String,
        /// What has it, in words.
        kind: &'static str,
    },
    /// There is none of this name.
    #[error("no adoption `{name}` goes on; {}", listed(.known))]
    Unknown { name: String, known: Vec<String> },
    /// It has no such arm.
    #[error("`{name}` has no arm `{wanted}`; it has {}", .known.join(", "))]
    NoArm { name: String, wanted: String, known: Vec<String> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Classified for AdoptionError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Store(error) => error.class(),
            _ => ErrorClass::Refused,
        }
    }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "there is none".to_owned(),
        names => format!("there are {}", names.join(", ")),
    }
}

/// Stores an adoption; from then on the agent samples its services. Gives its row id.
pub fn begin(
    store: &mut Store,
    name: &str,
    adoption: &Adoption,
    patterns: &[ServicePattern],
    facts: &HostFacts,
) -> Result<i64, AdoptionError> {
    check_name(store, name)?;
    let now = Instant::now();
    let trial = NewTrial {
        name: name.to_owned(),
        kind: TrialKind::Adoption,
        boot_id: facts.boot_id.clone(),
        host_facts: serde_json::to_value(facts).unwrap_or_default(),
        metric: Metric::Rss,
        seed: 0,
        repeats: 1,
        planned_us: 0,
        arms: adoption.arms.iter().map(|arm| arm.arm.clone()).collect(),
        parameters: json!({ "adopted": patterns, "started_boottime_us": now.boottime_us }),
        command: format!("heaptrial adopt --name {name}"),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_wall_us: now.wall_us,
    };
    let expected: Vec<Option<Value>> =
        adoption.arms.iter().map(|arm| serde_json::to_value(&arm.expected).ok()).collect();
    let mut services: Vec<NewService> = Vec::new();
    for (index, arm) in adoption.arms.iter().enumerate() {
        for own in &arm.services {
            let mut attributes = own.attributes.clone();
            attributes["baseline"] = json!(own.files);
            services.push(NewService {
                name: own.service.to_string(),
                arm: index,
                block: 0,
                position: services.len() as u32,
                attributes,
            });
        }
    }
    Ok(store.begin_field_trial(&trial, &expected, &services)?)
}

/// Refuses a name that something else has. An adoption that has ended gives its name back.
pub fn check_name(store: &Store, name: &str) -> Result<(), AdoptionError> {
    let is_ended =
        |trial: &TrialRecord| trial.plan.kind == TrialKind::Adoption && trial.ended_wall_us.is_some();
    let trials = store.trials()?;
    match trials.iter().find(|trial| trial.plan.name == name && !is_ended(trial)) {
        Some(other) => {
            Err(AdoptionError::NameTaken { name: name.to_owned(), kind: other.plan.kind.describe() })
        }
        None => Ok(()),
    }
}

/// The services of adoptions that go on, each with its adoption's name.
pub fn taken(store: &Store) -> Result<BTreeMap<ServiceName, String>, StoreError> {
    let mut taken = BTreeMap::new();
    for adoption in going_on(store)? {
        let records = store.services(adoption.id)?;
        let names = records.iter().filter_map(|record| record.name.parse().ok());
        taken.extend(names.map(|name| (name, adoption.plan.name.clone())));
    }
    Ok(taken)
}

fn going_on(store: &Store) -> Result<Vec<TrialRecord>, StoreError> {
    let mut trials = store.running_trials()?;
    trials.retain(|trial| trial.plan.kind == TrialKind::Adoption);
    Ok(trials)
}

/// Ends an adoption: the agent samples its services no more. What it recorded stays.
pub fn end(store: &mut Store, name: &str) -> Result<(), AdoptionError> {
    let trials = going_on(store)?;
    let Some(trial) = trials.iter().find(|trial| trial.plan.name == name) else {
        let known = trials.into_iter().map(|trial| trial.plan.name).collect();
        return Err(AdoptionError::Unknown { name: name.to_owned(), known });
    };
    Ok(store.end_trial(trial.id, Instant::now().wall_us, "completed")?)
}

/// An arm of a stored adoption.
#[derive(Debug, Clone)]
pub struct Adopted {
    pub trial: TrialRecord,
    /// What was found in processes.
    pub arm: Arm,
    /// What such a process runs.
    pub expected: Expected,
    /// All services that were taken over, those of other arms as well.
    pub services: Vec<ServiceName>,
    /// Those of them that are relays.
    pub relays: Vec<ServiceName>,
}

impl Adopted {
    /// The arms of the last adoption of a name; `None` where the database has none of that name.
    pub fn names(store: &Store, name: &str) -> Result<Option<Vec<String>>, AdoptionError> {
        let Some(trial) = last(store, name)? else { return Ok(None) };
        Ok(Some(store.arms(trial.id)?.into_iter().map(|record| record.arm.name).collect()))
    }

    /// The last adoption of a name, and an arm of it; `None` where the database has none of that name.
    pub fn find(store: &Store, name: &str, arm: &str) -> Result<Option<Self>, AdoptionError> {
        let Some(trial) = last(store, name)? else { return Ok(None) };
        let arms = store.arms(trial.id)?;
        let known: Vec<String> = arms.iter().map(|record| record.arm.name.clone()).collect();
        // `mimalloc-2.0.9` is how one says `mimalloc@2.0.9`.
        let found = arms.into_iter().find_map(|record| {
            let is_named = record.arm.name == arm || record.arm.name.replace('@', "-") == arm;
            let expected = serde_json::from_value(record.obtained.clone()?).ok()?;
            is_named.then_some((record.arm, expected))
        });
        let Some((arm, expected)) = found else {
            return Err(AdoptionError::NoArm { name: name.to_owned(), wanted: arm.to_owned(), known });
        };
        let records = store.services(trial.id)?;
        let is_relay = |record: &&ServiceRecord| {
            record.attributes.as_ref().is_some_and(|attributes| attributes["role"].is_string())
        };
        let name_of = |record: &ServiceRecord| record.name.parse().ok();
        let services = records.iter().filter_map(name_of).collect();
        let relays = records.iter().filter(is_relay).filter_map(name_of).collect();
        Ok(Some(Self { trial, arm, expected, services, relays }))
    }
}

/// A stored adoption in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    /// Whether its services are sampled no more.
    pub ended: bool,
    /// Its arms with the number of their services.
    pub arms: Vec<(String, usize)>,
}

impl Listed {
    /// All of a database, the oldest first.
    pub fn all(store: &Store) -> Result<Vec<Self>, StoreError> {
        let mut trials = store.trials()?;
        trials.retain(|trial| trial.plan.kind == TrialKind::Adoption);
        let listed = |trial: TrialRecord| {
            let services = store.services(trial.id)?;
            let count = |arm| services.iter().filter(|service| service.arm_id == arm).count();
            let arms = store.arms(trial.id)?.into_iter().map(|record| (record.arm.name, count(record.id)));
            Ok(Self { name: trial.plan.name, ended: trial.ended_wall_us.is_some(), arms: arms.collect() })
        };
        trials.into_iter().map(listed).collect()
    }
}

fn last(store: &Store, name: &str) -> Result<Option<TrialRecord>, StoreError> {
    let is_own = |trial: &TrialRecord| trial.plan.kind == TrialKind::Adoption && trial.plan.name == name;
    Ok(store.trials()?.into_iter().rfind(is_own))
}
