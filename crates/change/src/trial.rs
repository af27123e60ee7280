//! A transaction on a host: its folder, its journal, its lock.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heaptrial_host::Paths;
use serde::Serialize;

use crate::edges::{Disk, Host, ThisDisk};
use crate::error::ChangeError;
use crate::files::{self, FileError, FileState};
use crate::journal::{self, Action, Event, JOURNAL, Journal, Record};
use crate::ledger::{Ledger, free, some};
use crate::lock::{Holder, Lock};
use crate::prepared::Prepared;
use crate::run::Notification;
use crate::state::TrialState;

/// Name of the frozen plan in a transaction's folder.
const PREPARED: &str = "prepared.json";

/// Hears what happens to services.
pub trait Witness {
    /// Something happened; `prepared` has what each service was to get.
    fn notify(&mut self, prepared: &Prepared, notification: &Notification<'_>);
    /// Something that nobody asked for, and that a person should know.
    fn warning(&mut self, text: &str);
}

/// A trial on this host, locked against every other process that changes services.
pub struct Trial<'a> {
    pub(crate) host: Host<'a>,
    pub(crate) paths: Paths,
    pub(crate) prepared: Prepared,
    pub(crate) journal: Journal<'a>,
    pub(crate) state: TrialState,
    /// What the others have on this host; nobody changes that while this is locked.
    pub(crate) others: Ledger<'a>,
    /// This process removed the recovery timer, or tried to.
    pub(crate) is_disarmed: bool,
    witness: Option<Box<dyn Witness>>,
    _lock: Lock,
}

impl<'a> Trial<'a> {
    /// Makes the folder of a new one. Nothing else of the host is changed.
    pub fn create(host: Host<'a>, paths: &Paths, prepared: Prepared) -> Result<Self, ChangeError> {
        let lock = Lock::take(host.disk, &paths.state, &holder(&prepared, Action::Start))?;
        let folder = paths.trial(&prepared.plan.name);
        if is_begun(host.disk, &folder) {
            return Err(ChangeError::Exists { name: prepared.plan.name.clone(), folder });
        }
        // Two operators may have planned with the same services.
        let others = Ledger::read(host.disk, paths, &prepared.plan.name)?;
        free(&others.claims(), prepared.names())?;
        freeze(host.disk, &folder, &prepared)?;
        Self::of(host, paths, prepared, others, lock)
    }

    /// Opens one that was created before.
    pub fn open(host: Host<'a>, paths: &Paths, name: &str, action: Action) -> Result<Self, ChangeError> {
        Self::open_after(host, paths, name, action, Duration::ZERO)
    }

    /// The same, once a process that works on it, and was asked to end, has done so within `patience`.
    pub fn open_after(
        host: Host<'a>,
        paths: &Paths,
        name: &str,
        action: Action,
        patience: Duration,
    ) -> Result<Self, ChangeError> {
        trusted(host.disk, paths, name)?;
        let prepared = prepared_of(host.disk, paths, name)?;
        let holder = holder(&prepared, action);
        let lock = match action {
            // Whoever is at work is not gone.
            Action::Recover => Lock::take(host.disk, &paths.state, &holder)?,
            _ => Lock::take_after((host.disk, host.clock), &paths.state, &holder, patience)?,
        };
        let others = Ledger::read(host.disk, paths, name)?;
        Self::of(host, paths, prepared, others, lock)
    }

    fn of(
        host: Host<'a>,
        paths: &Paths,
        prepared: Prepared,
        others: Ledger<'a>,
        lock: Lock,
    ) -> Result<Self, ChangeError> {
        let journal = Journal::open(host.disk, &paths.trial(&prepared.plan.name))?;
        let state = TrialState::of(journal.records());
        let paths = paths.clone();
        Ok(Self {
            host,
            paths,
            prepared,
            journal,
            state,
            others,
            is_disarmed: false,
            witness: None,
            _lock: lock,
        })
    }

    /// What happens from here on is heard by this one.
    pub fn report_to(&mut self, witness: impl Witness + 'static) {
        self.witness = Some(Box::new(witness));
    }

