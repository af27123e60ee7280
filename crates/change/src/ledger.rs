//! Whose services and files are on this host: what the folders of all its transactions say, read once. Every question of the
//! kind goes here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use heaptrial_host::{Mark, Paths, is_drop_in};
use heaptrial_model::{ServiceName, units};

use crate::edges::{Disk, ThisDisk};
use crate::error::ChangeError;
use crate::files::{self, FileState};
use crate::host_files::RECOVERY_STEM;
use crate::journal::{self, Change, Event, Record, saved_original};
use crate::prepared::Prepared;
use crate::state::{Stage, TrialStage, TrialState};
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
        match &self.unread {
            Some(folder) => {
                write!(f, ", whose journal cannot be read; if it has ended, move {} away", folder.display())
            }
            None => Ok(()),
        }
    }
}

/// A file of a trial or rollout without a folder: that was lost, or moved away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    pub path: PathBuf,
    /// Name of the trial or rollout.
    pub name: String,
    /// The service that it is about, where it is about one.
    pub service: Option<ServiceName>,
}

/// A file that an ended transaction left, with what was there before all of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Left {
    pub(crate) path: PathBuf,
    pub(crate) origin: FileState,
    pub(crate) bytes: Vec<u8>,
}

/// A transaction of this host.
#[derive(Debug)]
struct Owner {
    name: String,
    folder: PathBuf,
    prepared: Result<Prepared, String>,
    journal: Result<Journal, String>,
}

#[derive(Debug)]
struct Journal {
    records: Vec<Record>,
    state: TrialState,
}

/// All transactions of a host, or all but one.
#[derive(Debug)]
pub(crate) struct Ledger {
    owners: Vec<Owner>,
}

impl Ledger {
    pub(crate) fn read(disk: &dyn Disk, paths: &Paths) -> Result<Self, ChangeError> {
        let owner = |name: String| {
            let folder = paths.trial(&name);
            let of = |records: Vec<Record>| Journal { state: TrialState::of(&records), records };
            Owner {
                prepared: prepared_of(disk, paths, &name).map_err(|error| error.to_string()),
                journal: journal::records(disk, &folder).map(of).map_err(|error| error.to_string()),
                name,
                folder,
            }
        };
        Ok(Self { owners: names(disk, paths)?.into_iter().map(owner).collect() })
    }

    /// All but one.
    pub(crate) fn of_others(disk: &dyn Disk, paths: &Paths, own: &str) -> Result<Self, ChangeError> {
        let mut ledger = Self::read(disk, paths)?;
        ledger.owners.retain(|owner| owner.name != own);
        Ok(ledger)
    }

    /// The services that belong to those that have begun and not ended: controls, and services that are yet to be reached,
    /// as well.
    pub(crate) fn claims(&self) -> Result<BTreeMap<ServiceName, Claim>, ChangeError> {
        let mut claims = BTreeMap::new();
        for owner in self.owners.iter().filter(|owner| !owner.is_over()) {
            let prepared = owner.prepared.as_ref().map_err(|why| owner.unread(why))?;
            let dropped = owner.journal.as_ref().ok().map(|journal| &journal.state.dropped);
            let unread = owner.journal.is_err().then(|| owner.folder.clone());
            let claim = Claim { kind: prepared.owner.kind.clone(), name: owner.name.clone(), unread };
            let services = prepared.services.iter().map(|treatment| &treatment.service);
            let kept = services.filter(|service| dropped.is_none_or(|dropped| !dropped.contains(*service)));
            claims.extend(kept.map(|service| (service.clone(), claim.clone())));
        }
        Ok(claims)
    }

