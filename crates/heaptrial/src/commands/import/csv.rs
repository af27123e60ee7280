//! `heaptrial import csv` and `heaptrial import torutils`: files with measurements.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use heaptrial_exchange::{CsvImport, ImportSummary, Mapping, ProblemKind, Timezone, Unit, import_csv};
use heaptrial_model::units;

use super::{database_of, into, own_command, print_head, print_next, read_about};
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Problems that are printed; all of them are counted.
const PROBLEMS_SHOWN: usize = 10;

pub const EXAMPLES: &str = "Examples:
  heaptrial import csv memory.csv
  heaptrial import csv a.csv b.csv --time when --service process --memory used --unit MiB --groups glibc.txt jemalloc.txt";

/// Files of any origin.
#[derive(Debug, Args)]
pub struct CsvOptions {
    /// Column of the time: ISO 8601 or seconds since 1970 [default: timestamp, time, datetime, date, or date and time]
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// Column that names the service [default: nickname, name, service, relay, container, instance or pid]
    #[arg(long, value_name = "COLUMN")]
    service: Option<String>,
    /// Column of the memory [default: rss, vmrss or memory, with its unit behind it: rss_kb, memory_bytes]
    #[arg(long, value_name = "COLUMN")]
    memory: Option<String>,
    /// Unit of the memory: bytes, KiB, MiB or GiB [default: from the column's name; kb and mb are of 1024, too]
    #[arg(long, value_name = "UNIT")]
    unit: Option<Unit>,
    #[command(flatten)]
    files: FileOptions,
}

/// The files of the scripts.
#[derive(Debug, Args)]
pub struct TorUtilsOptions {
    #[command(flatten)]
    files: FileOptions,
    /// Configuration of the relays (relay_config.csv)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// State of the host (diagnostics.csv): how much memory there is
    #[arg(long, value_name = "FILE")]
    diagnostics: Option<PathBuf>,
}

/// What both commands read.
#[derive(Debug, Args)]
struct FileOptions {
    /// Memory measurements: CSV with a header and a row for each reading of a service
    #[arg(required = true, value_name = "FILE")]
    memory_files: Vec<PathBuf>,
    /// Lists of services, one per line; each file is an arm and names it
    #[arg(long, value_name = "FILE", num_args = 1..)]
    groups: Vec<PathBuf>,
    /// What the operators did and when (timestamp,event_type,description,group): restarts date the starts of processes
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Timezone of times without an offset, such as -08:00 or America/Los_Angeles [default: UTC]
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    timezone: Option<Timezone>,
    /// Refuse the whole import at the first malformed row
    #[arg(long)]
    strict: bool,
    /// What the trial is about, for its report: TOML with the texts hypothesis, notes and next_steps
    #[arg(long, value_name = "FILE")]
    about: Option<PathBuf>,
    /// Name of the trial [default: the first file's, without extension]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The control arm [default: the one called control, else that of glibc, else the first]
    #[arg(long, value_name = "ARM")]
    control: Option<String>,
}

pub fn run(options: CsvOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let mapping =
        Mapping { time: options.time, service: options.service, memory: options.memory, unit: options.unit };
    import(CsvImport { mapping, ..CsvImport::default() }, options.files, global)
}

pub fn run_torutils(options: TorUtilsOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let TorUtilsOptions { files, config, diagnostics } = options;
    import(CsvImport { config, diagnostics, ..CsvImport::default() }, files, global)
}

fn import(request: CsvImport, files: FileOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let stem = files.memory_files.first().and_then(|file| file.file_stem());
    let stem = stem.map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let database = database_of(files.name.as_ref().unwrap_or(&stem), global);
    let request = CsvImport {
        memory: files.memory_files,
        groups: files.groups,
        events: files.events,
        timezone: files.timezone,
        now_wall_us: Some(jiff::Timestamp::now().as_microsecond()),
        strict: files.strict,
        about: files.about.as_deref().map(read_about).transpose()?,
        name: files.name,
        control: files.control,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: own_command(),
        ..request
    };
    let summary = into(&database, |store| import_csv(store, &request))?;
    if global.json {
        let json = serde_json::json!({ "schema_version": 1, "database": database, "import": summary });
        println!("{json:#}");
    } else {
        print_summary(&summary, &database, global);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_summary(summary: &ImportSummary, database: &Path, global: &GlobalOptions) {
    print_head(summary);
    if summary.duplicate_samples > 0 {
        println!("{} more are in the files twice.", units::count(summary.duplicate_samples));
    }
    println!(
        "{} process lifetimes: the starts of {} are inferred, the others ({}, one of each service) began before its first reading.",
        units::count(summary.lives_inferred + summary.lives_unknown),
        units::count(summary.lives_inferred),
        units::count(summary.lives_unknown)
    );
    if summary.local_times > 0 {
        println!("Times without an offset are read as {} (--timezone).", summary.timezone);
    }
    for note in &summary.notes {
        println!("- {note}");
    }
    let mut shown = 0;
    for problem in summary.problems.details.iter().take(PROBLEMS_SHOWN) {
        eprintln!("{problem}");
        shown += 1;
    }
    let malformed = summary.problems.count(ProblemKind::MalformedRow);
    let conflicting = summary.problems.count(ProblemKind::ConflictingReading);
    if malformed + conflicting > 0 {
        eprintln!(
            "{} malformed rows were skipped; of {} conflicting readings the first was kept{}.",
            units::count(malformed),
            units::count(conflicting),
            if malformed + conflicting > shown { " (the first are shown, --json has more)" } else { "" }
        );
    }
    print_next(&summary.trial, database, global);
}
