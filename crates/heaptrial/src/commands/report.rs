//! `heaptrial report`: a trial's report from its database, or a comparison of several.

mod bug;

use std::ops::Bound;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use heaptrial_model::{AllocatorSpec, HumanDuration, TrialKind};
use heaptrial_report::{Document, Options, Report, Settings, Written, compare};
use heaptrial_store::{Store, TrialRecord};

use super::lab::report_of_search;
use super::value::{ValueError, number, size, time};
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder::RUNS;
use crate::target::Target;

/// Which trials, and how they are read.
#[derive(Debug, Args)]
pub struct ReportOptions {
    /// Runs' folders, databases, or trials of the database by name; without one the newest run below this folder.
    /// Several are compared
    #[arg(value_name = "RUN|TRIAL")]
    trials: Vec<String>,
    /// In a lab run: leave readings below this age out of medians and slopes; of relays that rested, out of growth, where
    /// 12h are 12 consensuses [default: a third of the time]
    #[arg(long, value_name = "DURATION")]
    warm_up: Option<HumanDuration>,
    /// In a field trial: compare the median of this last stretch before the matched age
    #[arg(long, value_name = "DURATION", default_value = "1d")]
    window: HumanDuration,
    /// In a field trial: what each service may use at most, such as 8G (GiB); the report says when memory runs out
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_limit: Option<u64>,
    /// In a field trial: `stable` means growth within plus and minus this many percent a day
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, value_parser = percent)]
    stable_margin: f64,
    /// In a field trial or import: leave out what came after this time, such as 2026-01-31T12:00:00Z, or after the beginning of
    /// this day (UTC)
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Write the report for the maintainers of this allocator, without names and addresses, and with how to see it again
    #[arg(long, value_name = "SPEC")]
    bug: Option<AllocatorSpec>,
    /// With --bug: the allocator that it is compared to [default: the control]
    #[arg(long, value_name = "SPEC", requires = "bug")]
    good: Option<AllocatorSpec>,
}

/// Writes the report of a trial again and prints it, or compares several.
pub fn run(options: &ReportOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    if let Some(bad) = &options.bug {
        return bug::run(bad, options, global);
    }
    if options.trials.len() > 1 {
        return compare_trials(options, global);
    }
    if let [folder] = options.trials.as_slice() {
        if let Some(code) = report_of_search(Path::new(folder), global)? {
            return Ok(code);
        }
    }
    let target = Target::find(options.trials.first().map(String::as_str), global)?;
    let how = how(options, &target)?;
    write_and_print(&target.store, target.trial.id, &target.folder, &how, global)?;
    Ok(ExitCode::SUCCESS)
}

/// The options as the report takes them.
fn how(options: &ReportOptions, target: &Target) -> Result<Options, Failure> {
    let TrialRecord { plan, ended_wall_us, .. } = &target.trial;
    let whole = ended_wall_us.map_or(0, |ended| ended - plan.started_wall_us);
    let observed = if plan.planned_us > 0 { plan.planned_us } else { whole };
    let observed = Duration::from_micros(observed.max(0) as u64);
    // Ages of a lab's relays are hours of their lives, of which a run of minutes has many.
    let too_long = |warm_up: &HumanDuration| warm_up.0 >= observed && !observed.is_zero();
    if let Some(warm_up) =
        options.warm_up.filter(|warm_up| plan.kind != TrialKind::LabTor && too_long(warm_up))
    {
        return Err(Failure::usage(format!(
            "--warm-up {warm_up} leaves no readings: each service was observed for {}",
            HumanDuration(observed)
        )));
    }
    if options.window.0.is_zero() {
        return Err(Failure::usage("--window 0s leaves no readings to compare"));
    }
    Ok(Options {
        warm_up: options.warm_up.map(|duration| duration.0),
        memory_limit_bytes: options.memory_limit,
        until_us: until(options, target)?,
        settings: Settings {
            window_seconds: options.window.0.as_secs_f64(),
            stable_margin_per_day: options.stable_margin / 100.0,
            ..Settings::default()
        },
    })
}

/// From when on nothing counts.
fn until(options: &ReportOptions, target: &Target) -> Result<Option<i64>, Failure> {
    let Some(text) = &options.until else { return Ok(None) };
    let TrialRecord { plan, ended_wall_us, .. } = &target.trial;
    if plan.kind.is_lab() {
        return Err(Failure::usage(
            "--until is of trials in the field and imports: services of a lab run are compared at their ages",
        ));
    }
    let last = ended_wall_us.unwrap_or_else(|| jiff::Timestamp::now().as_microsecond());
    let until = time(text, "--until", last)?;
    if until <= plan.started_wall_us {
        return Err(Failure::usage(format!(
            "--until {text} is before the trial began: nothing would be left"
        )));
    }
    Ok(Some(until))
}

fn compare_trials(options: &ReportOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let mut reports = Vec::with_capacity(options.trials.len());
    for name in &options.trials {
        let target = Target::find(Some(name), global)?;
        let how = how(options, &target)?;
        reports.push(Report::from_store(&target.store, target.trial.id, &how).map_err(Failure::failed)?);
    }
    let comparison = compare(&reports);
    let folder = global.out.clone().unwrap_or_else(|| Path::new(RUNS).join("comparison"));
    let written = comparison.write(&folder).map_err(Failure::failed)?;
    print(&comparison, &written, global)?;
    Ok(ExitCode::SUCCESS)
}

fn percent(text: &str) -> Result<f64, ValueError> {
    let between = (Bound::Excluded(0.0), Bound::Excluded(100.0));
    number(text, between, "a number of percent such as 0.5")
}

/// Writes all forms of a report into `folder` and prints the one for the terminal, or JSON.
pub fn write_and_print(
    store: &Store,
    trial_id: i64,
    folder: &Path,
    options: &Options,
    global: &GlobalOptions,
) -> Result<Report, Failure> {
    let report = Report::with_charts(store, trial_id, options).map_err(Failure::failed)?;
    let written = report.write(folder).map_err(Failure::failed)?;
    print(&report, &written, global)?;
    Ok(report)
}

/// Prints a document as JSON, or for the terminal with where its files are.
fn print(document: &impl Document, written: &Written, global: &GlobalOptions) -> Result<(), Failure> {
    if global.json {
        print!("{}", document.json().map_err(Failure::failed)?);
        return Ok(());
    }
    println!("{}", document.terminal(global.colored_stdout()));
    for path in [&written.html, &written.markdown, &written.json] {
        println!("{}", path.display());
    }
    if let Some(folder) = written.charts.first().and_then(|chart| chart.parent()) {
        println!("{}/ ({} charts)", folder.display(), written.charts.len());
    }
    Ok(())
}
