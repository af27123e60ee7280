//! `heaptrial import`: measurements that were made elsewhere.

mod access;
mod csv;
mod heaptrial;
mod prometheus;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use heaptrial_exchange::{ArmSummary, ImportError, ImportSummary};
use heaptrial_model::{About, units};
use heaptrial_store::Store;

use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder::RUNS;

/// Which tool made the measurements.
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

/// Runs one of the commands.
pub fn run(command: ImportCommand, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    match command {
        ImportCommand::Csv(options) => csv::run(options, global),
        ImportCommand::Torutils(options) => csv::run_torutils(options, global),
        ImportCommand::Prometheus(options) => prometheus::run(*options, global),
        ImportCommand::Heaptrial(options) => heaptrial::run(&options, global),
    }
}

/// `--db`, or a database in the folder `--out` or in one named after the trial.
fn database_of(trial: &str, global: &GlobalOptions) -> PathBuf {
    match (&global.db, &global.out) {
        (Some(file), _) => file.clone(),
        (None, Some(folder)) => folder.join("heaptrial.db"),
        (None, None) => Path::new(RUNS).join(trial.replace('/', "_")).join("heaptrial.db"),
    }
}

/// Imports into a database. A refused import leaves neither an empty one nor a folder made for it.
fn into<T>(database: &Path, import: impl FnOnce(&mut Store) -> Result<T, ImportError>) -> Result<T, Failure> {
    let existed = database.exists();
    let missing_folder = make_folder(database)?;
    let mut store = Store::create(database).map_err(Failure::refused)?;
    let imported = import(&mut store);
    drop(store);
    imported.map_err(|error| {
        if !existed {
            remove_empty(database, missing_folder.as_deref());
        }
        Failure::from(error)
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

fn read_about(path: &Path) -> Result<About, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    About::from_toml(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
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

/// Where it was put, and what to do with it.
fn print_next(trial: &str, database: &Path, global: &GlobalOptions) {
    println!();
    println!("{}", database.display());
    let name = shell_words::quote(trial);
    match &global.db {
        Some(file) => println!("Next: heaptrial --db {} report {name}", file.display()),
        None if global.out.is_some() => println!("Next: heaptrial report {}", database.display()),
        None => println!("Next: heaptrial report {name}"),
    }
}

/// How much there is, and in which arms.
fn print_head(summary: &ImportSummary) {
    println!(
        "{}: {} samples of {} services{}",
        summary.trial,
        units::count(summary.samples),
        units::count(summary.services as u64),
        if summary.replaced { ", instead of what was imported under this name" } else { "" }
    );
    for arm in &summary.arms {
        println!("  {}", arm_line(arm));
    }
}

fn arm_line(arm: &ArmSummary) -> String {
    let mut line = format!("{}: {} services", arm.name, arm.services);
    if let Some(claimed) = &arm.claimed_allocator {
        line.push_str(&format!(", {claimed} by its name"));
    }
    if arm.control {
        line.push_str(", the control");
    }
    line
}
