//! A trial on this host: its folder, its journal, its lock.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use heaptrial_allocator::Identifier;
use heaptrial_host::systemd::{Systemd, SystemdError};
use heaptrial_model::{LifeKey, ServiceName};
use heaptrial_plan::DrawnPlan;
use serde::{Deserialize, Serialize};

use crate::change::ChangeError;
use crate::files::{FileError, FileState};
use crate::journal::{Event, JOURNAL, Journal, JournalError};
use crate::lock::{DEAD_MAN, Lock, LockError};
use crate::state::{Stage, TrialState};
use crate::takeover::Takeover;
use crate::treatment::{Mark, ServiceTreatment};
use crate::{Places, files};

/// Name of the frozen plan in a trial's folder.
const PREPARED: &str = "prepared.json";

/// Everything that a start needs, frozen when it begins, so that a resume or a revert depends on nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// The plan as drawn.
    pub plan: DrawnPlan,
    /// The services of this host, in the order in which they are restarted.
    pub services: Vec<ServiceTreatment>,
    /// Libraries to install.
    pub libraries: Vec<Library>,
    /// Further files of the host, and the unit to start once they are there.
    pub agent: Option<HostUnit>,
    /// What a rollout froze beside this; `None` for a trial. The crate `rollout` reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<serde_json::Value>,
}

impl Prepared {
    /// What a process that does something with it is called, to others that wait for it.
    fn label(&self, purpose: &str) -> String {
        let what = if self.rollout.is_some() { "rollout" } else { "trial" };
        format!("{what} {purpose} {}", self.plan.name)
    }
}

/// A library to install.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// Where it is now.
    pub source: PathBuf,
    /// Where it goes.
    pub installed: PathBuf,
    /// SHA-256 of it in hexadecimal.
    pub sha256: String,
}

/// A unit file that the trial brings along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostUnit {
    /// Its name.
    pub name: ServiceName,
    /// Its text.
    pub text: String,
}

