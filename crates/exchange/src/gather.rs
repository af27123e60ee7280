//! The parts of a trial over several hosts, taken into one database.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use heaptrial_model::{Assignment, Classified, DrawnPlan, ErrorClass, TrialKind};
use heaptrial_store::{GATHERED, Gathered, PartOf, PartTick, Store, StoreError, TrialRecord};
use serde_json::json;
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
    if trial.is_gathered() {
        return Err(GatherError::IsGathered { path, trial: name });
    }
    // A file that `write_part` wrote says it.
    if let [part] = from.parts(trial.id)?.as_slice() {
        return Ok(part.host.clone());
    }
    match trial.own_host() {
        Some(host) => Ok(host.to_owned()),
        None => Err(GatherError::NoPlan { path, trial: name }),
    }
}

/// In what a host's part differs from the plan that it names; `None` where it does not. Arms and blocks are what permutations go
/// by, and the file comes from another machine.
fn differs_from_plan(
    file: &Store,
    trial_id: i64,
    plan: &DrawnPlan,
    host: &str,
) -> Result<Option<String>, GatherError> {
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

/// The plan that is here with the lines that a host's copy has alongside, where the copy says the same but for what may be
/// edited in it: lines may have been removed from either. `None` where it does not say the same.
fn united(here: &DrawnPlan, copy: &DrawnPlan, host: &str) -> Option<DrawnPlan> {
    // Nobody's arm or block depends on these, nor what is tested when.
    let alike = DrawnPlan {
        tool_version: here.tool_version.clone(),
        pace: here.pace,
        about: here.about.clone(),
        services: here.services.clone(),
        ..copy.clone()
    };
    if alike != *here {
        return None;
    }
    let mut plan = alike;
    for line in &copy.services {
        match here.services.iter().find(|own| (&own.host, &own.service) == (&line.host, &line.service)) {
            Some(own) if line.host == host && (&own.arm, own.block) != (&line.arm, line.block) => {
                return None;
            }
            Some(_) => {}
            None => plan.services.push(line.clone()),
        }
    }
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
    let Some(copy) = &trial.drawn else {
        return Err(GatherError::NoPlan { path: from, trial: trial.plan.name });
    };
    let differs = differs_from_plan(&file, trial.id, copy, &host)?;
    let database = file.path().to_owned();
    drop(file);
    let trials = store.trials()?;
    let known = trials.iter().find(|known| known.is_of(&copy.id));
    let own = |known: &&TrialRecord| known.plan.kind.is_on_services() && !known.is_gathered();
    if let Some(known) = trials.iter().find(own) {
        let (path, trial) = (store.path().to_owned(), known.plan.name.clone());
        return Err(GatherError::IsHost { path, trial });
    }
    let plan = match known.and_then(|known| known.drawn.as_ref()) {
        Some(here) => united(here, copy, &host),
        None => Some(copy.clone()),
    };
    let plan = match (plan, differs) {
        (Some(plan), None) => plan,
        (plan, differs) => {
            let why = plan.map_or(Some("the plan that is here".to_owned()), |_| differs).unwrap_or_default();
            return Err(GatherError::OtherPlan { path: from, host, trial: trial.plan.name, why });
        }
    };
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
    let hosts = plan.hosts();
    let positions: HashMap<String, u32> = (0..)
        .zip(&plan.services)
        .filter(|(_, assignment)| assignment.host == host)
        .map(|(position, assignment)| (assignment.service.to_string(), position))
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
