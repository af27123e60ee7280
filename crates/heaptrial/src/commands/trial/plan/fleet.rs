//! The services of this host that take part, and what is known of them.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_host::{HostRoot, host_name};
use heaptrial_inspect::{Service, discover};
use heaptrial_model::{Metric, ServiceName, ServicePattern};
use heaptrial_plan::Candidate;
use heaptrial_store::{Readings, Store, StoreError};

use super::family::families;
use crate::commands::trial::on_host;
use crate::exit::Failure;
use crate::options::GlobalOptions;

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
    /// Looks at this host; nothing is changed. What is left out, or not known, is printed on standard error.
    pub fn discover(patterns: &[ServicePattern], global: &GlobalOptions) -> Result<Self, Failure> {
        let systemd = global.systemd()?;
        let found = discover(&systemd, patterns).map_err(Failure::failed)?;
        let told = found.told();
        let host = host_name(&HostRoot::default()).map_err(Failure::failed)?;
        let wanted = found.services.iter().map(|service| service.name().as_str()).collect();
        let past = past_memory(&wanted, global)?;
        let mut fleet = Self::of(found.services, &host, &past);
        for (service, why) in &fleet.left_out {
            eprintln!("left out: {service}: {why}");
        }
        if let Some(told) = told {
            eprintln!("{told}");
        }
        let kept_out = found.kept_out.into_iter();
        fleet.left_out.extend(kept_out.map(|(service, why)| (service, why.to_owned())));
        for service in &fleet.services {
            if let Some(why) = &service.relay_unread {
                eprintln!("warning: {}: {why}; its role and family are not known", service.name());
            }
        }
        fleet.check_named(patterns, &found.of_pattern)?;
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
        let relays: Vec<_> = services.iter().map(|service| service.relay.as_ref()).collect();
        let families = families(&relays);
        let candidates = services
            .iter()
            .zip(families)
            .map(|(service, family)| candidate(service, host, family, past))
            .collect();
        Self { services, candidates, left_out }
    }

    /// A service named by its full name must take part, and a pattern must match something.
    fn check_named(
        &self,
        patterns: &[ServicePattern],
        of_pattern: &[Vec<ServiceName>],
    ) -> Result<(), Failure> {
        if self.services.is_empty() {
            let named: Vec<&str> = patterns.iter().map(ServicePattern::as_str).collect();
            return Err(Failure::refused(format!(
                "no running service of this host matches {}{}; `heaptrial services` lists what runs",
                named.join(" "),
                if self.left_out.is_empty() { "" } else { " and can take part" }
            )));
        }
        for (pattern, found) in patterns.iter().zip(of_pattern) {
            let Some(named) = pattern.unit() else { continue };
            // A unit may have further names.
            let name = found.first().unwrap_or(&named);
            if self.services.iter().all(|service| service.name() != name) {
                let why = self.left_out.iter().find(|(service, _)| service == name);
                let why = why.map_or("it is not loaded on this host", |(_, why)| why.as_str());
                return Err(Failure::refused(format!("{name} is named but cannot take part: {why}")));
            }
        }
        Ok(())
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

fn candidate(
    service: &Service,
    host: &str,
    family: Option<String>,
    past: &BTreeMap<String, u64>,
) -> Candidate {
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
        family,
        baseline_bytes: before.or(process.map(|process| process.sample.rss_bytes)),
        age_seconds: process.map(|process| process.age_seconds),
        restart_seconds: match &service.relay {
            Some(_) => RELAY_STOP_SECONDS + RELAY_START_SECONDS,
            None => OTHER_RESTART_SECONDS,
        },
    }
}

