//! What a check sees: the host, systemd, processes and the database, read and never changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_allocator::{Expected, IdentifyError, identify_started_with};
use heaptrial_change::{FileState, PRELOAD};
use heaptrial_evaluate::analysis::{DAY, Worked};
use heaptrial_evaluate::judgement::{JudgementError, TRAFFIC, dated_lives, find_trial, traffic_since};
use heaptrial_host::systemd::{Manager as _, Systemd, SystemdError, Unit, why_essential};
use heaptrial_host::{HostError, HostRoot, Paths, Process};
use heaptrial_inspect::{NextStart, files_with_preload};
use heaptrial_model::{Identity, Metric, ServiceName, TorFlag};
use heaptrial_store::{Store, StoreError};
use sha2::{Digest, Sha256};

use crate::watch::plan::{Fingerprint, WatchPlan, WatchedService};
use crate::watch::seen::{DropInSeen, FailureSeen, Seen, ServiceSeen};
use crate::watch::{changed, flags};

/// What a restart takes from a relay has come back by then.
const SETTLED_SECONDS: f64 = 2.0 * DAY;
/// Names of C libraries' files begin so.
const C_LIBRARIES: [&str; 3] = ["libc.so.", "libc-2.", "ld-musl-"];

/// SHA-256 of files, each read once.
#[derive(Debug, Default)]
pub(crate) struct Digests(HashMap<PathBuf, Option<String>>);

impl Digests {
    /// In hexadecimal; `None` where the file is gone or cannot be read.
    pub(crate) fn of(&mut self, path: &Path) -> Option<String> {
        let digest = || Some(hex::encode(Sha256::digest(fs::read(path).ok()?)));
        self.0.entry(path.to_owned()).or_insert_with(digest).clone()
    }
}

