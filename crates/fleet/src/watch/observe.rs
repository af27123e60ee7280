//! What a check sees: the host, systemd, processes and the database, read and never changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_allocator::{Expected, Identifier, IdentifyError};
use heaptrial_change::PRELOAD;
use heaptrial_evaluate::analysis::{DAY, Worked};
use heaptrial_evaluate::judgement::{JudgementError, TRAFFIC, dated_lives, find_trial, traffic_since};
use heaptrial_host::systemd::{Systemd, SystemdError, Unit, why_essential};
use heaptrial_host::{HostRoot, Process};
use heaptrial_inspect::NextStart;
use heaptrial_model::{Identity, MappedLibrary, Metric, ServiceName, TorFlag};
use heaptrial_store::{Store, StoreError};
use sha2::{Digest, Sha256};

use crate::watch::plan::{WatchPlan, WatchedService};
use crate::watch::seen::{FailureSeen, Seen, ServiceSeen};

/// What a restart takes from a relay has come back by then.
const SETTLED_SECONDS: f64 = 2.0 * DAY;
/// Names of C libraries begin so.
const C_LIBRARIES: [&str; 3] = ["libc.so.", "libc.musl-", "ld-musl-"];

/// What a process of a unit runs.
pub(crate) fn identify(identifier: &Identifier, unit: &Unit, pid: i32) -> Result<Identity, IdentifyError> {
    let root = HostRoot::default();
    let variables = NextStart::of(&root, unit).variables();
    identifier.identify(&Process::new(&root, pid), &|| Some(variables.clone()))
}

/// The C library among those that a process maps.
pub(crate) fn c_library(identity: &Identity) -> Option<&MappedLibrary> {
    let is_one = |library: &&MappedLibrary| C_LIBRARIES.iter().any(|name| library.name.starts_with(name));
    identity.libraries.iter().find(is_one)
}

/// Units of these services, by name.
pub(crate) fn units(
    systemd: &Systemd,
    services: &[ServiceName],
) -> Result<HashMap<ServiceName, Unit>, SystemdError> {
    let units = services.iter().cloned().zip(systemd.named(services)?);
    Ok(units.filter_map(|(name, unit)| Some((name, unit?))).collect())
}

/// SHA-256 of what a path leads to, links followed; `None` where that is nothing.
fn content(path: &Path) -> Option<String> {
    Some(hex::encode(Sha256::digest(fs::read(path).ok()?)))
}

