//! What ended transactions of this host left in force on a service. One that takes over may take their place; the others
//! need a service that is free.

use std::collections::BTreeMap;
use std::path::PathBuf;

use heaptrial_host::Paths;
use heaptrial_model::ServiceName;

use crate::edges::{Disk, ThisDisk};
use crate::error::ChangeError;
use crate::files;
use crate::files::FileState;
use crate::journal::{Change, Record, records, saved_original};
use crate::state::{Stage, TrialStage, TrialState};
use crate::trial::{names, prepared_of, state_of};

/// A file that an ended trial left, with what was there before all of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Left {
    pub(crate) path: PathBuf,
    pub(crate) origin: FileState,
    pub(crate) bytes: Vec<u8>,
}

/// What trials and rollouts of this host other than one have in force, read once.
#[derive(Debug, Default)]
pub(crate) struct Takeover {
    /// Changes by service, each with the folder of the trial that made it.
    made: BTreeMap<ServiceName, Vec<(Change, PathBuf)>>,
    /// Services of trials that have not ended, with the trial's name.
    taken: BTreeMap<ServiceName, String>,
}

impl Takeover {
    /// All but those of `own`.
    pub(crate) fn read(disk: &dyn Disk, paths: &Paths, own: &str) -> Result<Self, ChangeError> {
        let mut found = Self::default();
        for name in names(disk, paths)?.into_iter().filter(|name| name != own) {
            let folder = paths.trial(&name);
            let state = state_of(disk, &folder)
                .map_err(|source| ChangeError::Unread { folder: folder.clone(), source: Box::new(source) })?;
            for (service, changed) in state.services {
                if changed.stage == Stage::Reverted {
                    continue;
                }
                if state.stage != TrialStage::Stopped {
                    found.taken.insert(service.clone(), name.clone());
                }
                let changes = changed.changes.into_iter().map(|change| (change, folder.clone()));
                found.made.entry(service).or_default().extend(changes);
            }
        }
        Ok(found)
    }

    /// The files that ended trials left on a service. One that somebody changed since is not among them.
    pub(crate) fn left_on(&self, disk: &dyn Disk, service: &ServiceName) -> Result<Vec<Left>, ChangeError> {
        if let Some(name) = self.taken.get(service) {
            return Err(ChangeError::Taken { service: service.clone(), by: name.clone() });
        }
        let made = self.made.get(service).map_or(&[][..], Vec::as_slice);
        let mut paths: Vec<&PathBuf> = made.iter().map(|(change, _)| &change.path).collect();
        paths.sort();
        paths.dedup();
        let mut left = Vec::new();
        for path in paths {
            let mut open: Vec<&(Change, PathBuf)> =
                made.iter().filter(|(change, _)| change.path == *path).collect();
            let mut origin = files::read(disk, path)?.0;
            let mut bytes = None;
            while let Some(at) = open.iter().position(|(change, _)| change.after.is_same(&origin)) {
                let (change, folder) = open.swap_remove(at);
                bytes = Some(match &change.before {
                    FileState::File { sha256, .. } => saved_original(disk, folder, sha256)?,
                    _ => Vec::new(),
                });
                origin = change.before.clone();
            }
            if let Some(bytes) = bytes {
                left.push(Left { path: path.clone(), origin, bytes });
            }
        }
        Ok(left)
    }
}

/// The one that took services of another over after that began, and has not given them back. Files of the earlier one
/// are no longer what it wrote, so that it can be put back only afterwards.
pub fn taken_over_by(paths: &Paths, name: &str) -> Result<Option<String>, ChangeError> {
    let disk = &ThisDisk;
    let own = records(disk, &paths.trial(name))?;
    let began = |records: &[Record]| records.first().map_or(i64::MAX, |record| record.wall_us);
    let own_services = TrialState::of(&own).services;
    for other in names(disk, paths)?.into_iter().filter(|other| other != name) {
        // What cannot be read is found by the files that it left, if it left any.
        let (Ok(records), Ok(prepared)) =
            (records(disk, &paths.trial(&other)), prepared_of(disk, paths, &other))
        else {
            continue;
        };
        if !prepared.owner.takes_over || began(&records) <= began(&own) {
            continue;
        }
        let state = TrialState::of(&records);
        let holds = |service: &ServiceName| {
            state.services.get(service).is_some_and(|found| found.stage != Stage::Reverted)
        };
        if own_services.keys().any(holds) {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

/// Why services cannot be taken over by one that is to be called `own`: others have not ended on them.
pub fn check_takeover(paths: &Paths, own: &str, services: &[ServiceName]) -> Result<(), ChangeError> {
    let takeover = Takeover::read(&ThisDisk, paths, own)?;
    services.iter().try_for_each(|service| takeover.left_on(&ThisDisk, service).map(drop))
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
    use crate::journal::{Event, Journal};

    const SERVICE: &str = "tor@a.service";

    fn file(bytes: &[u8]) -> FileState {
        FileState::readable(bytes)
    }

    /// A trial that changed `path` from one text to another, and ended.
    fn ended(paths: &Paths, name: &str, path: &std::path::Path, texts: [&str; 2], end: bool) {
        let folder = paths.trial(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("prepared.json"), "{}").unwrap();
        let mut journal = Journal::open(&ThisDisk, &folder).unwrap();
        journal.save_original(texts[0].as_bytes()).unwrap();
        let change = Change {
            path: path.to_owned(),
            before: if texts[0].is_empty() { FileState::Absent } else { file(texts[0].as_bytes()) },
            after: file(texts[1].as_bytes()),
            made_folders: Vec::new(),
        };
        let service: ServiceName = SERVICE.parse().unwrap();
        let arm = "a".to_owned();
        let intent = Event::Intent { service: service.clone(), arm, changes: vec![change], life: None };
        journal.append(1, intent).unwrap();
        if end {
            journal.append(1, Event::Ended { reverted: false }).unwrap();
        }
    }

    #[test]
    fn what_ended_trials_left_is_traced_to_what_was_there_before_all_of_them() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: files of root's are compared by owner; run as root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths {
            state: dir.path().join("state"),
            libraries: dir.path().join("lib"),
            units: dir.path().join("units"),
            ..Paths::default()
        };
        let path = dir.path().join("drop-in.conf");
        let service: ServiceName = SERVICE.parse().unwrap();
        ended(&paths, "first", &path, ["", "one"], true);
        ended(&paths, "second", &path, ["one", "two"], true);
        crate::files::put(&ThisDisk, &path, &file(b"two"), b"two").unwrap();
        let left_on = |service: &ServiceName| {
            Takeover::read(&ThisDisk, &paths, "own").unwrap().left_on(&ThisDisk, service)
        };
        let left = left_on(&service).unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!((&left[0].origin, left[0].bytes.as_slice()), (&FileState::Absent, b"".as_slice()));
        assert!(left_on(&"tor@b.service".parse().unwrap()).unwrap().is_empty());

        // What somebody else wrote since is nobody's to replace.
        crate::files::put(&ThisDisk, &path, &file(b"by hand"), b"by hand").unwrap();
        assert!(left_on(&service).unwrap().is_empty());

        ended(&paths, "third", &path, ["two", "three"], false);
        let error = left_on(&service).unwrap_err();
        assert!(error.to_string().contains("`third`, which has not ended"), "{error}");
    }
}
