//! `heaptrial import`: measurements that were made elsewhere.

mod access;
mod csv;
mod heaptrial;
mod prometheus;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use heaptrial_exchange::ImportSummary;
use heaptrial_model::{About, units};
use heaptrial_store::Store;
use serde_json::json;

use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder::{DATABASE, RUNS};

#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// CSV files with the memory of services over time
    #[command(after_help = csv::EXAMPLES)]
    Csv(csv::CsvOptions),
    /// The same of the scripts with which operators of Tor relays measure (TorUtils), with their other files
    Torutils(csv::TorUtilsOptions),
    /// Series of a Prometheus, or of a store that answers as one does
    #[command(after_help = prometheus::EXAMPLES)]
    Prometheus(Box<prometheus::PrometheusOptions>),
    /// Parts of a trial over several hosts, as `heaptrial export --format heaptrial` writes them on each, into one database
    Heaptrial(heaptrial::HeaptrialOptions),
}

pub fn run(command: ImportCommand, global: &GlobalOptions) -> Result<Answer, Failure> {
    match command {
        ImportCommand::Csv(options) => csv::run(options, global),
        ImportCommand::Torutils(options) => csv::run_torutils(options, global),
        ImportCommand::Prometheus(options) => prometheus::run(*options, global),
        ImportCommand::Heaptrial(options) => heaptrial::run(&options, global),
    }
}

/// What every import of others' measurements takes.
#[derive(Debug, Args)]
struct SeriesOptions {
    /// Lists of services by their names here, one per line; each file is an arm and names it
    #[arg(long, value_name = "FILE", num_args = 1..)]
    groups: Vec<PathBuf>,
    /// What the trial is about, for its report: TOML with the texts hypothesis, notes and next_steps
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    about: Option<PathBuf>,
    /// The control arm [default: the one called control, else that of glibc, else the first]
    #[arg(long, value_name = "ARM")]
    control: Option<String>,
}

impl SeriesOptions {
    fn about(&self) -> Result<Option<About>, Failure> {
        let Some(path) = &self.about else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
        let about = About::from_toml(&text);
        about.map(Some).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
    }
}

/// `--db`, or a database in the folder `--out` or in one named after the trial.
fn database_of(trial: &str, global: &GlobalOptions) -> PathBuf {
    match (&global.db, &global.out) {
        (Some(file), _) => file.clone(),
        (None, Some(folder)) => folder.join(DATABASE),
        (None, None) => Path::new(RUNS).join(trial.replace('/', "_")).join(DATABASE),
    }
}

/// Imports into a database. A refused import leaves neither an empty one nor a folder made for it.
fn into<T, E: Into<Failure>>(
    database: &Path,
    import: impl FnOnce(&mut Store) -> Result<T, E>,
) -> Result<T, Failure> {
    let existed = database.exists();
    let missing_folder = make_folder(database)?;
    let mut store = Store::create(database)?;
    let imported = import(&mut store);
    drop(store);
    imported.map_err(|error| {
        if !existed {
            remove_empty(database, missing_folder.as_deref());
        }
        error.into()
    })
}

/// Makes the folder of a database; gives it if it was not there.
fn make_folder(database: &Path) -> Result<Option<PathBuf>, Failure> {
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty());
    let missing = folder.filter(|folder| !folder.exists());
    if let Some(folder) = missing {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::refused(format!("cannot create {}: {error}", folder.display())))?;
    }
    Ok(missing.map(Path::to_owned))
}

/// A refused import leaves neither an empty database nor the folder made for it.
fn remove_empty(database: &Path, folder: Option<&Path>) {
    for suffix in ["", "-wal", "-shm"] {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        let _ = std::fs::remove_file(path);
    }
    if let Some(folder) = folder {
        let _ = std::fs::remove_dir(folder);
    }
}

/// The command as it was typed.
fn own_command() -> String {
    let words = std::env::args().skip(1);
    std::iter::once("heaptrial".to_owned())
        .chain(words.map(|word| shell_words::quote(&word).into_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// What an import of series of services gave; `more` is what only its kind of source shows.
fn answer(summary: &ImportSummary, more: &str, database: &Path, global: &GlobalOptions) -> Answer {
    let mut text = format!(
        "{}: {} samples of {}{}\n",
        summary.trial,
        units::count(summary.samples),
        units::counted(summary.services, "service"),
        if summary.replaced { ", instead of what was imported under this name" } else { "" }
    );
    for arm in &summary.arms {
        let claimed = arm.claimed_allocator.as_ref();
        let claimed = claimed.map_or(String::new(), |claimed| format!(", {claimed} by its name"));
        let control = if arm.control { ", the control" } else { "" };
        text += &format!("  {}: {}{claimed}{control}\n", arm.name, units::counted(arm.services, "service"));
    }
    text += &format!(
        "{} process lifetimes: the starts of {} are reported, of {} inferred; {} began before their first reading.\n",
        units::count(summary.lives_observed + summary.lives_inferred + summary.lives_unknown),
        units::count(summary.lives_observed),
        units::count(summary.lives_inferred),
        units::count(summary.lives_unknown)
    );
    text += more;
    summary.notes.iter().for_each(|note| text += &format!("- {note}\n"));
    let name = shell_words::quote(&summary.trial);
    let report = match (&global.db, &global.out) {
        (Some(file), _) => format!("--db {} report {name}", file.display()),
        (None, Some(_)) => format!("report {}", database.display()),
        (None, None) => format!("report {name}"),
    };
    text += &format!("\n{}\nNext: heaptrial {report}\n", database.display());
    Answer::new(json!({ "database": database, "import": summary }), text)
}
