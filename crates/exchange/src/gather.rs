//! The parts of a trial over several hosts, taken into one database.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use heaptrial_model::{Assignment, DrawnPlan, TrialKind};
use heaptrial_store::{Gathered, PartOf, PartTick, Store, StoreError, TrialRecord};
use tempfile::NamedTempFile;

use crate::ImportError;
use crate::packed::unpack;

/// A host's clock this far ahead is reported.
const AHEAD_US: i64 = 60_000_000;

/// What was taken in of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct GatheredPart {
    pub trial: String,
    pub host: String,
    pub new: Gathered,
    /// Its last tick that is here: what comes after it is what the next export has to bring.
    pub last: Option<PartTick>,
    pub missing: Vec<String>,
    pub ahead_seconds: Option<f64>,
}

fn refuse(path: &Path, why: impl fmt::Display) -> ImportError {
    ImportError::file(path, &format!("{why}; nothing of it was taken in"))
}

/// What a host wrote, or a copy of its database.
pub struct PartFile {
    path: PathBuf,
    store: Store,
    unpacked: Option<NamedTempFile>,
}

impl PartFile {
    /// Opens it. What is packed is unpacked beside it as long as it is open.
    pub fn open(path: &Path) -> Result<Self, ImportError> {
        if !path.is_file() {
            return Err(StoreError::Missing { path: path.to_owned() }.into());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let unpacked = unpack(path, folder).map_err(|_| {
            let why = "cannot be unpacked: it is not whole, was changed, or has no room beside it";
            ImportError::file(path, why)
        })?;
        let store = Store::open(unpacked.as_ref().map_or(path, NamedTempFile::path))?;
        Ok(Self { path: path.to_owned(), store, unpacked })
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn trial(&self, named: Option<&str>) -> Result<TrialRecord, ImportError> {
        trial_of(&self.store, &self.path, named)
    }
}

fn trial_of(from: &Store, path: &Path, named: Option<&str>) -> Result<TrialRecord, ImportError> {
    let mut trials = from.trials()?;
    trials.retain(|trial| trial.plan.kind == TrialKind::Field);
    let names: BTreeSet<String> = trials.iter().map(|trial| trial.plan.name.clone()).collect();
    let wanted = |trial: &TrialRecord| named.is_none_or(|named| trial.plan.name == named);
    // Of several that had one name the last.
    if let Some(index) = trials.iter().rposition(wanted).filter(|_| named.is_some() || names.len() == 1) {
        return Ok(trials.swap_remove(index));
    }
    let known = if names.is_empty() { "none".to_owned() } else { Vec::from_iter(names).join(", ") };
    let why = match named {
        Some(named) => format!("it has no trial `{named}`; its trials are {known}"),
        None => format!("which trial? its trials are {known}; name one with --trial"),
    };
    Err(refuse(path, why))
}

/// Whose part of a trial a host's database is; `path` is what errors name.
pub fn host_of(from: &Store, path: &Path, trial: &TrialRecord) -> Result<String, ImportError> {
    let name = &trial.plan.name;
    if trial.is_gathered() {
        let why = format!("trial `{name}` was gathered itself; name what its hosts wrote");
        return Err(refuse(path, why));
    }
    // A file that `write_part` wrote says it.
    if let [part] = from.parts(trial.id)?.as_slice() {
        return Ok(part.host.clone());
    }
    let why = || format!("trial `{name}` has no plan that names this host; only such trials can be gathered");
    trial.own_host().map(str::to_owned).ok_or_else(|| refuse(path, why()))
}

/// In what a host's part differs from the plan that it names; `None` where it does not. Arms and blocks are what permutations go
/// by, and the file comes from another machine.
fn differs_from_plan(
    file: &Store,
    trial_id: i64,
    plan: &DrawnPlan,
    host: &str,
) -> Result<Option<String>, ImportError> {
    if plan.services.iter().all(|own| own.host != host) {
        return Ok(Some(format!("a plan that has no host {host}")));
    }
    let arms = file.arms(trial_id)?;
    let is_planned = |name: &str| plan.services.iter().any(|own| own.arm == name);
    if let Some(other) = arms.iter().find(|arm| !is_planned(&arm.arm.name)) {
        return Ok(Some(format!("a plan without the arm {}", other.arm.name)));
    }
    for service in file.services(trial_id)? {
        let arm = arms.iter().find(|arm| arm.id == service.arm_id).map(|arm| arm.arm.name.as_str());
        let as_assigned = |own: &&Assignment| {
            own.host == host
                && own.service.as_str() == service.name
                && Some(own.arm.as_str()) == arm
                && own.block == service.block
        };
        if !plan.services.iter().any(|own| as_assigned(&own)) {
            return Ok(Some(format!("what the plan says of {}", service.name)));
        }
    }
    Ok(None)
}

/// Whether a host's copy of the plan is that which is here, but for what may be edited in it: nobody's arm or block depends on that,
/// nor what is tested when.
fn is_copy(here: &DrawnPlan, copy: &DrawnPlan) -> bool {
    let alike = DrawnPlan {
        tool_version: here.tool_version.clone(),
        pace: here.pace,
        about: here.about.clone(),
        services: here.services.clone(),
        ..copy.clone()
    };
    alike == *here
}

/// Takes a host's file, or a copy of its database, into `store`: what follows the last tick that is here is appended; an older copy
/// changes nothing. A file that does not continue what is here is refused, or with `replace` takes the place of all that is here of its
/// host. `now_us` is in microseconds since 1970.
pub fn gather(
    store: &mut Store,
    part: PartFile,
    named: Option<&str>,
    replace: bool,
    now_us: i64,
) -> Result<GatheredPart, ImportError> {
    let trial = part.trial(named)?;
    let PartFile { path: from, store: file, unpacked } = part;
    let refused = |why: String| refuse(&from, why);
    let host = host_of(&file, &from, &trial)?;
    let (host, name) = (host.as_str(), trial.plan.name.as_str());
    // With a ledger that cannot be read no report of the whole could be made.
    file.lives(trial.id)?;
    let Some(copy) = &trial.drawn else {
        return Err(refused(format!(
            "trial `{name}` has no plan; only a trial that was drawn over hosts can be gathered"
        )));
    };
    let trials = store.trials()?;
    if let Some(own) = trials.iter().find(|own| own.plan.kind.is_on_services() && !own.is_gathered()) {
        let own = &own.plan.name;
        return Err(refused(format!(
            "{}: trial `{own}` runs on this host itself, and its database has only services of this host; name another with --db",
            store.path().display()
        )));
    }
    let known = trials.iter().find(|known| known.is_of(&copy.id));
    let of_name = |other: &TrialRecord| other.plan.name == name && other.ended_wall_us.is_none();
    if known.is_none() && trials.iter().any(of_name) {
        return Err(refused(format!(
            "{} has a different trial `{name}` (another random draw); name another database with --db",
            store.path().display()
        )));
    }
    let plan = known.and_then(|known| known.drawn.as_ref()).unwrap_or(copy);
    if !is_copy(plan, copy) {
        return Err(refused(format!(
            "what {host} has of trial `{name}` is not as the plan that is here: it was edited there"
        )));
    }
    if let Some(why) = differs_from_plan(&file, trial.id, plan, host)? {
        return Err(refused(format!(
            "what {host} has of trial `{name}` is not as {why}: its plan was edited there"
        )));
    }
    let parts = known.map(|known| store.parts(known.id)).transpose()?.unwrap_or_default();
    let here = parts.iter().find(|part| part.host == host).filter(|_| !replace);
    let last_there = file.last_tick(trial.id)?;
    let written = file.parts(trial.id)?.first().map(|part| (part.gathered_wall_us, part.last));
    let first = file.first_of_part(trial.id)?.unwrap_or(0);
    let next = here.and_then(|here| here.last).map_or(0, |tick| tick.sequence + 1);
    if here.is_some_and(|here| here.started_wall_us != trial.plan.started_wall_us) {
        return Err(refused(format!(
            "{host} recorded the trial again since it was gathered: its database was lost, or it was installed again. Gather into \
             another database with --db, or give --replace to remove what is here of {host}"
        )));
    }
    if first > next {
        return Err(refused(format!(
            "it begins after tick {} of {host}, and the next one here is {next}; write all of it there with \
             `heaptrial export --format heaptrial` without --since",
            first - 1
        )));
    }
    let last_sequence =
        last_there.map(|tick| tick.sequence).or(written.and_then(|(_, last)| last).map(|tick| tick.sequence));
    let state_there = (last_sequence, trial.ended_wall_us.is_some());
    let state_here = here.map(|here| (here.last.map(|tick| tick.sequence), here.ended_wall_us.is_some()));
    let new = match known.filter(|_| Some(state_there) < state_here) {
        Some(known) => Gathered { trial_id: known.id, ..Gathered::default() },
        None => {
            let database = file.path().to_owned();
            drop(file);
            let (trial_id, verified) = (trial.id, unpacked.is_some());
            store.gather(&database, &PartOf { host, trial_id, plan, now_us, verified, replace })?
        }
    };
    let parts = store.parts(new.trial_id)?;
    let is_here = |host: &str| parts.iter().any(|part| part.host == host);
    let last = parts.iter().find(|part| part.host == host).and_then(|part| part.last);
    let wrote_us = written.map(|(wrote_us, _)| wrote_us).max(last_there.map(|tick| tick.wall_us));
    let ahead = wrote_us.map(|wrote_us| wrote_us - now_us).filter(|ahead| *ahead > AHEAD_US);
    Ok(GatheredPart {
        trial: trial.plan.name.clone(),
        host: host.to_owned(),
        new,
        last,
        missing: plan.hosts().into_keys().filter(|host| !is_here(host)).map(str::to_owned).collect(),
        ahead_seconds: ahead.map(|ahead| ahead as f64 / 1e6),
    })
}
