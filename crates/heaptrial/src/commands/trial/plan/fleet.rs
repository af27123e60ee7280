//! The services of this host that take part, and what is known of them.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_inspect::Service;
use heaptrial_model::{Metric, ServiceName, ServicePattern};
use heaptrial_plan::Candidate;
use heaptrial_store::{Readings, Store, StoreError};

use super::family::families;
use crate::commands::host::Host;
use crate::commands::host::select::select;
use crate::exit::Failure;

/// A relay waits so long for its clients before it stops (ShutdownWaitLength of tor(1)), ...
const RELAY_STOP_SECONDS: f64 = 30.0;
/// ... and is back so long after.
const RELAY_START_SECONDS: f64 = 5.0;
/// Of other services the time to restart is not known; most take less.
const OTHER_RESTART_SECONDS: f64 = 2.0;

/// The services that match the patterns.
pub struct Fleet {
    /// Those that take part, in order of names.
    pub services: Vec<Service>,
    /// The same as the plan sees them.
    pub candidates: Vec<Candidate>,
    /// Those that cannot take part, and why.
    pub left_out: Vec<(ServiceName, String)>,
}

impl Fleet {
    /// Looks at this host; nothing is changed. What is excluded, or not known, is printed on standard error.
    pub fn discover(host: &Host<'_>, patterns: &[ServicePattern]) -> Result<Self, Failure> {
        let (found, kept_out) = select(&host.systemd()?, patterns)?;
        let wanted = found.iter().map(|service| service.name().as_str()).collect();
        let past = past_memory(&wanted, host)?;
        let mut fleet = Self::of(found, &host.name()?, &past);
        for (service, why) in &fleet.left_out {
            eprintln!("excluded: {service}: {why}");
        }
        for service in &fleet.services {
            if let Some(why) = &service.relay_unread {
                eprintln!("warning: {}: {why}; its role and family are not known", service.name());
            }
        }
        fleet.check_named(patterns)?;
        fleet.left_out.extend(kept_out);
        Ok(fleet)
    }

    /// The services of several hosts, in the order of `candidates`; which relays are of one family is known from all of them.
    pub fn over_hosts(
        services: Vec<Service>,
        mut candidates: Vec<Candidate>,
        left_out: Vec<(ServiceName, String)>,
    ) -> Self {
        let relays: Vec<_> = services.iter().map(|service| service.relay.as_ref()).collect();
        for (candidate, family) in candidates.iter_mut().zip(families(&relays)) {
            candidate.family = family;
        }
        Self { services, candidates, left_out }
    }

    fn of(found: Vec<Service>, host: &str, past: &BTreeMap<String, u64>) -> Self {
        let (mut services, mut left_out) = (Vec::new(), Vec::new());
        for service in found {
            match unfit(&service) {
                Some(why) => left_out.push((service.name().clone(), why)),
                None => services.push(service),
            }
        }
        let candidates = services.iter().map(|service| candidate(service, host, past)).collect();
        Self::over_hosts(services, candidates, left_out)
    }

    /// A service named by its full name must take part, and there must be one at all.
    fn check_named(&self, patterns: &[ServicePattern]) -> Result<(), Failure> {
        let is_named =
            |service: &ServiceName| patterns.iter().any(|one| one.unit().as_ref() == Some(service));
        match self.left_out.iter().find(|(service, _)| self.services.is_empty() || is_named(service)) {
            None => Ok(()),
            Some((service, why)) => Err(Failure::refused(format!("{service} cannot take part: {why}"))),
        }
    }
}

/// Why a service cannot take part.
fn unfit(service: &Service) -> Option<String> {
    let (unit, status) = (&service.unit, &service.unit.status);
    if unit.load_state != "loaded" {
        return Some(format!("it is {}", unit.load_state));
    }
    if unit.service_type == "oneshot" {
        return Some("it runs once and ends (Type=oneshot)".to_owned());
    }
    if status.active_state != "active" {
        return Some(format!("it is {} ({}); start it first", status.active_state, status.sub_state));
    }
    if service.process.is_none() {
        return Some(format!("it has no main process ({})", status.sub_state));
    }
    None
}

