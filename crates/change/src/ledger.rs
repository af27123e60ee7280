//! Whose services and files are on this host: what the folders of all its transactions say, read once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use heaptrial_host::{Mark, Paths};
use heaptrial_model::{ServiceName, units};

use crate::edges::{Disk, ThisDisk};
use crate::error::ChangeError;
use crate::files::{self, File, FileError};
use crate::journal::{self, Change, Event, Record, saved_original};
use crate::prepared::Prepared;
use crate::state::{TrialStage, TrialState};
use crate::trial::{names, prepared_of};

/// Names that a message has, of those that are alike.
const SHOWN: usize = 8;

/// Whom a service belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// What that is, such as `trial`.
    pub kind: String,
    pub name: String,
    /// Its folder, where it cannot be read whether it has ended.
    pub unread: Option<PathBuf>,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)?;
        self.unread.iter().try_for_each(|folder| {
            write!(f, ", whose journal cannot be read; if it has ended, move {} away", folder.display())
        })
    }
}

/// A drop-in of a trial or rollout whose folder was lost, or moved away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    pub path: PathBuf,
    /// Name of the trial or rollout.
    pub name: String,
    pub service: ServiceName,
}

/// A transaction of this host, as far as it can be read.
#[derive(Debug)]
struct Owner {
    name: String,
    folder: PathBuf,
    prepared: Option<Prepared>,
    records: Vec<Record>,
    state: TrialState,
    /// Why it has no records, where they cannot be read.
    unread: Option<String>,
}

/// All transactions of a host, or all but one.
pub struct Ledger<'a> {
    disk: &'a dyn Disk,
    paths: Paths,
    owners: Vec<Owner>,
}

impl Ledger<'static> {
    /// Of the host that this program runs on.
    pub fn of_this_host(paths: &Paths) -> Result<Self, ChangeError> {
        Self::read(&ThisDisk, paths, "")
    }
}

impl<'a> Ledger<'a> {
    /// All but the transaction `own`.
    pub(crate) fn read(disk: &'a dyn Disk, paths: &Paths, own: &str) -> Result<Self, ChangeError> {
        let owner = |name: String| {
            let folder = paths.trial(&name);
            let (records, unread) = match journal::records(disk, &folder) {
                Ok(records) => (records, None),
                Err(error) => (Vec::new(), Some(error.to_string())),
            };
            let (prepared, state) = (prepared_of(disk, paths, &name).ok(), TrialState::of(&records));
            Owner { name, folder, prepared, records, state, unread }
        };
        let others = names(disk, paths)?.into_iter().filter(|name| name != own);
        Ok(Self { disk, paths: paths.clone(), owners: others.map(owner).collect() })
    }

    #[must_use]
    pub fn without(mut self, own: &str) -> Self {
        self.owners.retain(|owner| owner.name != own);
        self
    }

    /// The services that belong to those that have begun and not ended: controls, and services that are yet to be reached,
    /// as well. Where the plan cannot be read, those that the journal says were changed.
    pub fn claims(&self) -> BTreeMap<ServiceName, Claim> {
        let mut claims = BTreeMap::new();
        for owner in self.owners.iter().filter(|owner| !owner.is_over()) {
            let unread = owner.unread.as_ref().map(|_| owner.folder.clone());
            let kind = owner.prepared.as_ref().map_or("trial", |prepared| prepared.owner.kind.as_str());
            let claim = Claim { kind: kind.to_owned(), name: owner.name.clone(), unread };
            let kept = owner.services().into_iter().filter(|service| !owner.state.dropped.contains(*service));
            claims.extend(kept.map(|service| (service.clone(), claim.clone())));
        }
        claims
    }

    /// Refuses services that cannot be taken over: others have not ended on them.
    pub fn check_takeover(&self, services: &[ServiceName]) -> Result<(), ChangeError> {
        services.iter().try_for_each(|service| self.left_on(service).map(drop))
    }

