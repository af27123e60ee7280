//! `heaptrial import`: measurements that were made with other tools.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use heaptrial_exchange::{
    ArmSummary, GatherError, GatheredPart, ImportSummary, ProblemKind, Timezone, TimezoneSource,
    TorUtilsImport, gather, import_torutils, trial_of,
};
use heaptrial_host::Instant;
use heaptrial_model::{About, TrialName, units};
use heaptrial_store::Store;
use jiff::civil::Date;

use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder::RUNS;

/// Problems that are printed; all of them are counted.
const PROBLEMS_SHOWN: usize = 10;

/// Which tool made the measurements.
#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// CSV files of the scripts with which operators of Tor relays measure (TorUtils)
    Torutils(TorUtilsOptions),
    /// Parts of a trial over several hosts, as `heaptrial export --format heaptrial` writes them on each, into one database
    Heaptrial(HeaptrialOptions),
}

/// The files.
#[derive(Debug, Args)]
pub struct HeaptrialOptions {
    /// What hosts wrote, or copies of their databases; what is here already stays as it is
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Which trial, where a file has several
    #[arg(long, value_name = "NAME")]
    trial: Option<TrialName>,
}

/// The files.
#[derive(Debug, Args)]
pub struct TorUtilsOptions {
    /// Memory measurements: the unified CSV, or one of the older formats
    #[arg(required = true, value_name = "FILE")]
    memory: Vec<PathBuf>,
    /// Lists of relays, one per line; each file is an arm and names it
    #[arg(long, value_name = "FILE", num_args = 1..)]
    groups: Vec<PathBuf>,
    /// Configuration of the relays (relay_config.csv)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What the operators did and when (events.csv): restarts date the starts of lives
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// State of the host (diagnostics.csv): how much memory there is
    #[arg(long, value_name = "FILE")]
    diagnostics: Option<PathBuf>,
    /// Timezone of times without an offset, such as -08:00 or America/Los_Angeles [default: the offset of other times
    /// in the events, if they have one, else the host's]
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    timezone: Option<Timezone>,
    /// Date of the column day0, for the format with a column per day
    #[arg(long, value_name = "DATE")]
    first_day: Option<Date>,
    /// Refuse the whole import at the first malformed row
    #[arg(long)]
    strict: bool,
    /// Take the services of each label of a server for services of their own, also where one label ends and the other
    /// begins
    #[arg(long)]
    keep_apart: bool,
    /// What the trial is about, for its report: TOML with the texts hypothesis, notes and next_steps
    #[arg(long, value_name = "FILE")]
    about: Option<PathBuf>,
    /// Name of the trial [default: the memory file's, without extension]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The control arm [default: the first whose name has glibc in it, else the first]
    #[arg(long, value_name = "ARM")]
    control: Option<String>,
}

/// Runs one of the commands.
pub fn run(command: ImportCommand, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    match command {
        ImportCommand::Torutils(options) => torutils(options, global),
        ImportCommand::Heaptrial(options) => heaptrial(&options, global),
    }
}

fn torutils(options: TorUtilsOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let database = database(&options, global);
    let about = options.about.as_deref().map(read_about).transpose()?;
    let request = TorUtilsImport {
        memory: options.memory,
        groups: options.groups,
        config: options.config,
        events: options.events,
        diagnostics: options.diagnostics,
        timezone: options.timezone,
        host_timezone: Timezone::of_host(),
        now_wall_us: Some(jiff::Timestamp::now().as_microsecond()),
        first_day: options.first_day,
        strict: options.strict,
        keep_apart: options.keep_apart,
        about,
        name: options.name,
        control: options.control,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: own_command(),
    };
    let existed = database.exists();
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty());
    let missing_folder = folder.filter(|folder| !folder.exists());
    if let Some(folder) = missing_folder {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::refused(format!("cannot create {}: {error}", folder.display())))?;
    }
    let mut store = Store::create(&database).map_err(Failure::refused)?;
    let imported = import_torutils(&mut store, &request);
    drop(store);
    let summary = imported.map_err(|error| {
        if !existed {
            remove_empty(&database, missing_folder);
        }
        Failure::refused(error)
    })?;
    if global.json {
        let json = serde_json::json!({ "schema_version": 1, "database": database, "import": summary });
        println!("{json:#}");
    } else {
        print_summary(&summary, &database, global);
    }
    Ok(ExitCode::SUCCESS)
}

