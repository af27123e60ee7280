//! The parts of a trial over several hosts, taken into one database.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use heaptrial_model::{Classified, ErrorClass, TrialKind};
use heaptrial_store::{
    GATHERED, Gathered, PartOf, PartTick, Store, StoreError, TrialRecord, is_gathered, own_host,
    planned_hosts,
};
use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;

use crate::packed::unpack;

/// A host's clock this far ahead is told.
const AHEAD_US: i64 = 60_000_000;

/// What was taken in of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct GatheredPart {
    pub trial: String,
    /// The host, as the plan names it.
    pub host: String,
    pub new: Gathered,
    /// Its last tick that is here: what comes after it is what the next export has to bring.
    pub last: Option<PartTick>,
    /// Hosts of the plan of which nothing is here yet.
    pub missing: Vec<String>,
    /// By how many seconds what the host wrote last is later than now.
    pub ahead_seconds: Option<f64>,
}

/// Why a host's part was not taken in. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// A database could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its ledger is not as this version reads it: with it no report of the whole could be made.
    #[error("{}: what is told of lives cannot be read; nothing of it was taken in, write it anew on its host: {source}", path.display())]
    Unreadable { path: PathBuf, source: Box<StoreError> },
    /// A packed file does not give what was written.
    #[error("{}: cannot be unpacked: it is not whole, was changed, or has no room beside it", path.display())]
    Unpack { path: PathBuf, source: std::io::Error },
    /// There is no trial, or there are several.
    #[error("{}: {}", path.display(), which(known, named.as_deref()))]
    WhichTrial {
        path: PathBuf,
        /// The name that was asked for.
        named: Option<String>,
        known: Vec<String>,
    },
    /// A trial without a plan over hosts, or of a host that the plan does not have.
    #[error("{}: trial `{trial}` has no plan that names this host; only such trials can be gathered", path.display())]
    NoPlan { path: PathBuf, trial: String },
    /// It is no host's part.
    #[error("{}: trial `{trial}` was gathered itself; name what its hosts wrote", path.display())]
    IsGathered { path: PathBuf, trial: String },
    /// Ticks between what is here and what the file has are in neither.
    #[error(
        "{}: it begins after tick {first} of {host}, and {}; write all of it there with `heaptrial export --format heaptrial` \
         without --since",
        path.display(),
        what_is_here(*here)
    )]
    Misses {
        path: PathBuf,
        host: String,
        /// The tick before the first one of the file.
        first: i64,
        /// The last one that is here.
        here: Option<i64>,
    },
    /// Another trial of this name runs.
    #[error(
        "{}: it has another trial called `{trial}`, of another drawing; name another database with --db",
        path.display()
    )]
    OtherDrawing { path: PathBuf, trial: String },
    /// What the host applied is not what the plan says.
    #[error(
        "{}: what {host} has of trial `{trial}` is not as {why}: its plan was edited there, or the file is not what it says. \
         Nothing of it was taken in",
        path.display()
    )]
    OtherPlan { path: PathBuf, host: String, trial: String, why: String },
    /// The database is a host's own.
    #[error(
        "{}: trial `{trial}` runs on this host itself, and its database samples only services of this host; name another one \
         with --db",
        path.display()
    )]
    IsHost { path: PathBuf, trial: String },
}

impl Classified for GatherError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Store(error) => error.class(),
            _ => ErrorClass::Refused,
        }
    }
}

fn what_is_here(last: Option<i64>) -> String {
    match last {
        None => "there is nothing of that host here".to_owned(),
        Some(last) => format!("here is {last} as the last one"),
    }
}

fn which(known: &[String], named: Option<&str>) -> String {
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    match named {
        Some(named) => format!("there is no trial `{named}`; its trials are {known}"),
        None => format!("one trial is wanted, and its trials are {known}; name one with --trial"),
    }
}

/// What a host wrote, or a copy of its database.
pub struct PartFile {
    path: PathBuf,
    store: Store,
    unpacked: Option<NamedTempFile>,
}

