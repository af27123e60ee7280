//! Which trial a command is about: a run's folder, a database, or a trial's name.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use heaptrial_store::{Store, TrialRecord};

use crate::commands::host::Host;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::some;
use crate::run_folder::{self, DATABASE, RUNS};

/// A trial in its database.
#[derive(Debug)]
pub struct Target {
    /// The database, opened for reading.
    pub store: Store,
    pub trial: TrialRecord,
    pub folder: PathBuf,
}

impl Target {
    /// Finds what `named` names: a run's folder or a database, whose last trial it is, or a trial: of `--db`, else of the run
    /// of this name, else of this host, else of the newest run. Without a name, the last trial of `--db` or of the newest run.
    pub fn find(named: Option<&str>, global: &GlobalOptions) -> Result<Self, Failure> {
        let Some(name) = named else {
            return Self::of(&run_folder::database(global.db.as_deref())?, None, global);
        };
        let path = Path::new(name);
        // A name with a slash can only be a path.
        if path.is_file() || path.join(DATABASE).is_file() || name.contains('/') {
            return Self::of(&run_folder::database(Some(path))?, None, global);
        }
        if let Some(database) = &global.db {
            return Self::of(&run_folder::database(Some(database))?, Some(name), global);
        }
        let run = Path::new(RUNS).join(name).join(DATABASE);
        if run.is_file() {
            return Self::of(&run, Some(name), global).or_else(|_| Self::of(&run, None, global));
        }
        if let Some(target) = Self::on_host(name, global)? {
            return Ok(target);
        }
        let newest = run_folder::database(None).map_err(|_| {
            Failure::refused(format!(
                "there is no run, database or trial `{name}`; name a run's folder, or a database with --db FILE"
            ))
        })?;
        Self::of(&newest, Some(name), global)
    }

    /// The last trial of a database, or the last of this name.
    fn of(database: &Path, name: Option<&str>, global: &GlobalOptions) -> Result<Self, Failure> {
        let store = Store::open(database)?;
        let mut trials = store.trials()?;
        let several = trials.len() > 1;
        let is_it = |trial: &TrialRecord| name.is_none_or(|name| trial.plan.name == name);
        let Some(index) = trials.iter().rposition(is_it) else {
            let known = some(trials.iter().map(|trial| &trial.plan.name));
            return Err(Failure::refused(match name {
                Some(name) if !known.is_empty() => {
                    format!("{} has no trial `{name}`; it has {known}", database.display())
                }
                _ => format!("{} holds no trial; an import appears when it has ended", database.display()),
            }));
        };
        let trial = trials.swap_remove(index);
        let beside = folder_of(database);
        let usual = if several { beside.join(folder_name(&trial)) } else { beside };
        Ok(Self { store, folder: global.out.clone().unwrap_or(usual), trial })
    }

    /// The trial of this name in the database of this host.
    fn on_host(name: &str, global: &GlobalOptions) -> Result<Option<Self>, Failure> {
        let host = Host::of(global)?;
        host.require_readable()?;
        if !host.database.is_file() {
            return Ok(None);
        }
        let store = Store::open(&host.database)?;
        let found = store.trials()?.into_iter().rfind(|trial| trial.plan.name == name);
        Ok(found.map(|trial| {
            // Not the trial's own name: that would be a run of this name without a database.
            let usual = || Path::new(RUNS).join(format!("{}-report", folder_name(&trial)));
            Self { store, folder: global.out.clone().unwrap_or_else(usual), trial }
        }))
    }
}

/// Where reports of a database go: next to that of a run, and for any other file into a folder of its name.
fn folder_of(database: &Path) -> PathBuf {
    let beside = database.parent().unwrap_or(Path::new(""));
    match database.file_stem() {
        Some(stem) if database.file_name() != Some(OsStr::new(DATABASE)) => {
            beside.join(format!("{}-report", stem.to_string_lossy()))
        }
        _ => beside.to_owned(),
    }
}

/// A folder for one of several trials of a database. Names of trials are free text.
fn folder_name(trial: &TrialRecord) -> String {
    let name = plain(&trial.plan.name, '_');
    let name = name.trim_start_matches('.');
    if name.is_empty() { format!("trial-{}", trial.id) } else { name.to_owned() }
}

/// A text as a name of a file.
pub fn plain(text: &str, instead: char) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.chars().map(|c| if is_plain(c) { c } else { instead }).collect()
}