    /// Files that ended transactions left on a service and nobody changed since, as they were before all of them.
    pub(crate) fn left_on(&self, service: &ServiceName) -> Result<Vec<File>, ChangeError> {
        let mut made: Vec<(&Change, &Path)> = Vec::new();
        for owner in self.owners.iter().filter(|owner| owner.services().contains(&service)) {
            let state = owner.state()?;
            let Some(found) = state.services.get(service).filter(|_| state.is_changed(service)) else {
                continue;
            };
            if state.stage != TrialStage::Stopped {
                return Err(ChangeError::Taken { service: service.clone(), by: owner.name.clone() });
            }
            made.extend(found.changes.iter().map(|change| (change, owner.folder.as_path())));
        }
        let paths: BTreeSet<&PathBuf> = made.iter().map(|(change, _)| &change.path).collect();
        let mut left = Vec::new();
        for path in paths {
            let mut open: Vec<(&Change, &Path)> =
                made.iter().filter(|(change, _)| change.path == *path).copied().collect();
            let mut state = files::read(self.disk, path)?.0;
            let mut bytes = None;
            while let Some(at) = open.iter().position(|(change, _)| change.after.is_same(&state)) {
                let (change, folder) = open.swap_remove(at);
                bytes = Some(saved_original(self.disk, folder, &change.before)?);
                state = change.before.clone();
            }
            left.extend(bytes.map(|bytes| File { path: path.clone(), state, bytes }));
        }
        Ok(left)
    }

    /// The change by which a file of the host, such as a library, came here.
    pub fn brought(&self, path: &Path) -> Option<&Change> {
        let mut changes = self.owners.iter().flat_map(|owner| &owner.state.host_changes);
        changes.find(|change| change.path == path)
    }

    /// Files of the host that these brought, or found there and rely on.
    pub(crate) fn used_host_files(&self) -> Result<BTreeSet<&Path>, ChangeError> {
        let mut used = BTreeSet::new();
        for owner in &self.owners {
            let state = owner.state()?;
            if state.services.keys().any(|service| state.is_changed(service)) {
                used.extend(state.host_changes.iter().map(|change| change.path.as_path()));
            }
        }
        Ok(used)
    }

    /// Folders of unit files and libraries that these made: one may be empty only now, outermost first.
    pub fn made_folders(&self) -> Vec<PathBuf> {
        let records = self.owners.iter().flat_map(|owner| &owner.records);
        let changes = records.flat_map(|record| match &record.event {
            Event::Intent { changes, .. } => changes.as_slice(),
            _ => &[],
        });
        let is_unit_folder =
            |folder: &Path| folder.starts_with(&self.paths.units) && folder != self.paths.units;
        let folders: BTreeSet<&PathBuf> = changes
            .flat_map(|change| &change.made_folders)
            .filter(|folder| is_unit_folder(folder) || folder.starts_with(&self.paths.libraries))
            .collect();
        folders.into_iter().cloned().collect()
    }

    /// The one that took services of `name` over after that began, and has not given them back. Files of the earlier one
    /// are no longer what it wrote, so that it can be put back only afterwards.
    pub fn taken_over_by(&self, name: &str) -> Option<&str> {
        let own = self.owners.iter().find(|owner| owner.name == name)?;
        let found = self.owners.iter().filter(|owner| owner.name != name).find(|owner| {
            let holds = |service: &ServiceName| owner.state.is_changed(service);
            let takes_over = owner.prepared.as_ref().is_some_and(|prepared| prepared.owner.takes_over);
            takes_over && owner.began() > own.began() && own.state.services.keys().any(holds)
        });
        found.map(|owner| owner.name.as_str())
    }

    /// Drop-ins with the mark of none of these, in order of services.
    pub fn strays(&self) -> Result<Vec<Stray>, ChangeError> {
        let folders = match self.disk.names(&self.paths.units) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(FileError::new("reading", &self.paths.units))?,
        };
        let stray = |folder: &String| {
            let service: ServiceName = folder.strip_suffix(".d")?.parse().ok()?;
            let path = self.paths.drop_in(&service);
            let Mark { name, .. } = Mark::of(&self.disk.look(&path).ok()?.1)?;
            let is_known = self.owners.iter().any(|owner| owner.name == name);
            (!is_known).then_some(Stray { path, name, service })
        };
        let mut strays: Vec<Stray> = folders.iter().filter_map(stray).collect();
        strays.sort_by(|a, b| a.service.cmp(&b.service));
        Ok(strays)
    }

    /// Refuses services that have such a file.
    pub fn refuse_strays<'s>(
        &self,
        services: impl Iterator<Item = &'s ServiceName>,
    ) -> Result<(), ChangeError> {
        let services: BTreeSet<&ServiceName> = services.collect();
        let mut strays = self.strays()?;
        strays.retain(|stray| services.contains(&stray.service));
        if strays.is_empty() {
            return Ok(());
        }
        Err(ChangeError::Strays(format!(
            "files of treatments are left on this host of which it has no trial or rollout in {}: {}. Put the folders of those \
             back there and revert them, or take the files out by hand. Nothing was changed",
            self.paths.trials().display(),
            some(strays.iter().map(|stray| format!("{} (`{}`)", stray.path.display(), stray.name)))
        )))
    }
}