impl PartFile {
    /// Opens it. What is packed is unpacked beside it as long as it is open.
    pub fn open(path: &Path) -> Result<Self, GatherError> {
        if !path.is_file() {
            return Err(StoreError::Missing { path: path.to_owned() }.into());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let unpacked =
            unpack(path, folder).map_err(|source| GatherError::Unpack { path: path.to_owned(), source })?;
        let store = Store::open(unpacked.as_ref().map_or(path, NamedTempFile::path))?;
        Ok(Self { path: path.to_owned(), store, unpacked })
    }

    /// The database that it is.
    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn trial(&self, named: Option<&str>) -> Result<TrialRecord, GatherError> {
        trial_of(&self.store, &self.path, named)
    }
}

fn trial_of(from: &Store, path: &Path, named: Option<&str>) -> Result<TrialRecord, GatherError> {
    let mut trials = from.trials()?;
    trials.retain(|trial| trial.plan.kind == TrialKind::Field);
    let names: BTreeSet<String> = trials.iter().map(|trial| trial.plan.name.clone()).collect();
    let wanted = |trial: &TrialRecord| named.is_none_or(|named| trial.plan.name == named);
    // Of several that had one name the last.
    match trials.iter().rposition(wanted).filter(|_| named.is_some() || names.len() == 1) {
        Some(index) => Ok(trials.swap_remove(index)),
        None => Err(GatherError::WhichTrial {
            path: path.to_owned(),
            named: named.map(str::to_owned),
            known: names.into_iter().collect(),
        }),
    }
}

/// Whose part of a trial a host's database is; `path` is what errors name.
pub fn host_of(from: &Store, path: &Path, trial: &TrialRecord) -> Result<String, GatherError> {
    let (path, name) = (path.to_owned(), trial.plan.name.clone());
    let parameters = &trial.plan.parameters;
    if is_gathered(parameters) {
        return Err(GatherError::IsGathered { path, trial: name });
    }
    // A file that `write_part` wrote says it.
    if let [part] = from.parts(trial.id)?.as_slice() {
        return Ok(part.host.clone());
    }
    match own_host(parameters) {
        Some(host) => Ok(host.to_owned()),
        None => Err(GatherError::NoPlan { path, trial: name }),
    }
}

/// In what a host's part differs from the plan that it names; `None` where it does not. Arms and blocks are what permutations go
/// by, and the file comes from another machine.
fn differs_from_plan(file: &Store, trial: &TrialRecord, host: &str) -> Result<Option<String>, GatherError> {
    let plan = &trial.plan.parameters["plan"];
    let assigned = |name: &str| {
        let services = plan["services"].as_array()?;
        services.iter().find(|own| own["host"] == host && own["service"] == name)
    };
    if !planned_hosts(&trial.plan.parameters).contains_key(host) {
        return Ok(Some(format!("a plan that has no host {host}")));
    }
    let arms = file.arms(trial.id)?;
    let of = |list: &str, key: &'static str| {
        let entries = plan[list].as_array().map_or(&[][..], Vec::as_slice);
        entries.iter().filter_map(move |entry| entry[key].as_str())
    };
    let planned: BTreeSet<&str> = of("arms", "name").chain(of("services", "arm")).collect();
    if let Some(other) = arms.iter().find(|arm| !planned.contains(arm.arm.name.as_str())) {
        return Ok(Some(format!("a plan without the arm {}", other.arm.name)));
    }
    for service in file.services(trial.id)? {
        let arm = arms.iter().find(|arm| arm.id == service.arm_id).map(|arm| arm.arm.name.as_str());
        let as_assigned = assigned(&service.name).is_some_and(|own| {
            own["arm"].as_str() == arm && own["block"].as_u64() == Some(service.block.into())
        });
        if !as_assigned {
            return Ok(Some(format!("what the plan says of {}", service.name)));
        }
    }
    Ok(None)
}

/// What of a plan may differ in a host's copy: nobody's arm or block depends on it, nor what is tested when.
const MAY_BE_EDITED: [&str; 4] = ["tool_version", "pace", "about", "services"];

/// The plan that is here with the lines that a host's copy has beside them, where the copy says the same but for what may be edited in it: lines may
/// have been removed from either. `None` where it does not say the same.
fn united(here: &Value, copy: &Value, host: &str) -> Option<Value> {
    let members = |plan: &Value| -> Option<Map<String, Value>> {
        let mut members = plan.as_object()?.clone();
        MAY_BE_EDITED.iter().for_each(|name| drop(members.remove(*name)));
        Some(members)
    };
    if members(here) != members(copy) {
        return None;
    }
    let lines = |plan: &Value| plan["services"].as_array().cloned().unwrap_or_default();
    let is_of = |line: &Value, other: &Value| ["host", "service"].iter().all(|key| line[*key] == other[*key]);
    let is_alike = |line: &Value, other: &Value| ["arm", "block"].iter().all(|key| line[*key] == other[*key]);
    let mut services = lines(here);
    for line in lines(copy) {
        match services.iter().find(|known| is_of(known, &line)) {
            Some(known) if line["host"] == host && !is_alike(known, &line) => return None,
            Some(_) => {}
            None => services.push(line),
        }
    }
    let mut plan = here.clone();
    plan["services"] = Value::from(services);
    Some(plan)
}