/// Why it cannot be told what a process runs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnseenError {
    #[error(transparent)]
    Identity(#[from] IdentifyError),
    #[error(transparent)]
    Host(#[from] HostError),
}

/// What a process runs, with the whole identity.
pub(crate) fn fingerprint(
    root: &HostRoot,
    unit: &Unit,
    pid: i32,
    digests: &mut Digests,
) -> Result<(Fingerprint, Identity), UnseenError> {
    let process = Process::new(root, pid);
    let identity = identify_started_with(&process, &NextStart::of(root, unit).variables())?;
    let libc = process.mappings()?.into_iter().find_map(|mapping| {
        let path = PathBuf::from(&mapping.name);
        let name = path.file_name()?.to_str()?;
        let is_libc = C_LIBRARIES.iter().any(|libc| name.starts_with(libc));
        (is_libc && mapping.is_file() && mapping.is_executable()).then_some((path, mapping.deleted))
    });
    let libc = libc.filter(|(_, deleted)| !deleted).and_then(|(path, _)| {
        let digest = digests.of(&process.seen_path(&path)).or_else(|| digests.of(&path))?;
        Some((path, digest))
    });
    let runs = Fingerprint {
        allocator: identity.label(),
        build: identity.sha256.clone().or_else(|| identity.build_id.clone()),
        settings: identity.settings.clone(),
        libc,
    };
    Ok((runs, identity))
}

/// Units of these services, by name.
pub(crate) fn units(
    systemd: &Systemd,
    services: &[ServiceName],
) -> Result<HashMap<ServiceName, Unit>, SystemdError> {
    let units = services.iter().cloned().zip(systemd.named(services)?);
    Ok(units.filter_map(|(name, unit)| Some((name, unit?))).collect())
}

/// SHA-256 of Heaptrial's drop-in of a service.
pub(crate) fn drop_in(paths: &Paths, service: &ServiceName) -> Option<String> {
    sha256(&paths.drop_in(service))
}

/// SHA-256 of a file; `None` where there is none.
fn sha256(path: &Path) -> Option<String> {
    match FileState::read(path) {
        Ok(FileState::File { sha256, .. }) => Some(sha256),
        _ => None,
    }
}

/// The file by which somebody else gives a service what it preloads, with its SHA-256: of several that which counts.
pub(crate) fn foreign_file(unit: &Unit) -> Option<(PathBuf, String)> {
    let path = files_with_preload(&HostRoot::default(), unit).pop()?;
    let digest = content(&path)?;
    Some((path, digest))
}

/// SHA-256 of what a path leads to, links followed; `None` where that is nothing.
fn content(path: &Path) -> Option<String> {
    Some(hex::encode(Sha256::digest(fs::read(path).ok()?)))
}

/// Sees what there is at a time. What cannot be looked at is told in [`Seen::unreadable`].
pub fn see(
    plan: &WatchPlan,
    paths: &Paths,
    systemd: Result<&Systemd, &SystemdError>,
    store: Result<&Store, &StoreError>,
    at: f64,
) -> Seen {
    let mut seen = Seen { at, ..Seen::default() };
    let mut digests = Digests::default();
    let names: Vec<ServiceName> = plan.services.iter().map(|planned| planned.service.clone()).collect();
    let units = match systemd.map(|systemd| units(systemd, &names)) {
        Ok(Ok(units)) => Some(units),
        Ok(Err(error)) => {
            seen.unreadable.push(error.to_string());
            None
        }
        Err(error) => {
            seen.unreadable.push(error.to_string());
            None
        }
    };
    let planned = plan.services.iter();
    seen.services = planned.map(|planned| service(planned, paths, units.as_ref(), &mut digests)).collect();
    match store.map(|store| readings(plan, store, &mut seen)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => seen.unreadable.push(error.to_string()),
        Err(error) => seen.unreadable.push(error.to_string()),
    }
    if let Ok(systemd) = systemd {
        match newcomers(plan, paths, systemd) {
            Ok(found) => seen.newcomers = found,
            Err(error) => seen.unreadable.push(error.to_string()),
        }
    }
    changed::see(plan, paths, &mut seen);
    seen.files = plan.files.keys().map(|path| (path.clone(), digests.of(path))).collect();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    seen.host_bytes = meminfo_bytes(&meminfo, "MemTotal:");
    seen.host_available_bytes = meminfo_bytes(&meminfo, "MemAvailable:");
    seen
}

fn service(
    planned: &WatchedService,
    paths: &Paths,
    units: Option<&HashMap<ServiceName, Unit>>,
    digests: &mut Digests,
) -> ServiceSeen {
    let unit = units.and_then(|units| units.get(&planned.service));
    let runs = unit.and_then(|unit| unit.status.main_pid);
    let runs = runs.and_then(|pid| fingerprint(&HostRoot::default(), unit?, pid, digests).ok());
    let in_force = |unit: &Unit| match &planned.drop_in_path {
        Some(path) => files_with_preload(&HostRoot::default(), unit).contains(path),
        None => unit.drop_ins.contains(&paths.drop_in(&planned.service)),
    };
    let present = match &planned.drop_in_path {
        Some(path) => content(path),
        None => drop_in(paths, &planned.service),
    };
    let drop_in = units.map(|_| DropInSeen {
        sha256: present,
        written_by_transaction: false,
        in_force: unit.is_some_and(in_force),
        overridden: unit
            .map_or(Vec::new(), |unit| overridden(planned.expected.as_ref(), unit))
            .into_iter()
            .filter(|name| !planned.not_of_unit.contains(name))
            .collect(),
    });
    ServiceSeen {
        service: planned.service.to_string(),
        limit_bytes: unit.and_then(|unit| unit.memory_max_bytes).map(|bytes| bytes as f64),
        stopped: units.and_then(|_| stopped(unit)),
        runs: runs.map(|(runs, _)| runs),
        drop_in,
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

/// Variables of the treatment that have another value for systemd.
pub(crate) fn overridden(expected: Option<&Expected>, unit: &Unit) -> Vec<String> {
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
        own.lost_flags.clear();
        for flag in flags::WATCHED {
            if flags::lost_since(&store.observations(&life, flag.observation())?).is_some() {
                own.lost_flags.push(flag);
            }
        }
        let told = TRAFFIC.into_iter().chain(TorFlag::ALL.iter().map(|flag| flag.observation()));
        let told = store.last_observed(life.id, told)?;
        let planned = plan.services.iter().find(|planned| planned.service.as_str() == own.service);
        let could_answer = told.is_some() || planned.is_some_and(|planned| planned.usual_work.is_some());
        let told = told.unwrap_or(life.started_wall_us).max(life.started_wall_us);
        own.unanswered_since = could_answer.then_some(told as f64 / 1e6);
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

/// Services that run, match the trial's patterns, are none of its own, have no drop-in of Heaptrial and preload nothing that
/// services of the watch run. What holds up the host would have no treatment.
fn newcomers(plan: &WatchPlan, paths: &Paths, systemd: &Systemd) -> Result<Vec<String>, SystemdError> {
    let found = systemd.service_names(&plan.patterns)?;
    let known = |name: &ServiceName| {
        plan.services.iter().any(|own| own.service == *name) || plan.others.contains(name)
    };
    let new: Vec<ServiceName> =
        found.into_iter().filter(|name| !known(name) && drop_in(paths, name).is_none()).collect();
    let new: Vec<ServiceName> = new.into_iter().filter(|name| why_essential(name).is_none()).collect();
    let runs =
        systemd.statuses(&new).into_iter().map(|status| status.is_ok_and(|status| status.is_running()));
    let new: Vec<ServiceName> =
        new.into_iter().zip(runs).filter(|(_, runs)| *runs).map(|(name, _)| name).collect();
    let objects: BTreeSet<&PathBuf> =
        plan.services.iter().filter_map(|own| own.expected.as_ref()?.object.as_ref()).collect();
    let (units, root) = (units(systemd, &new)?, HostRoot::default());
    let by_hand = |name: &&ServiceName| {
        units.get(*name).is_some_and(|unit| {
            let next = NextStart::of(&root, unit);
            objects.iter().any(|object| next.preload_of(&root, object).is_some())
        })
    };
    Ok(new.iter().filter(|name| !by_hand(name)).map(ToString::to_string).collect())
}

fn meminfo_bytes(text: &str, key: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

/// SHA-256 of the files of code that services run, as they are on disk.
pub(crate) fn code(services: &[WatchedService]) -> BTreeMap<PathBuf, String> {
    let mut digests = Digests::default();
    let object = |own: &WatchedService| own.expected.as_ref().and_then(|expected| expected.object.clone());
    let libc = |own: &WatchedService| Some(own.runs.as_ref()?.libc.as_ref()?.0.clone());
    let paths = services.iter().flat_map(|own| [object(own), libc(own)]).flatten();
    paths.filter_map(|path| Some((path.clone(), digests.of(&path)?))).collect()
}