    pub(crate) fn notify(&mut self, notification: &Notification<'_>) {
        if let Some(witness) = &mut self.witness {
            witness.notify(&self.prepared, notification);
        }
    }

    pub(crate) fn warn(&mut self, text: &str) {
        if let Some(witness) = &mut self.witness {
            witness.warning(text);
        }
    }

    pub fn state(&self) -> &TrialState {
        &self.state
    }

    /// Refuses to say that all is known, or as before, where files are on the host that the journal knows nothing of.
    pub(crate) fn check_accounted(&self) -> Result<(), ChangeError> {
        check_accounted(self.host.disk, &self.paths, &self.prepared, &self.state)
    }

    /// What was frozen when it began.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Records something that the crate above wants to know later; [`TrialState::notes`] gives it back.
    pub fn note<T: Serialize>(&mut self, note: &T) -> Result<(), ChangeError> {
        let note = serde_json::to_value(note).map_err(ChangeError::note)?;
        self.record(Event::Note { note })
    }

    /// The same of something after which services are put back: a full disk is no reason to leave them as they are.
    pub fn note_or_warn<T: Serialize>(&mut self, note: &T) -> Result<(), ChangeError> {
        let note = serde_json::to_value(note).map_err(ChangeError::note)?;
        self.note_done(Event::Note { note });
        Ok(())
    }

    /// Records something that must be known before going on.
    pub(crate) fn record(&mut self, event: Event) -> Result<(), ChangeError> {
        self.journal.append(self.host.clock.wall_us(), event)?;
        if let Some(record) = self.journal.records().last() {
            self.state.apply(record);
        }
        Ok(())
    }

    /// Records something that was done. If the journal cannot be written, a repeat would find it done by the files.
    pub(crate) fn note_done(&mut self, event: Event) {
        if let Err(error) = self.record(event.clone()) {
            self.warn(&format!("{error}; going on, since what is on disk shows it"));
            self.state.apply(&Record { wall_us: 0, event });
        }
    }

    /// Removes the folder of one that did nothing yet.
    pub fn discard(self) -> Result<(), ChangeError> {
        let path = self.paths.trial(&self.prepared.plan.name);
        if !self.journal.records().is_empty() {
            return Ok(());
        }
        Ok(self.host.disk.remove_tree(&path).map_err(FileError::new("removing", &path))?)
    }
}

fn holder(prepared: &Prepared, action: Action) -> Holder {
    Holder {
        pid: std::process::id(),
        action,
        kind: prepared.owner.kind.clone(),
        name: prepared.plan.name.clone(),
    }
}

fn freeze(disk: &dyn Disk, folder: &Path, prepared: &Prepared) -> Result<(), ChangeError> {
    let path = folder.join(PREPARED);
    let text = serde_json::to_vec_pretty(prepared).map_err(|source| ChangeError::damaged(&path, source))?;
    files::make_folders(disk, &path)?;
    Ok(files::put(disk, &path, &FileState::own(&text), &text)?)
}

fn frozen(disk: &dyn Disk, path: &Path) -> Result<Prepared, ChangeError> {
    let text = disk.read(path).map_err(FileError::new("reading", path))?;
    let damaged = |source| ChangeError::damaged(path, source);
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
    match value["schema_version"].as_u64() {
        Some(found) if found > u64::from(Prepared::VERSION) => Err(ChangeError::Failed(format!(
            "{} is of version {found}, and this program reads up to {}: use a newer Heaptrial",
            path.display(),
            Prepared::VERSION
        ))),
        _ => serde_json::from_value(value).map_err(damaged),
    }
}

/// Refuses one whose files others than root, or than the user whose services it is about, can change.
pub fn check_trusted(paths: &Paths, name: &str) -> Result<(), ChangeError> {
    trusted(&ThisDisk, paths, name)
}

