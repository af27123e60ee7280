//! The folder of a lab run, which can be sent to somebody.

use std::fs;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// Where runs go unless `--out` says otherwise.
pub const RUNS: &str = "heaptrial-runs";
/// The database of a run, and that of a host.
pub const DATABASE: &str = "heaptrial.db";

/// Files of a run; with `--db` its database is elsewhere.
const OF_A_RUN: [&str; 3] = [DATABASE, "plan.json", "report.json"];

/// Refuses a folder that already holds a run.
pub fn check(out: Option<&Path>) -> Result<(), Failure> {
    match out {
        Some(folder) if OF_A_RUN.iter().any(|file| folder.join(file).exists()) => Err(Failure::refused(
            format!("{} already holds a run; name another folder with --out", folder.display()),
        )),
        _ => Ok(()),
    }
}

/// What the folder of a new run will be: `out`, or a name by date in [`RUNS`].
pub fn named(out: Option<&Path>, kind: &str) -> Result<PathBuf, Failure> {
    let folder = match out {
        Some(folder) => folder.to_owned(),
        None => unused(Path::new(RUNS), kind),
    };
    std::path::absolute(&folder).map_err(Failure::failed)
}

/// Creates the folder of a new run.
pub fn create(out: Option<&Path>, kind: &str) -> Result<PathBuf, Failure> {
    let folder = named(out, kind)?;
    check(Some(&folder))?;
    fs::create_dir_all(&folder).map_err(|error| {
        Failure::refused(format!("cannot create the run's folder {}: {error}", folder.display()))
    })?;
    Ok(folder)
}

fn unused(runs: &Path, kind: &str) -> PathBuf {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H%M%SZ").to_string();
    let first = runs.join(format!("{now}-{kind}"));
    let others = (2..).map(|number| runs.join(format!("{now}-{kind}-{number}")));
    std::iter::once(first).chain(others).find(|folder| !folder.exists()).unwrap_or_default()
}

/// The database that a report is about: a file, a run's folder, or the newest run in [`RUNS`].
pub fn database(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => newest(Path::new(RUNS)).ok_or_else(|| {
            Failure::refused(format!(
                "there is no run in {RUNS}; name a run's folder, or a database with --db"
            ))
        })?,
    };
    Ok(if path.is_dir() { path.join(DATABASE) } else { path })
}

/// The run whose database was written to last.
fn newest(runs: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(runs).ok()?.flatten().map(|entry| entry.path());
    let written = |folder: &PathBuf| {
        let times =
            [DATABASE, "heaptrial.db-wal"].map(|name| fs::metadata(folder.join(name)).ok()?.modified().ok());
        times.into_iter().flatten().max()
    };
    let runs = entries.filter(|folder| folder.join(DATABASE).is_file());
    runs.max_by_key(|folder| (written(folder), folder.clone()))
}