/// Its family is known from all of them together.
fn candidate(service: &Service, host: &str, past: &BTreeMap<String, u64>) -> Candidate {
    let process = service.process.as_ref();
    let program = || {
        let name = process.and_then(|process| process.program.file_name());
        name.map_or_else(|| "service".to_owned(), |name| name.to_string_lossy().into_owned())
    };
    let before = past.get(service.name().as_str()).copied();
    Candidate {
        service: service.name().clone(),
        host: host.to_owned(),
        system: String::new(),
        role: service.relay.as_ref().map_or_else(program, |relay| relay.role.clone()),
        family: None,
        baseline_bytes: before.or(process.map(|process| process.sample.rss_bytes)),
        age_seconds: process.map(|process| process.age_seconds),
        restart_seconds: match &service.relay {
            Some(_) => RELAY_STOP_SECONDS + RELAY_START_SECONDS,
            None => OTHER_RESTART_SECONDS,
        },
    }
}

/// The median RSS of each service in the last trial of the host's database that sampled it.
fn past_memory(wanted: &BTreeSet<&str>, host: &Host<'_>) -> Result<BTreeMap<String, u64>, Failure> {
    match Store::open(&host.database).and_then(|store| read_past(&store, wanted)) {
        Ok(past) => Ok(past),
        Err(error) if host.global.db.is_some() => Err(Failure::refused(error)),
        Err(StoreError::Missing { .. }) => Ok(BTreeMap::new()),
        Err(error) => {
            eprintln!("warning: past memory is not known, and present memory is used instead: {error}");
            Ok(BTreeMap::new())
        }
    }
}

fn read_past(store: &Store, wanted: &BTreeSet<&str>) -> Result<BTreeMap<String, u64>, StoreError> {
    let mut past = BTreeMap::new();
    for trial in store.trials()?.iter().rev() {
        let mut services = store.services(trial.id)?;
        services
            .retain(|service| wanted.contains(service.name.as_str()) && !past.contains_key(&service.name));
        if services.is_empty() {
            continue;
        }
        let readings = Readings::of_trial(store, trial.id, Metric::Rss)?;
        let lives = store.lives(trial.id)?;
        for service in services {
            let mut kib = Vec::new();
            for life in lives.iter().filter(|life| life.service_id == service.id) {
                let read = readings.of_life(store, life.id, life.started_boottime_us)?;
                kib.extend(read.iter().map(|reading| reading.kib));
            }
            if !kib.is_empty() {
                let middle = kib.len() / 2;
                past.insert(service.name, u64::from(*kib.select_nth_unstable(middle).1) * 1024);
            }
        }
    }
    Ok(past)
}

#[cfg(test)]
pub(super) mod tests {
    use heaptrial_model::ErrorClass;
    use serde_json::json;

    use super::*;

    pub fn service(name: &str) -> Service {
        let text = include_str!("../../../../../inspect/tests/preflight/fixture_service.json");
        let mut service: Service = serde_json::from_str(text).unwrap();
        service.unit.name = name.parse().unwrap();
        let identity = json!({
            "family": "glibc", "version": "2.36", "version_range": null, "path": null, "build_id": null, "sha256": null,
            "linkage": "libc", "settings": {}, "evidence": [],
        });
        service.process.as_mut().unwrap().identity = serde_json::from_value(identity).unwrap();
        service
    }

    #[test]
    fn what_cannot_take_part_is_excluded_and_a_full_name_must_take_part() {
        let mut stopped = service("b.service");
        (stopped.unit.status.active_state, stopped.unit.status.sub_state) =
            ("inactive".into(), "dead".into());
        let mut masked = service("c.service");
        masked.unit.load_state = "masked".into();
        let mut once = service("d.service");
        once.unit.service_type = "oneshot".into();
        let mut exited = service("e.service");
        exited.process = None;
        let found = vec![service("a.service"), stopped, masked, once, exited];
        let fleet = Fleet::of(found, "alpha", &BTreeMap::new());
        assert_eq!((fleet.services.len(), fleet.left_out.len()), (1, 4), "{:?}", fleet.left_out);
        let named = |pattern: &str| fleet.check_named(&[pattern.parse().unwrap()]);
        assert!(named("a.service").is_ok() && named("*").is_ok());
        assert_eq!(named("b").unwrap_err().class, ErrorClass::Refused);
    }
}