/// Takes what is new in a host's file, or a copy of its database, into `store`. `now_us` is in microseconds since 1970.
pub fn gather(
    store: &mut Store,
    part: PartFile,
    named: Option<&str>,
    now_us: i64,
) -> Result<GatheredPart, GatherError> {
    let trial = part.trial(named)?;
    let PartFile { path: from, store: file, unpacked } = part;
    let host = host_of(&file, &from, &trial)?;
    let unreadable = |error| GatherError::Unreadable { path: from.clone(), source: Box::new(error) };
    file.lives(trial.id).map_err(unreadable)?;
    let written = file.parts(trial.id)?.first().map(|part| part.gathered_wall_us);
    let last_us = file.last_tick(trial.id)?.map(|tick| tick.wall_us);
    let first = file.first_of_part(trial.id)?;
    let differs = differs_from_plan(&file, &trial, &host)?;
    let database = file.path().to_owned();
    drop(file);
    let parameters = &trial.plan.parameters;
    let id = &parameters["plan"]["id"];
    let trials = store.trials()?;
    let known = trials.iter().find(|known| known.plan.parameters["plan"]["id"] == *id);
    let own = |known: &&TrialRecord| known.plan.kind.is_on_services() && !is_gathered(&known.plan.parameters);
    if let Some(known) = trials.iter().find(own) {
        let (path, trial) = (store.path().to_owned(), known.plan.name.clone());
        return Err(GatherError::IsHost { path, trial });
    }
    let plan = match known {
        Some(known) => united(&known.plan.parameters["plan"], &parameters["plan"], &host),
        None => Some(parameters["plan"].clone()),
    };
    if let Some(why) = plan.is_none().then(|| "the plan that is here".to_owned()).or(differs) {
        let (path, trial) = (from, trial.plan.name);
        return Err(GatherError::OtherPlan { path, host, trial, why });
    }
    let of_name = |other: &TrialRecord| other.plan.name == trial.plan.name && other.ended_wall_us.is_none();
    if known.is_none() && trials.iter().any(of_name) {
        return Err(GatherError::OtherDrawing { path: store.path().to_owned(), trial: trial.plan.name });
    }
    let parts = known.map(|known| store.parts(known.id)).transpose()?.unwrap_or_default();
    let of_host = parts.iter().find(|part| part.host == host);
    let here = of_host.and_then(|part| part.last);
    let next = here.map_or(0, |tick| tick.sequence + 1);
    if let Some(first) = first.filter(|first| *first > next) {
        let here = here.map(|tick| tick.sequence);
        return Err(GatherError::Misses { path: from, host, first: first - 1, here });
    }
    let whole = json!({ "plan": plan, GATHERED: true });
    let hosts = planned_hosts(&whole);
    let services = whole["plan"]["services"].as_array().map_or(&[][..], Vec::as_slice);
    let positions: HashMap<String, u32> = (0..)
        .zip(services)
        .filter(|(_, assignment)| assignment["host"] == host.as_str())
        .filter_map(|(position, assignment)| Some((assignment["service"].as_str()?.to_owned(), position)))
        .collect();
    let part_of = PartOf {
        host: &host,
        trial_id: trial.id,
        positions: &positions,
        parameters: &whole,
        hosts: hosts.len(),
        now_us,
        verified: unpacked.is_some(),
    };
    let new = store.gather(&database, &part_of)?;
    let parts = store.parts(new.trial_id)?;
    let is_here = |host: &str| parts.iter().any(|part| part.host == host);
    let last = parts.iter().find(|part| part.host == host).and_then(|part| part.last);
    let missing = hosts.into_keys().filter(|host| !is_here(host)).map(str::to_owned).collect();
    let ahead = written.into_iter().chain(last_us).max().map(|wrote| wrote - now_us);
    let ahead_seconds = ahead.filter(|ahead| *ahead > AHEAD_US).map(|ahead| ahead as f64 / 1e6);
    Ok(GatheredPart { trial: trial.plan.name, host, new, last, missing, ahead_seconds })
}