/// Sees what there is at a time. What cannot be looked at is listed in [`Seen::unreadable`].
pub fn see(
    plan: &WatchPlan,
    systemd: Result<&Systemd, &SystemdError>,
    store: Result<&Store, &StoreError>,
    at: f64,
) -> Seen {
    let mut seen = Seen { at, ..Seen::default() };
    let identifier = Identifier::default();
    let names: Vec<ServiceName> = plan.services.iter().map(|planned| planned.service.clone()).collect();
    let units = match systemd {
        Ok(systemd) => units(systemd, &names).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let units = units.map_err(|error| seen.unreadable.push(error)).ok();
    let planned = plan.services.iter();
    seen.services = planned.map(|planned| service(planned, units.as_ref(), &identifier)).collect();
    let read = match store {
        Ok(store) => readings(plan, store, &mut seen).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    seen.unreadable.extend(read.err());
    if let Ok(systemd) = systemd {
        match newcomers(plan, systemd) {
            Ok(found) => seen.newcomers = found,
            Err(error) => seen.unreadable.push(error.to_string()),
        }
    }
    seen.files = plan.files.keys().map(|path| (path.clone(), content(path))).collect();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    seen.host_bytes = meminfo_bytes(&meminfo, "MemTotal:");
    seen.host_available_bytes = meminfo_bytes(&meminfo, "MemAvailable:");
    seen
}

fn service(
    planned: &WatchedService,
    units: Option<&HashMap<ServiceName, Unit>>,
    identifier: &Identifier,
) -> ServiceSeen {
    let unit = units.and_then(|units| units.get(&planned.service));
    let runs = unit.and_then(|unit| unit.status.main_pid);
    let runs = runs.and_then(|pid| identify(identifier, unit?, pid).ok());
    let next_lacks = units.map(|_| match unit {
        None => Vec::new(),
        Some(unit) if unit.needs_reload => vec!["systemd has not read its changed files".to_owned()],
        Some(unit) => lacking(planned.expected.as_ref(), unit),
    });
    ServiceSeen {
        service: planned.service.to_string(),
        limit_bytes: unit.and_then(|unit| unit.memory_max_bytes).map(|bytes| bytes as f64),
        stopped: units.and_then(|_| stopped(unit)),
        runs,
        next_lacks,
        ..ServiceSeen::default()
    }
}

/// How a service is that does not run, and that nothing is about to start.
fn stopped(unit: Option<&Unit>) -> Option<String> {
    let Some(unit) = unit else { return Some("not known to systemd any more".to_owned()) };
    let status = &unit.status;
    let is_down = matches!(status.active_state.as_str(), "inactive" | "failed");
    is_down.then(|| format!("{} ({})", status.active_state, status.sub_state))
}

/// What of a treatment the next start of its service will be without.
pub(crate) fn lacking(expected: Option<&Expected>, unit: &Unit) -> Vec<String> {
    let Some(expected) = expected else { return Vec::new() };
    let root = HostRoot::default();
    let next = NextStart::of(&root, unit);
    let differs = |(name, value): &&(String, String)| next.value(name) != Some(value.as_str());
    let mut names: Vec<String> =
        expected.settings.iter().filter(differs).map(|(name, _)| name.clone()).collect();
    if expected.object.as_ref().is_some_and(|object| next.preload_of(&root, object).is_none()) {
        names.push(PRELOAD.to_owned());
    }
    names
}

fn readings(plan: &WatchPlan, store: &Store, seen: &mut Seen) -> Result<(), JudgementError> {
    let names: HashMap<i64, String> =
        store.services(plan.trial_id)?.into_iter().map(|service| (service.id, service.name)).collect();
    for latest in store.latest(plan.trial_id)? {
        let service = names.get(&latest.service_id);
        let Some(own) = seen.services.iter_mut().find(|own| Some(&own.service) == service) else { continue };
        own.contamination = latest.contamination.clone();
        if latest.rss_bytes.is_some() {
            own.last_reading_at = Some(latest.wall_us as f64 / 1e6);
            own.bytes = latest.level(plan.metric).map(|bytes| bytes as f64);
            // The other metrics are of what lies in memory.
            let swap = latest.swap_bytes.filter(|_| plan.metric == Metric::Anon);
            own.swap_bytes = swap.unwrap_or(0) as f64;
        }
    }
    for life in dated_lives(store, &find_trial(store, plan.trial_id)?)? {
        let service = names.get(&life.service_id);
        let Some(own) = seen.services.iter_mut().find(|own| Some(&own.service) == service) else { continue };
        // Of several lives the last one counts, and one without readings has lost nothing.
        let reported = TRAFFIC.into_iter().chain(TorFlag::ALL.iter().map(|flag| flag.observation()));
        let reported = store.last_observed(life.id, reported)?;
        let planned = plan.services.iter().find(|planned| planned.service.as_str() == own.service);
        let could_answer = reported.is_some() || planned.is_some_and(|planned| planned.usual_work.is_some());
        let reported = reported.unwrap_or(life.started_wall_us).max(life.started_wall_us);
        own.unanswered_since = could_answer.then_some(reported as f64 / 1e6);
        let since = |age: f64| traffic_since(store, &life, age - DAY);
        own.worked = match store.last_age(&life)?.filter(|age| *age >= SETTLED_SECONDS) {
            Some(age) => Worked::of_counter(&since(age)?),
            None => None,
        };
    }
    let failure = |event: heaptrial_store::EventRecord| {
        let kind = event.kind.known().filter(|kind| kind.is_failure())?;
        let service = names.get(&event.service_id?)?.clone();
        Some(FailureSeen { at: event.wall_us as f64 / 1e6, service, kind })
    };
    seen.failures = store.events(plan.trial_id)?.into_iter().filter_map(failure).collect();
    Ok(())
}

/// Services that run, match the trial's patterns, are none of its own, and will not start with what services of the watch run.
/// What holds up the host would have no treatment.
fn newcomers(plan: &WatchPlan, systemd: &Systemd) -> Result<Vec<String>, SystemdError> {
    let mut new = systemd.service_names(&plan.patterns)?;
    let is_own = |name: &ServiceName| plan.services.iter().any(|own| own.service == *name);
    new.retain(|name| !is_own(name) && !plan.others.contains(name) && why_essential(name).is_none());
    let units = units(systemd, &new)?;
    let expected: Vec<&Expected> = plan.services.iter().filter_map(|own| own.expected.as_ref()).collect();
    let is_new = |name: &&ServiceName| {
        units.get(*name).is_some_and(|unit| {
            unit.status.is_running()
                && expected.iter().all(|expected| !lacking(Some(expected), unit).is_empty())
        })
    };
    Ok(new.iter().filter(is_new).map(ToString::to_string).collect())
}

fn meminfo_bytes(text: &str, key: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

/// SHA-256 of the files of code that services run, as they are on disk.
pub(crate) fn code(services: &[WatchedService]) -> BTreeMap<PathBuf, String> {
    let paths: BTreeSet<&PathBuf> = services.iter().flat_map(WatchedService::code).collect();
    paths.into_iter().filter_map(|path| Some((path.clone(), content(path)?))).collect()
}
