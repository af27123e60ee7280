//! Which trial a command is about: a run's folder, a database, or a trial's name.

use std::path::{Component, Path, PathBuf};

use heaptrial_host::Paths;
use heaptrial_store::{Store, TrialRecord};

use crate::commands::trial::on_host;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder::{self, RUNS};

/// Name of a host's database in the folder of what must last.
const DATABASE: &str = "heaptrial.db";

/// A trial in its database.
#[derive(Debug)]
pub struct Target {
    /// The database, opened for reading.
    pub store: Store,
    pub trial: TrialRecord,
    pub folder: PathBuf,
}

impl Target {
    /// Finds what `named` names: a folder or database, whose last trial it is, or a trial in the database of
    /// `--db` or of the newest run. Without a name, the last trial of that database. Without `--db` a name may also be
    /// that of a trial on the services of this host.
    pub fn find(named: Option<&str>, global: &GlobalOptions) -> Result<Self, Failure> {
        let path = named.map(Path::new).filter(|path| path.is_file() || path.join("heaptrial.db").is_file());
        // A run of this name below the usual folder, whose last trial or trial of this name it is.
        let is_below =
            |name: &&str| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        let run = named.filter(is_below).map(|name| Path::new(RUNS).join(name));
        let run = run.filter(|run| path.is_none() && run.exists());
        let of_run = global.db.is_none() && run.is_some();
        let name = named.filter(|_| path.is_none());
        // A name with a slash can only be a path, and says what is missing better than a list of trials.
        let is_path = name.is_some_and(|name| name.contains('/'));
        if let Some(name) = name.filter(|_| !is_path && run.is_none() && global.db.is_none()) {
            if let Some(target) = Self::on_host(&global.paths()?, name, global)? {
                return Ok(target);
            }
        }
        let place = if is_path { named.map(Path::new) } else { path.or(global.db.as_deref()) };
        let place = if of_run { run.as_deref() } else { place };
        let database = match (run_folder::database(place), name) {
            (Err(failure), None) => return Err(failure),
            (Err(_), Some(name)) => {
                let said = format!("`{name}` is no folder, no database and, without --db, no trial");
                return Err(Failure::refused(format!(
                    "{said}; name a run's folder, or a database with --db FILE"
                )));
            }
            (Ok(database), _) => database,
        };
        let store = Store::open(&database)?;
        let mut trials = store.trials().map_err(Failure::failed)?;
        let several = trials.len() > 1;
        let index = match name.filter(|_| !is_path) {
            None => trials.len().checked_sub(1),
            Some(name) => match trials.iter().rposition(|trial| trial.plan.name == name) {
                None if of_run => trials.len().checked_sub(1),
                None => return Err(unknown(name, &database, &trials)),
                found => found,
            },
        };
        let Some(index) = index else {
            return Err(Failure::refused(format!(
                "{} holds no trial; what is being imported is there when the import has ended",
                database.display()
            )));
        };
        let trial = trials.swap_remove(index);
        let folder = match &global.out {
            Some(folder) => folder.clone(),
            None => {
                let beside = folder_of(&database);
                if several { beside.join(folder_name(&trial)) } else { beside }
            }
        };
        Ok(Self { store, trial, folder })
    }

    /// The trial of this name in the database of this host.
    fn on_host(paths: &Paths, name: &str, global: &GlobalOptions) -> Result<Option<Self>, Failure> {
        on_host::require_readable(paths, global)?;
        let database = paths.state.join(DATABASE);
        if !database.is_file() {
            return Ok(None);
        }
        let store = Store::open(&database)?;
        let mut trials = store.trials().map_err(Failure::failed)?;
        let Some(index) = trials.iter().rposition(|trial| trial.plan.name == name) else { return Ok(None) };
        let trial = trials.swap_remove(index);
        // Not the trial's own name: that would be a run of this name without a database.
        let usual = || Path::new(RUNS).join(format!("{}-report", folder_name(&trial)));
        let folder = global.out.clone().unwrap_or_else(usual);
        Ok(Some(Self { store, trial, folder }))
    }
}

/// Where reports of a database go: beside it, and where others lie there too, into a folder of its name.
fn folder_of(database: &Path) -> PathBuf {
    let beside = database.parent().unwrap_or(Path::new(""));
    let here = if beside == Path::new("") { Path::new(".") } else { beside };
    let is_other =
        |path: PathBuf| path.extension() == database.extension() && path.file_name() != database.file_name();
    let mut entries = std::fs::read_dir(here).into_iter().flatten().flatten();
    match database.file_stem() {
        Some(own) if entries.any(|entry| is_other(entry.path())) => {
            let mut name = own.to_owned();
            name.push("-report");
            beside.join(name)
        }
        _ => beside.to_owned(),
    }
}

/// A folder for one of several trials of a database. Names of trials are free text.
fn folder_name(trial: &TrialRecord) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = trial.plan.name.chars().map(safe).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { format!("trial-{}", trial.id) } else { name.to_owned() }
}

fn unknown(name: &str, database: &Path, trials: &[TrialRecord]) -> Failure {
    let known: Vec<&str> = trials.iter().map(|trial| trial.plan.name.as_str()).collect();
    Failure::refused(format!(
        "{} has no trial `{name}`; it has {}",
        database.display(),
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_databases_in_one_folder_go_into_folders_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let touch = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
        let of = |name: &str| folder_of(&folder.path().join(name));
        for name in ["january.db", "january.db-wal", "report.html"] {
            touch(name);
        }
        assert_eq!(of("january.db"), folder.path());
        touch("june.db");
        assert_eq!(of("january.db"), folder.path().join("january-report"));
        assert_eq!(of("june.db"), folder.path().join("june-report"));
        assert_eq!(folder_of(Path::new("no-such.db")), Path::new(""));
    }
}