    /// The files that ended transactions left on a service. One that somebody changed since is not among them.
    pub(crate) fn left_on(&self, disk: &dyn Disk, service: &ServiceName) -> Result<Vec<Left>, ChangeError> {
        let mut made: Vec<(&Change, &Path)> = Vec::new();
        for owner in &self.owners {
            let state = owner.state()?;
            let Some(found) = state.services.get(service).filter(|found| found.stage != Stage::Reverted)
            else {
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
            left.extend(bytes.map(|bytes| Left { path: path.clone(), origin, bytes }));
        }
        Ok(left)
    }

    /// The change by which a file of the host, such as a library, came here.
    pub(crate) fn brought(&self, path: &Path) -> Option<&Change> {
        let journals = self.owners.iter().filter_map(|owner| owner.journal.as_ref().ok());
        let mut changes = journals.flat_map(|journal| &journal.state.host_changes);
        changes.find(|change| change.path == path)
    }

    /// Files of the host that these brought, or found there and rely on.
    pub(crate) fn used_host_files(&self) -> Result<BTreeSet<&Path>, ChangeError> {
        let mut used = BTreeSet::new();
        for owner in &self.owners {
            let state = owner.state()?;
            if state.services.values().any(|service| service.stage != Stage::Reverted) {
                used.extend(state.host_changes.iter().map(|change| change.path.as_path()));
            }
        }
        Ok(used)
    }

    /// Folders of unit files and libraries that these made: one may be empty only now, outermost first.
    pub(crate) fn made_folders(&self, paths: &Paths) -> Vec<PathBuf> {
        let records = self.owners.iter().filter_map(|owner| owner.journal.as_ref().ok());
        made_folders_of(records.flat_map(|journal| &journal.records), paths)
    }

    /// The one that took services of `name` over after that began, and has not given them back.
    fn taken_over_by(&self, name: &str) -> Option<&str> {
        let journal = |owner: &'_ Owner| owner.name == name && owner.journal.is_ok();
        let own = self.owners.iter().find(|owner| journal(owner))?.journal.as_ref().ok()?;
        let began = |journal: &Journal| journal.records.first().map_or(i64::MAX, |record| record.wall_us);
        let found = self.owners.iter().filter(|owner| owner.name != name).find(|owner| {
            // What cannot be read is found by the files that it left, if it left any.
            let (Ok(journal), Ok(prepared)) = (&owner.journal, &owner.prepared) else { return false };
            let holds = |service: &ServiceName| {
                journal.state.services.get(service).is_some_and(|found| found.stage != Stage::Reverted)
            };
            prepared.owner.takes_over && began(journal) > began(own) && own.state.services.keys().any(holds)
        });
        found.map(|owner| owner.name.as_str())
    }

    /// Files with a mark of none of these, in order of paths.
    fn strays(&self, disk: &dyn Disk, paths: &Paths) -> Result<Vec<Stray>, ChangeError> {
        // One whose plan cannot be read is there all the same.
        let is_known = |name: &str, id: &Option<String>| {
            self.owners.iter().filter(|owner| owner.name == name).any(|owner| {
                let known = owner.prepared.as_ref().ok().map(|prepared| prepared.plan.id.as_str());
                known.is_none() || id.is_none() || id.as_deref() == known
            })
        };
        let mut strays = Vec::new();
        for path in unit_files(disk, paths)? {
            let Some((name, id)) = marked_by(disk, &path) else { continue };
            if !is_known(&name, &id) {
                let service = service_of(&path);
                strays.push(Stray { path, name, service });
            }
        }
        strays.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(strays)
    }
}

impl Owner {
    fn is_over(&self) -> bool {
        let is_over =
            |journal: &Journal| matches!(journal.state.stage, TrialStage::Stopped | TrialStage::Reverted);
        self.journal.as_ref().is_ok_and(is_over)
    }

    fn state(&self) -> Result<&TrialState, ChangeError> {
        self.journal.as_ref().map(|journal| &journal.state).map_err(|why| self.unread(why))
    }