fn trusted(disk: &dyn Disk, paths: &Paths, name: &str) -> Result<(), ChangeError> {
    let folder = paths.trial(name);
    for file in [JOURNAL, PREPARED] {
        disk.check_trusted(&folder.join(file), paths.scope).map_err(|why| {
            ChangeError::Refused(format!(
                "{why}; the files in {} decide what is written to this host. Check that they still say what was done, and \
                 correct their owner and mode with `chown` and `chmod go-w`. Nothing was changed",
                folder.display()
            ))
        })?;
    }
    Ok(())
}

/// What was frozen when one of this host began.
pub fn read_prepared(paths: &Paths, name: &str) -> Result<Prepared, ChangeError> {
    prepared_of(&ThisDisk, paths, name)
}

pub(crate) fn prepared_of(disk: &dyn Disk, paths: &Paths, name: &str) -> Result<Prepared, ChangeError> {
    let folder = paths.trial(name);
    let path = folder.join(PREPARED);
    if !is_begun(disk, &folder) {
        // Where the names cannot be read it is not known whether there is one.
        let known = names(disk, paths)?;
        return Err(ChangeError::Unknown { name: name.to_owned(), folder, known });
    }
    let prepared = frozen(disk, &path)?;
    if prepared.plan.name != name {
        let (path, of) = (path.display(), &prepared.plan.name);
        return Err(ChangeError::Failed(format!("reading {path}: it is of `{of}`: the folder is a copy")));
    }
    Ok(prepared)
}

/// How far one of this host has come, without its lock.
/// [`ChangeError::JournalLost`] where its journal knows nothing of files that are on the host.
pub fn read_state(paths: &Paths, name: &str) -> Result<TrialState, ChangeError> {
    let prepared = prepared_of(&ThisDisk, paths, name)?;
    let read = || {
        let state = TrialState::of(&journal::read(&paths.trial(name))?);
        check_accounted(&ThisDisk, paths, &prepared, &state).map(|()| state)
    };
    // Somebody may be at work: what a journal that is read now does not know is lost.
    read().or_else(|_| read())
}

/// Refuses drop-ins that bear the mark of a transaction on services of which its journal has no change, or that they are as
/// before. Each change is recorded before it is made, so that there are none unless records were lost.
fn check_accounted(
    disk: &dyn Disk,
    paths: &Paths,
    prepared: &Prepared,
    state: &TrialState,
) -> Result<(), ChangeError> {
    let bears_mark = |path: &PathBuf| {
        let mark = disk.look(path).ok().and_then(|(_, bytes)| heaptrial_host::Mark::of(&bytes));
        mark.is_some_and(|mark| mark.id == prepared.plan.id.as_str())
    };
    let as_before = prepared.names().filter(|service| !state.is_changed(service));
    let drop_ins = as_before.map(|service| paths.drop_in(service));
    let files: Vec<String> = drop_ins.filter(bears_mark).map(|path| path.display().to_string()).collect();
    if files.is_empty() {
        return Ok(());
    }
    let folder = paths.trial(&prepared.plan.name).display().to_string();
    Err(ChangeError::JournalLost(format!(
        "the journal in {folder} has lost records: it knows nothing of {}, which its services run with; these files have to be \
         removed by hand, and what was there before is in {folder}/originals",
        some(files.into_iter())
    )))
}

/// Names of all transactions of this host, in order.
pub fn trials(paths: &Paths) -> Result<Vec<String>, ChangeError> {
    names(&ThisDisk, paths)
}

pub(crate) fn names(disk: &dyn Disk, paths: &Paths) -> Result<Vec<String>, ChangeError> {
    let folder = paths.trials();
    let names = match disk.names(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        names => names.map_err(FileError::new("reading", &folder))?,
    };
    let mut names: Vec<String> =
        names.into_iter().filter(|name| is_begun(disk, &paths.trial(name))).collect();
    names.sort();
    Ok(names)
}

/// Whether the folder is that of one that was begun.
fn is_begun(disk: &dyn Disk, folder: &Path) -> bool {
    [PREPARED, JOURNAL].iter().any(|file| disk.exists(&folder.join(file)))
}
