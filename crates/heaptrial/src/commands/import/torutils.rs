//! `heaptrial import torutils`: files of the scripts of Tor operators.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use heaptrial_exchange::{ImportSummary, ProblemKind, Timezone, TorUtilsImport, import_torutils};
use heaptrial_model::units;

use super::{arm_line, database_of, into, own_command, print_next, read_about};
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Problems that are printed; all of them are counted.
const PROBLEMS_SHOWN: usize = 10;

/// The files.
#[derive(Debug, Args)]
pub struct TorUtilsOptions {
    /// Memory measurements: CSV with a row for each reading, and the columns timestamp, nickname and rss_kb
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
    /// Timezone of times without an offset, such as -08:00 or America/Los_Angeles [default: UTC]
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    timezone: Option<Timezone>,
    /// Refuse the whole import at the first malformed row
    #[arg(long)]
    strict: bool,
    /// What the trial is about, for its report: TOML with the texts hypothesis, notes and next_steps
    #[arg(long, value_name = "FILE")]
    about: Option<PathBuf>,
    /// Name of the trial [default: the memory file's, without extension]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The control arm [default: the one called control, else that of glibc, else the first]
    #[arg(long, value_name = "ARM")]
    control: Option<String>,
}

pub fn run(options: TorUtilsOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let stem = options.memory.first().and_then(|file| file.file_stem());
    let stem = stem.map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let database = database_of(options.name.as_ref().unwrap_or(&stem), global);
    let about = options.about.as_deref().map(read_about).transpose()?;
    let request = TorUtilsImport {
        memory: options.memory,
        groups: options.groups,
        config: options.config,
        events: options.events,
        diagnostics: options.diagnostics,
        timezone: options.timezone,
        now_wall_us: Some(jiff::Timestamp::now().as_microsecond()),
        strict: options.strict,
        about,
        name: options.name,
        control: options.control,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: own_command(),
    };
    let summary = into(&database, |store| import_torutils(store, &request))?;
    if global.json {
        let json = serde_json::json!({ "schema_version": 1, "database": database, "import": summary });
        println!("{json:#}");
    } else {
        print_summary(&summary, &database, global);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_summary(summary: &ImportSummary, database: &Path, global: &GlobalOptions) {
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
    if summary.duplicate_samples > 0 {
        println!("{} more are in the files twice.", units::count(summary.duplicate_samples));
    }
    println!(
        "{} lives: the starts of {} are inferred, the others ({}, one of each service) began before its first reading.",
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
            "{} malformed rows were left out and {} conflicting readings kept as they came first{}.",
            units::count(malformed),
            units::count(conflicting),
            if malformed + conflicting > shown { " (the first are shown, --json has more)" } else { "" }
        );
    }
    print_next(&summary.trial, database, global);
}