/// Why a trial cannot be started, resumed or reverted.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    /// There is no such trial here.
    #[error("there is no trial `{name}` on this host ({folder} is missing){}", known_trials(.known))]
    Unknown {
        /// Its name.
        name: String,
        /// Where it would be.
        folder: PathBuf,
        /// Which there are.
        known: Vec<String>,
    },
    /// There is one of this name already.
    #[error("there is a trial `{name}` on this host already ({folder}); give the new one another name")]
    Exists {
        /// Its name.
        name: String,
        /// Its folder.
        folder: PathBuf,
    },
    /// It cannot be done where the trial stands.
    #[error("{0}")]
    Stage(String),
    /// A file of the trial's folder cannot be used.
    #[error("{doing} {path}: {source}")]
    Folder {
        /// What was tried.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The frozen plan cannot be read.
    #[error("{path} is damaged: {problem}")]
    Prepared {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A library to install is not the one that was measured.
    #[error("{path}: {problem}")]
    Library {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Somebody else is at it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A change.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// systemd.
    #[error(transparent)]
    Systemd(#[from] SystemdError),
}

fn known_trials(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; there are {}", known.join(", ")) }
}

/// Told what happens to services.
pub trait Witness {
    /// Something happened to a service.
    fn told(&mut self, service: &ServiceTreatment, news: &News<'_>);
    /// Nothing happens for a moment: so many are done of so many.
    fn waiting(&mut self, _done: usize, _of: usize, _why: &str) {}
    /// Something that nobody asked for, and that a person should know.
    fn warning(&mut self, text: &str);
}

/// What happens to a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News<'a> {
    /// It is about to be restarted.
    Restarting,
    /// It runs what its arm wants.
    Committed(&'a LifeKey),
    /// It does not, and is put back.
    Failed(&'a str),
    /// It is as before.
    Reverted,
    /// It could not be put back.
    RevertFailed(&'a str),
}

/// A trial on this host, locked against every other process that changes services.
#[derive(Debug)]
pub struct Trial<'a> {
    pub(crate) systemd: &'a Systemd,
    pub(crate) places: Places,
    pub(crate) prepared: Prepared,
    pub(crate) journal: Journal,
    pub(crate) state: TrialState,
    /// Installed libraries that were hashed, by what tells a change: device, inode, size, time.
    pub(crate) checked_libraries: HashMap<PathBuf, (u64, u64, u64, i64, i64)>,
    /// Services have their program and libraries in common.
    pub(crate) identifier: Identifier,
    /// What others have in force on services; nobody else changes that while this is locked.
    pub(crate) takeover: Option<Takeover>,
    _lock: Lock,
}

impl<'a> Trial<'a> {
    /// Makes the folder of a new trial. Nothing else of the host is changed.
    pub fn create(systemd: &'a Systemd, places: &Places, prepared: Prepared) -> Result<Self, FieldError> {
        let lock = Lock::take(&places.state, &prepared.label("start"))?;
        let folder = places.trial(&prepared.plan.name);
        if folder.join(PREPARED).exists() {
            return Err(FieldError::Exists { name: prepared.plan.name.clone(), folder });
        }
        files::make_folders(&folder.join(PREPARED))?;
        let path = folder.join(PREPARED);
        let text = serde_json::to_vec_pretty(&prepared)
            .map_err(|error| FieldError::Prepared { path: path.clone(), problem: error.to_string() })?;
        files::put(&path, &own_file(&text), &text)?;
        let journal = Journal::open(&folder)?;
        let state = TrialState::of(journal.records());
        Ok(Self {
            systemd,
            places: places.clone(),
            prepared,
            journal,
            state,
            checked_libraries: HashMap::new(),
            identifier: Identifier::default(),
            takeover: None,
            _lock: lock,
        })
    }

    /// Opens a trial that was created before.
    pub fn open(
        systemd: &'a Systemd,
        places: &Places,
        name: &str,
        purpose: &str,
    ) -> Result<Self, FieldError> {
        let prepared = read_prepared(places, name)?;
        // Whoever waits for it knows it by this name.
        let label =
            if purpose == DEAD_MAN { format!("trial {purpose} {name}") } else { prepared.label(purpose) };
        let lock = if purpose == DEAD_MAN {
            Lock::take(&places.state, &label)?
        } else {
            Lock::take_after_dead_man(&places.state, &label)?
        };
        let journal = Journal::open(&places.trial(name))?;
        let state = TrialState::of(journal.records());
        Ok(Self {
            systemd,
            places: places.clone(),
            prepared,
            journal,
            state,
            checked_libraries: HashMap::new(),
            identifier: Identifier::default(),
            takeover: None,
            _lock: lock,
        })
    }

    /// Where it stands.
    pub fn state(&self) -> &TrialState {
        &self.state
    }

    /// What was frozen when it began.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Records something that must be known before going on.
    pub(crate) fn record(&mut self, event: Event) -> Result<(), FieldError> {
        self.journal.append(event)?;
        self.replay_last();
        Ok(())
    }

    /// Records something that was done. If the journal cannot be written, a repeat would find it done: the files
    /// themselves tell.
    pub(crate) fn note(&mut self, event: Event, witness: &mut dyn Witness) {
        if let Err(error) = self.record(event.clone()) {
            witness.warning(&format!("{error}; going on, since what is on disk tells as much"));
            self.state.apply(&crate::journal::Record { wall_us: 0, event });
        }
    }

    fn replay_last(&mut self) {
        if let Some(record) = self.journal.records().last() {
            self.state.apply(record);
        }
    }

    pub(crate) fn mark(&self) -> Mark<'_> {
        Mark { trial: &self.prepared.plan.name, id: &self.prepared.plan.id }
    }

    pub(crate) fn treatment(&self, service: &ServiceName) -> Option<&ServiceTreatment> {
        self.prepared.services.iter().find(|treatment| treatment.service == *service)
    }

    pub(crate) fn stage(&self, service: &ServiceName) -> Option<Stage> {
        self.state.services.get(service).map(|state| state.stage)
    }

    pub(crate) fn opened(&mut self, action: &str) -> Result<(), FieldError> {
        self.record(opened_event(action))
    }

    /// Removes the folder of a trial that did nothing yet.
    pub fn discard(self) -> Result<(), FieldError> {
        let folder = self.places.trial(&self.prepared.plan.name);
        if !self.journal.records().is_empty() {
            return Ok(());
        }
        fs::remove_dir_all(&folder).map_err(|source| FieldError::Folder {
            doing: "removing",
            path: folder,
            source,
        })
    }
}

pub(crate) fn opened_event(action: &str) -> Event {
    Event::Opened {
        action: action.to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
    }
}

/// What was frozen when a trial began.
pub fn read_prepared(places: &Places, name: &str) -> Result<Prepared, FieldError> {
    let folder = places.trial(name);
    let path = folder.join(PREPARED);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(FieldError::Unknown { name: name.to_owned(), folder, known: trials(places) });
        }
        read => read.map_err(|source| FieldError::Folder { doing: "reading", path: path.clone(), source })?,
    };
    serde_json::from_slice(&text).map_err(|error| FieldError::Prepared { path, problem: error.to_string() })
}

/// Where a trial stands, without its lock.
pub fn read_state(places: &Places, name: &str) -> Result<TrialState, FieldError> {
    let folder = places.trial(name);
    if !folder.join(JOURNAL).exists() && !folder.join(PREPARED).exists() {
        return Err(FieldError::Unknown { name: name.to_owned(), folder, known: trials(places) });
    }
    Ok(TrialState::of(&Journal::read(&folder)?))
}

/// Names of all trials of this host, in order.
pub fn trials(places: &Places) -> Vec<String> {
    let entries = fs::read_dir(places.state.join("trials")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join(PREPARED).exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// A file that only its owner reads and writes.
fn own_file(bytes: &[u8]) -> FileState {
    FileState::File {
        sha256: files::digest(bytes),
        mode: 0o600,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        modified_ns: 0,
        attributes: Vec::new(),
    }
}
