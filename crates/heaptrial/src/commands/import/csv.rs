//! `heaptrial import csv` and `heaptrial import torutils`: files with measurements.

use std::path::PathBuf;

use clap::Args;
use heaptrial_exchange::{CsvImport, ImportSummary, Mapping, ProblemKind, Timezone, Unit, import_csv};
use heaptrial_model::units;

use super::{SeriesOptions, answer, database_of, into, own_command};
use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Problems that are printed; all of them are counted.
const PROBLEMS_SHOWN: usize = 10;

pub const EXAMPLES: &str = "Examples:
  heaptrial import csv memory.csv
  heaptrial import csv web1.csv web2.csv --service-by-file
  heaptrial import csv a.csv b.csv --time when --service process --memory used --unit MiB --groups glibc.txt jemalloc.txt";

#[derive(Debug, Args)]
pub struct CsvOptions {
    /// Column of the time: ISO 8601 or seconds, milli-, micro- or nanoseconds since 1970 [default: timestamp, time, datetime, date, or date and time]
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// Column that names the service [default: nickname, name, service, relay, container, instance, process or pid]
    #[arg(long, value_name = "COLUMN")]
    service: Option<String>,
    /// Each file is of one service and named after it
    #[arg(long, conflicts_with = "service")]
    service_by_file: bool,
    /// Column of the memory [default: rss, vmrss or memory, with its unit behind it: rss_kb, memory_bytes]
    #[arg(long, value_name = "COLUMN")]
    memory: Option<String>,
    /// Unit of the memory: bytes, KiB, MiB or GiB [default: from the column's name; kb and mb are of 1024, too]
    #[arg(long, value_name = "UNIT")]
    unit: Option<Unit>,
    #[command(flatten)]
    files: FileOptions,
}

#[derive(Debug, Args)]
pub struct TorUtilsOptions {
    #[command(flatten)]
    files: FileOptions,
    /// State of the host (diagnostics.csv): how much memory there is
    #[arg(long, value_name = "FILE")]
    diagnostics: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct FileOptions {
    /// Memory measurements: CSV with a header and a row for each reading of a service
    #[arg(required = true, value_name = "FILE")]
    memory_files: Vec<PathBuf>,
    #[command(flatten)]
    series: SeriesOptions,
    /// What the operators did and when (timestamp,event_type,description,group): restarts date the starts of processes
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    events: Option<PathBuf>,
    /// Timezone of times without an offset, such as -08:00 or America/Los_Angeles [default: UTC]
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    timezone: Option<Timezone>,
    /// Refuse the whole import at the first malformed row
    #[arg(long, hide_short_help = true)]
    strict: bool,
    /// Name of the trial [default: the first file's, without extension]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

pub fn run(options: CsvOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let CsvOptions { time, service, service_by_file, memory, unit, files } = options;
    let mapping = Mapping { time, service, service_by_file, memory, unit };
    import(CsvImport { mapping, ..CsvImport::default() }, files, global)
}

pub fn run_torutils(options: TorUtilsOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let TorUtilsOptions { files, diagnostics } = options;
    import(CsvImport { diagnostics, ..CsvImport::default() }, files, global)
}

fn import(request: CsvImport, files: FileOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let stem = files.memory_files.first().and_then(|file| file.file_stem());
    let stem = stem.map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let database = database_of(files.name.as_ref().unwrap_or(&stem), global);
    let request = CsvImport {
        memory: files.memory_files,
        about: files.series.about()?,
        groups: files.series.groups,
        control: files.series.control,
        events: files.events,
        timezone: files.timezone,
        now_wall_us: Some(jiff::Timestamp::now().as_microsecond()),
        strict: files.strict,
        name: files.name,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: own_command(),
        ..request
    };
    let summary = into(&database, |store| import_csv(store, &request))?;
    Ok(answer(&summary, &details(&summary), &database, global))
}

/// Times without an offset, and rows that were not taken; the latter on standard error.
fn details(summary: &ImportSummary) -> String {
    let mut text = String::new();
    if summary.duplicate_samples > 0 {
        text += &format!("{} more are in the files twice.\n", units::count(summary.duplicate_samples));
    }
    if summary.local_times > 0 {
        text += &format!("Times without an offset are read as {} (--timezone).\n", summary.timezone);
    }
    summary.problems.details.iter().take(PROBLEMS_SHOWN).for_each(|problem| eprintln!("{problem}"));
    let malformed = summary.problems.count(ProblemKind::MalformedRow);
    let conflicting = summary.problems.count(ProblemKind::ConflictingReading);
    if malformed + conflicting > 0 {
        eprintln!(
            "{} malformed rows were skipped; of {} conflicting readings the first was kept (--json has more).",
            units::count(malformed),
            units::count(conflicting)
        );
    }
    text
}