impl Owner {
    /// Its services, as far as anything says which they are.
    fn services(&self) -> Vec<&ServiceName> {
        match &self.prepared {
            Some(prepared) => prepared.names().collect(),
            None => self.state.services.keys().collect(),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.state.stage, TrialStage::Stopped | TrialStage::Reverted)
    }

    fn began(&self) -> Option<i64> {
        Some(self.records.first()?.wall_us)
    }

    fn state(&self) -> Result<&TrialState, ChangeError> {
        let Some(why) = &self.unread else { return Ok(&self.state) };
        Err(ChangeError::Refused(format!(
            "{why}; it may have the services that are wanted. If it has ended, move {} away. Nothing was changed",
            self.folder.display()
        )))
    }
}

/// Refuses services that belong to somebody.
pub fn free<'s>(
    claims: &BTreeMap<ServiceName, Claim>,
    services: impl Iterator<Item = &'s ServiceName>,
) -> Result<(), ChangeError> {
    let taken: Vec<(ServiceName, Claim)> =
        services.filter_map(|service| Some((service.clone(), claims.get(service)?.clone()))).collect();
    if taken.is_empty() { Ok(()) } else { Err(ChangeError::Claimed { taken }) }
}

/// The first of some texts and how many more there are.
pub(crate) fn some(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = texts.len().saturating_sub(SHOWN);
    let shown = texts.take(SHOWN).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {}", units::counted(more, "other")) }
}

/// Whether a file is a timer's that restarts a service.
pub(crate) fn timer_of(paths: &Paths, change: &Change) -> Option<ServiceName> {
    let name = change.path.file_name()?.to_str().filter(|name| name.ends_with(".timer"))?;
    let own_folder = change.path.parent().is_some_and(|folder| folder == paths.units);
    if own_folder { name.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileState;

    const SERVICE: &str = "tor@a.service";

    /// A trial that changed `path` from one text to another.
    fn changed(paths: &Paths, name: &str, path: &Path, [before, after]: [&str; 2], ended: bool) {
        let folder = paths.trial(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("prepared.json"), "{}").unwrap();
        let mut journal = journal::Journal::open(&ThisDisk, &folder).unwrap();
        journal.save_original(before.as_bytes()).unwrap();
        let change = Change {
            path: path.to_owned(),
            before: FileState::readable(before.as_bytes()),
            after: FileState::readable(after.as_bytes()),
            made_folders: Vec::new(),
        };
        let (service, arm) = (Some(SERVICE.parse().unwrap()), Some("a".to_owned()));
        journal.append(1, Event::Intent { service, arm, changes: vec![change], life: None }).unwrap();
        if ended {
            journal.append(1, Event::Ended { stage: TrialStage::Stopped, why: None }).unwrap();
        }
    }

    #[test]
    fn what_ended_trials_left_is_traced_to_what_was_there_before_all_of_them() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: files are compared by owner, and are root's; run as root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths { state: dir.path().join("state"), ..Paths::default() };
        let path = dir.path().join("drop-in.conf");
        let write = |text: &str| {
            let state = FileState::readable(text.as_bytes());
            files::put(&ThisDisk, &path, &state, text.as_bytes()).unwrap();
        };
        let left_on = || Ledger::of_this_host(&paths).unwrap().left_on(&SERVICE.parse().unwrap());
        changed(&paths, "first", &path, ["none", "one"], true);
        changed(&paths, "second", &path, ["one", "two"], true);
        write("two");
        let left = left_on().unwrap();
        assert_eq!(left.iter().map(|left| left.bytes.as_slice()).collect::<Vec<_>>(), [b"none"]);

        // What somebody else wrote since is nobody's to replace.
        write("by hand");
        assert_eq!(left_on().unwrap(), []);

        changed(&paths, "third", &path, ["two", "three"], false);
        let error = left_on().unwrap_err().to_string();
        assert!(error.contains("third"), "{error}");
    }
}