    fn unread(&self, why: &str) -> ChangeError {
        ChangeError::Unread { folder: self.folder.clone(), why: why.to_owned() }
    }
}

/// The services that belong to trials and rollouts of this host that have begun and not ended, but for those of `own`.
pub fn claims(paths: &Paths, own: &str) -> Result<BTreeMap<ServiceName, Claim>, ChangeError> {
    Ledger::of_others(&ThisDisk, paths, own)?.claims()
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

/// Refuses services that cannot be taken over by one that is to be called `own`: others have not ended on them.
pub fn check_takeover(paths: &Paths, own: &str, services: &[ServiceName]) -> Result<(), ChangeError> {
    let ledger = Ledger::of_others(&ThisDisk, paths, own)?;
    services.iter().try_for_each(|service| ledger.left_on(&ThisDisk, service).map(drop))
}

/// The one that took services of another over after that began, and has not given them back. Files of the earlier one
/// are no longer what it wrote, so that it can be put back only afterwards.
pub fn taken_over_by(paths: &Paths, name: &str) -> Result<Option<String>, ChangeError> {
    Ok(Ledger::read(&ThisDisk, paths)?.taken_over_by(name).map(str::to_owned))
}

/// The change by which some transaction of this host brought a file.
pub fn inherited(paths: &Paths, path: &Path) -> Option<Change> {
    Ledger::read(&ThisDisk, paths).ok()?.brought(path).cloned()
}

/// Folders of unit files and libraries that transactions of this host made: one may be empty only now, outermost first.
pub fn made_folders(paths: &Paths) -> Vec<PathBuf> {
    Ledger::read(&ThisDisk, paths).map(|ledger| ledger.made_folders(paths)).unwrap_or_default()
}

/// Files of treatments among the unit files of this host of which it knows no trial or rollout, in order of paths.
pub fn strays(paths: &Paths) -> Result<Vec<Stray>, ChangeError> {
    Ledger::read(&ThisDisk, paths)?.strays(&ThisDisk, paths)
}

/// Refuses services that have such a file.
pub fn refuse_strays<'s>(
    paths: &Paths,
    services: impl Iterator<Item = &'s ServiceName>,
) -> Result<(), ChangeError> {
    let mut strays = strays(paths)?;
    let services: BTreeSet<&ServiceName> = services.collect();
    strays.retain(|stray| stray.service.as_ref().is_some_and(|service| services.contains(service)));
    if strays.is_empty() { Ok(()) } else { Err(ChangeError::Strays { trials: paths.trials(), strays }) }
}

pub(crate) fn made_folders_of<'r>(records: impl Iterator<Item = &'r Record>, paths: &Paths) -> Vec<PathBuf> {
    let changes = records.flat_map(|record| match &record.event {
        Event::HostIntent { changes } | Event::Intent { changes, .. } => changes.as_slice(),
        _ => &[],
    });
    let is_unit_folder = |folder: &Path| folder.starts_with(&paths.units) && folder != paths.units;
    let folders: BTreeSet<&PathBuf> = changes
        .flat_map(|change| &change.made_folders)
        .filter(|folder| is_unit_folder(folder) || folder.starts_with(&paths.libraries))
        .collect();
    folders.into_iter().cloned().collect()
}

/// The first of some texts and how many more there are.
pub(crate) fn some(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = texts.len().saturating_sub(SHOWN);
    let shown = texts.take(SHOWN).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {}", units::counted(more, "other")) }
}