/// The median RSS of each service in the last trial of the host's database that sampled it.
fn past_memory(wanted: &BTreeSet<&str>, global: &GlobalOptions) -> Result<BTreeMap<String, u64>, Failure> {
    let database = on_host::database(&global.paths()?, global);
    match Store::open(&database).and_then(|store| read_past(&store, wanted)) {
        Ok(past) => Ok(past),
        Err(error) if global.db.is_some() => Err(Failure::refused(error)),
        Err(StoreError::Missing { .. }) => Ok(BTreeMap::new()),
        Err(error) => {
            eprintln!("warning: past memory is not known, the plan rests on present memory: {error}");
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
    use heaptrial_host::systemd::Sandbox;
    use heaptrial_model::{ErrorClass, Identity, LifeKey, Linkage, Sample, TrialKind, TrialPlan};
    use heaptrial_store::{NewService, NewTrial, TickInput};
    use serde_json::json;

    use super::*;

    /// A running service with glibc.
    pub fn service(name: &str) -> Service {
        let identity = Identity {
            family: "glibc".to_owned(),
            version: None,
            version_range: Some("2.36".to_owned()),
            path: None,
            build_id: None,
            sha256: None,
            linkage: Linkage::Libc,
            settings: BTreeMap::new(),
            evidence: Vec::new(),
            libraries: Vec::new(),
        };
        let service = json!({
            "unit": {
                "name": name, "description": "", "template": null, "load_state": "loaded", "unit_file": null,
                "drop_ins": [], "service_type": "notify", "exec_start": [], "user": "", "environment": [],
                "environment_files": [], "unset_environment": [], "memory_max_bytes": null,
                "sandbox": Sandbox::default(), "needs_reload": false,
                "remain_after_exit": false, "refuse_manual_start": false, "refuse_manual_stop": false,
                "status": {
                    "active_state": "active", "sub_state": "running", "main_pid": 7, "control_group": "/x",
                    "restarts": 0, "result": "success", "exec_main_code": 0, "exec_main_status": 0,
                    "invocation_id": "",
                },
            },
            "process": {
                "life": { "boot_id": "boot", "pid": 7, "start_ticks": 70 },
                "age_seconds": 100.0,
                "program": "/usr/sbin/webd",
                "sample": Sample { rss_bytes: 5 << 20, ..Sample::default() },
                "identity": identity,
                "unidentified": null,
            },
            "relay": null,
        });
        serde_json::from_value(service).unwrap()
    }

    fn fleet(services: Vec<Service>) -> Fleet {
        Fleet::of(services, "alpha", &BTreeMap::from([("b.service".to_owned(), 9 << 20)]))
    }

    #[test]
    fn what_is_known_of_a_service_makes_a_candidate() {
        let fleet = fleet(vec![service("a.service"), service("b.service")]);
        let [a, b] = fleet.candidates.as_slice() else { panic!("{}", fleet.candidates.len()) };
        assert_eq!((a.host.as_str(), a.role.as_str(), a.age_seconds), ("alpha", "webd", Some(100.0)));
        assert_eq!((a.baseline_bytes, b.baseline_bytes), (Some(5 << 20), Some(9 << 20)));
        assert_eq!(a.restart_seconds, OTHER_RESTART_SECONDS);
    }

    #[test]
    fn what_cannot_take_part_is_left_out_and_a_full_name_must_take_part() {
        let mut stopped = service("b.service");
        (stopped.unit.status.active_state, stopped.unit.status.sub_state) =
            ("inactive".into(), "dead".into());
        let mut masked = service("c.service");
        masked.unit.load_state = "masked".into();
        let mut once = service("d.service");
        once.unit.service_type = "oneshot".into();
        let mut exited = service("e.service");
        exited.process = None;
        let fleet = fleet(vec![service("a.service"), stopped, masked, once, exited]);
        let left_out: Vec<String> =
            fleet.left_out.iter().map(|(name, why)| format!("{name} {why}")).collect();
        assert_eq!((fleet.services.len(), left_out.len()), (1, 4), "{left_out:?}");
        for (found, words) in left_out.iter().zip(["inactive (dead)", "masked", "oneshot", "no main process"])
        {
            assert!(found.contains(words), "{found}");
        }
        let named = |pattern: &str| {
            let pattern: ServicePattern = pattern.parse().unwrap();
            let names = pattern.unit().filter(|unit| unit.as_str() != "z.service");
            fleet.check_named(&[pattern], &[names.into_iter().collect()])
        };
        assert!(named("a.service").is_ok() && named("a").is_ok() && named("*").is_ok());
        let failure = named("b").unwrap_err();
        assert!(failure.class == ErrorClass::Refused && failure.to_string().contains("inactive (dead)"));
        assert!(named("z.service").unwrap_err().to_string().contains("not loaded"));
    }

    fn trial(name: &str) -> NewTrial {
        let specs = ["glibc".parse().unwrap(), "glibc?arena_max=1".parse().unwrap()];
        NewTrial {
            name: name.into(),
            kind: TrialKind::Field,
            boot_id: "boot".into(),
            host_facts: json!({}),
            metric: Metric::Rss,
            seed: 7,
            repeats: 1,
            planned_us: 1,
            arms: TrialPlan::from_specs(name, &specs).unwrap().arms,
            parameters: json!({}),
            command: String::new(),
            tool_version: String::new(),
            started_wall_us: 0,
        }
    }

    #[test]
    fn past_memory_is_the_median_of_the_last_trial_that_has_the_service() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::create(&folder.path().join("heaptrial.db")).unwrap();
        for (name, services, readings) in [
            ("first", ["a.service", "b.service"], [900, 900, 900]),
            ("second", ["b.service", "z.service"], [30, 10, 20]),
        ] {
            let of = |(position, name): (usize, &str)| NewService {
                name: name.to_owned(),
                arm: position % 2,
                block: 0,
                position: position as u32,
                attributes: json!({}),
            };
            let services: Vec<NewService> = services.into_iter().enumerate().map(of).collect();
            let id = store.begin_field_trial(&trial(name), &[None, None], &services).unwrap();
            let mut lives = Vec::new();
            for service in store.services(id).unwrap() {
                let key = LifeKey { boot_id: "boot".into(), pid: service.id as i32, start_ticks: 1 };
                lives.push(store.add_life(service.id, &key, (0, 0), None, None).unwrap());
            }
            for (sequence, mib) in (0_i64..).zip(readings) {
                let sample = Sample { rss_bytes: mib << 20, ..Sample::default() };
                let samples = lives.iter().map(|life| (*life, sample)).collect();
                let boottime_us = 1_000_000 * (sequence + 1);
                store
                    .write_tick(id, &TickInput { sequence, boottime_us, samples, ..TickInput::default() })
                    .unwrap();
            }
            store.end_trial(id, 1, "completed").unwrap();
        }
        let past = read_past(&store, &BTreeSet::from(["a.service", "b.service", "c.service"])).unwrap();
        assert_eq!(past, BTreeMap::from([("a.service".into(), 900 << 20), ("b.service".into(), 20 << 20)]));
    }
}