fn heaptrial(options: &HeaptrialOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let named = options.trial.as_ref().map(TrialName::as_str);
    let refused = |error: GatherError| Failure::from(error);
    let name = {
        let first = Store::open(&options.files[0])?;
        trial_of(&first, named).map_err(refused)?.plan.name
    };
    let database = match (&global.db, &global.out) {
        (Some(file), _) => file.clone(),
        (None, Some(folder)) => folder.join("heaptrial.db"),
        (None, None) => Path::new(RUNS).join(name.replace('/', "_")).join("heaptrial.db"),
    };
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty());
    let missing_folder = folder.filter(|folder| !folder.exists());
    if let Some(folder) = missing_folder {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::refused(format!("cannot create {}: {error}", folder.display())))?;
    }
    let existed = database.exists();
    let mut store = Store::create(&database).map_err(Failure::refused)?;
    let mut parts = Vec::new();
    for file in &options.files {
        match gather(&mut store, file, named, Instant::now().wall_us) {
            Ok(part) => parts.push(part),
            Err(error) => {
                drop(store);
                if !existed && parts.is_empty() {
                    remove_empty(&database, missing_folder);
                }
                let told: Vec<&str> = parts.iter().map(|part: &GatheredPart| part.host.as_str()).collect();
                let failure = Failure::from(error);
                return Err(match told.as_slice() {
                    [] => failure,
                    told => failure.about(format!("{} taken in", told.join(", "))),
                });
            }
        }
    }
    drop(store);
    for part in parts.iter().filter(|part| part.ahead_seconds.is_some()) {
        eprintln!(
            "warning: {} wrote readings of a time {} from now: the clocks differ, and ages hold, but times of the calendar do not",
            part.host,
            units::duration(part.ahead_seconds.unwrap_or_default())
        );
    }
    for part in parts.iter().filter(|part| part.new.anew) {
        eprintln!(
            "warning: {} has recorded the trial anew: its database was lost, or it was installed again; what was gathered \
             before stays",
            part.host
        );
    }
    let since = |part: &GatheredPart| part.last.map(|tick| format!("{}@{}", tick.sequence, tick.wall_us));
    if global.json {
        let told = parts.iter().map(|part| {
            serde_json::json!({
                "trial": part.trial, "host": part.host, "new_samples": part.new.samples, "new_lives": part.new.lives,
                "new_events": part.new.events, "anew": part.new.anew, "since": since(part),
                "ahead_seconds": part.ahead_seconds,
            })
        });
        let missing = parts.last().map_or(&[][..], |part| part.missing.as_slice());
        let json = serde_json::json!({
            "schema_version": 1, "database": database, "parts": told.collect::<Vec<_>>(), "missing_hosts": missing,
        });
        println!("{json:#}");
        return Ok(ExitCode::SUCCESS);
    }
    for part in &parts {
        let new = if part.new.samples == 0 && part.new.events == 0 && part.new.lives == 0 {
            "nothing new".to_owned()
        } else {
            format!("{} new samples", units::count(part.new.samples))
        };
        let next = since(part).map_or_else(String::new, |tick| format!("; next with --since {tick}"));
        println!("{} of {}: {new}{next}", part.trial, part.host);
    }
    if let Some(part) = parts.last().filter(|part| !part.missing.is_empty()) {
        println!("Not here yet: {}", part.missing.join(", "));
    }
    println!("\n{}", database.display());
    println!("Next: heaptrial report {}", shell_words::quote(&database.display().to_string()));
    Ok(ExitCode::SUCCESS)
}

fn read_about(path: &Path) -> Result<About, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    About::from_toml(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// `--db`, or a database in the folder `--out` or in one named after the trial.
fn database(options: &TorUtilsOptions, global: &GlobalOptions) -> PathBuf {
    if let Some(file) = &global.db {
        return file.clone();
    }
    let folder = global.out.clone().unwrap_or_else(|| {
        let stem = options.memory.first().and_then(|file| file.file_stem());
        let name = options.name.clone().or_else(|| stem.map(|stem| stem.to_string_lossy().into_owned()));
        Path::new(RUNS).join(name.unwrap_or_default().replace('/', "_"))
    });
    folder.join("heaptrial.db")
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

fn print_summary(summary: &ImportSummary, database: &Path, global: &GlobalOptions) {
    let what = match (summary.updated, summary.new_samples) {
        (true, 0) if summary.changed => "no new samples, but other facts about them,".to_owned(),
        (true, 0) => "nothing new".to_owned(),
        (true, new) => format!("{} new samples", units::count(new)),
        (false, new) => format!("{} samples", units::count(new)),
    };
    println!("{}: {what} of {} services", summary.trial, units::count(summary.services as u64));
    for arm in &summary.arms {
        println!("  {}", arm_line(arm));
    }
    if summary.duplicate_samples > 0 {
        println!("{} readings were there already.", units::count(summary.duplicate_samples));
    }
    println!(
        "{} lives: the starts of {} are inferred, the others ({}, one of each service) began before its first reading.",
        units::count(summary.lives_inferred + summary.lives_unknown),
        units::count(summary.lives_inferred),
        units::count(summary.lives_unknown)
    );
    if summary.services == 0 {
        println!("The files hold sums over services only: a report has nothing to compare.");
    }
    let source = match summary.timezone_source {
        TimezoneSource::Given => "as given",
        TimezoneSource::OtherTimes => "as other times in the files have it",
        TimezoneSource::Host => "that of this host: no time in the files tells it; --timezone names another",
        TimezoneSource::Assumed => "assumed: no time in the files tells it; --timezone names another",
    };
    if summary.local_times > 0 {
        println!("Times without an offset are read as {} ({source}).", summary.timezone);
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
            "{} malformed rows were left out and {} conflicting readings kept as they came first{}.",
            units::count(malformed),
            units::count(conflicting),
            if malformed + conflicting > shown { " (the first are shown, --json has more)" } else { "" }
        );
    }
    println!();
    println!("{}", database.display());
    let name = shell_words::quote(&summary.trial);
    match &global.db {
        Some(file) => println!("Next: heaptrial --db {} report {name}", file.display()),
        None if global.out.is_some() => println!("Next: heaptrial report {}", database.display()),
        None => println!("Next: heaptrial report {name}"),
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
    if let Some(other) = &arm.earlier_list_of {
        line.push_str(&format!(", an earlier list of {other}"));
    }
    line
}