/// Unit files that may bear a mark.
fn unit_files(disk: &dyn Disk, paths: &Paths) -> Result<Vec<PathBuf>, ChangeError> {
    let list = |folder: &Path| match disk.names(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        names => {
            names.map_err(|source| ChangeError::Folder { doing: "reading", path: folder.to_owned(), source })
        }
    };
    let mut files = Vec::new();
    for name in list(&paths.units)? {
        let path = paths.units.join(&name);
        if name.ends_with(".d") {
            let drop_ins = list(&path)?.into_iter().map(|file| path.join(file));
            files.extend(drop_ins.filter(|file| is_drop_in(file)));
        } else if name.starts_with("heaptrial-") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Name, and id where it is known, of the trial or rollout whose mark a file bears.
fn marked_by(disk: &dyn Disk, path: &Path) -> Option<(String, Option<String>)> {
    let file = path.file_name()?.to_str()?;
    let stem = file.strip_suffix(".timer").or_else(|| file.strip_suffix(".service"));
    if let Some(name) = stem.and_then(|stem| stem.strip_prefix(RECOVERY_STEM)) {
        return Some((name.to_owned(), None));
    }
    let Mark { name, id } = Mark::of(&disk.look(path).ok()?.1)?;
    Some((name, Some(id)))
}

/// The service of a drop-in, or of the timer that restarts it.
fn service_of(path: &Path) -> Option<ServiceName> {
    if is_drop_in(path) {
        let folder = path.parent()?.file_name()?.to_str()?;
        return folder.strip_suffix(".d")?.parse().ok();
    }
    let file = path.file_name()?.to_str()?.strip_prefix("heaptrial-restart-")?;
    let stem = file.strip_suffix(".timer").or_else(|| file.strip_suffix(".service"))?;
    format!("{}.service", stem.replace("\\x40", "@")).parse().ok()
}

/// Whether a file is a timer's that restarts a service.
pub(crate) fn timer_of(paths: &Paths, change: &Change) -> Option<ServiceName> {
    let name = change.path.file_name()?.to_str().filter(|name| name.ends_with(".timer"))?;
    let own_folder = change.path.parent().is_some_and(|folder| folder == paths.units);
    if own_folder { name.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use heaptrial_allocator::Expected;

    use super::*;
    use crate::treatment::ServiceTreatment;

    const SERVICE: &str = "tor@a.service";

    fn file(bytes: &[u8]) -> FileState {
        FileState::readable(bytes)
    }

    /// A trial that changed `path` from one text to another, and ended.
    fn ended(paths: &Paths, name: &str, path: &std::path::Path, texts: [&str; 2], end: bool) {
        let folder = paths.trial(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("prepared.json"), "{}").unwrap();
        let mut journal = journal::Journal::open(&ThisDisk, &folder).unwrap();
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
            Ledger::of_others(&ThisDisk, &paths, "own").unwrap().left_on(&ThisDisk, service)
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

    #[test]
    fn files_without_a_trial_are_found_with_its_name_and_their_service() {
        let dir = tempfile::tempdir().unwrap();
        let paths =
            Paths { state: dir.path().join("state"), units: dir.path().join("units"), ..Paths::default() };
        assert_eq!(strays(&paths).unwrap(), []);
        let write = |file: &str, text: &str| {
            let path = paths.units.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let mark = Mark::line("lost", "0123", "jemalloc");
        write("a@1.service.d/zz-heaptrial.conf", &mark);
        write("a@2.service.d/override.conf", &mark);
        write("a@3.service.d/zz-heaptrial.conf", "[Service]\n");
        write("heaptrial-restart-a\\x401.timer", &mark);
        write("heaptrial-recovery-lost.service", "[Unit]\n");
        write("heaptrial-agent.service", "[Unit]\n");
        let found = strays(&paths).unwrap();
        let told: Vec<(String, &str, Option<&str>)> = found
            .iter()
            .map(|stray| {
                let file = stray.path.strip_prefix(&paths.units).unwrap().display().to_string();
                (file, stray.name.as_str(), stray.service.as_ref().map(ServiceName::as_str))
            })
            .collect();
        assert_eq!(
            told,
            [
                ("a@1.service.d/zz-heaptrial.conf".to_owned(), "lost", Some("a@1.service")),
                ("heaptrial-recovery-lost.service".to_owned(), "lost", None),
                ("heaptrial-restart-a\\x401.timer".to_owned(), "lost", Some("a@1.service")),
            ]
        );
        let service = |name: &str| name.parse::<ServiceName>().unwrap();
        assert!(refuse_strays(&paths, [service("a@2.service")].iter()).is_ok());
        let error = refuse_strays(&paths, [service("a@1.service")].iter()).unwrap_err().to_string();
        assert!(error.contains("zz-heaptrial.conf (`lost`)"), "{error}");

        // One of that name that is there is another one, unless it is of the same drawing.
        let folder = paths.trial("lost");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("journal.jsonl"), "").unwrap();
        assert_eq!(strays(&paths).unwrap(), [], "its plan cannot be read");
    }

    fn prepared(name: &str, service: &ServiceName) -> Prepared {
        let plan = serde_json::json!({
            "name": name, "id": "0123456789abcdef", "tool_version": "0", "seed": 1, "metric": "rss", "duration": "1d",
            "looks": [], "pace": {}, "arms": [], "builds": {}, "services": []
        });
        let treatment = ServiceTreatment {
            service: service.clone(),
            arm: "a".to_owned(),
            family: None,
            environment: Vec::new(),
            unset: Vec::new(),
            torrc: BTreeMap::new(),
            restart_every: None,
            expected: Expected::own_c_library("glibc".parse().unwrap(), Vec::new()),
            relay: None,
        };
        Prepared {
            schema_version: Prepared::VERSION,
            plan: serde_json::from_value(plan).unwrap(),
            host: "here".to_owned(),
            services: vec![treatment],
            libraries: Vec::new(),
            agent: None,
            owner: crate::prepared::Owner::trial(),
        }
    }

    #[test]
    fn a_damaged_journal_refuses_the_services_of_its_trial_alone_and_names_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths { state: dir.path().to_owned(), ..Paths::default() };
        let [own, other] =
            ["tor@a.service", "tor@b.service"].map(|name| name.parse::<ServiceName>().unwrap());
        let folder = paths.trial("old");
        std::fs::create_dir_all(&folder).unwrap();
        let text = serde_json::to_string(&prepared("old", &own)).unwrap();
        std::fs::write(folder.join("prepared.json"), text).unwrap();
        std::fs::write(folder.join("journal.jsonl"), "{}\n{}\n").unwrap();
        let known = claims(&paths, "new").unwrap();
        assert!(free(&known, [&other].into_iter()).is_ok());
        let why = free(&known, [&own].into_iter()).unwrap_err().to_string();
        assert!(why.contains(&format!("move {} away", folder.display())), "{why}");

        // Of which services it is nobody knows.
        std::fs::write(folder.join("prepared.json"), "{").unwrap();
        let why = claims(&paths, "new").unwrap_err().to_string();
        assert!(why.contains(&format!("move {} away", folder.display())), "{why}");
    }
}
