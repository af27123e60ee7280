//! `heaptrial report`: a trial's report from its database, or a comparison of several.

mod bug;

use std::path::Path;
use std::time::Duration;

use clap::Args;
use heaptrial_model::{AllocatorSpec, HumanDuration, TrialKind};
use heaptrial_report::{Document, Options, Report, Settings, compare};
use heaptrial_store::TrialRecord;

use super::lab::report_of_search;
use super::value::{size, time};
use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder::RUNS;
use crate::target::Target;

#[derive(Debug, Args)]
pub struct ReportOptions {
    /// Runs' folders, databases, or trials of the database by name; without one the newest run below this folder.
    /// Several are compared
    #[arg(value_name = "RUN|TRIAL")]
    trials: Vec<String>,
    /// In a lab run: leave readings below this age out of medians and slopes; of relays that rested, out of growth, where
    /// 12h are 12 consensuses [default: a third of the time]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    warm_up: Option<HumanDuration>,
    /// In a field trial: compare the median of this last stretch before the matched age
    #[arg(long, value_name = "DURATION", default_value = "1d")]
    window: HumanDuration,
    /// In a field trial: what each service may use at most, such as 8G (GiB); the report says when memory runs out
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_limit: Option<u64>,
    /// In a field trial or import: leave out what came after this time, such as 2026-01-31T12:00:00Z or 2026-01-31 (UTC)
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Write the report for the maintainers of this allocator, without names and addresses, and with how to see it again
    #[arg(long, value_name = "SPEC")]
    bug: Option<AllocatorSpec>,
    /// With --bug: the allocator that it is compared to [default: the control]
    #[arg(long, value_name = "SPEC", requires = "bug")]
    good: Option<AllocatorSpec>,
}

/// Writes the report of a trial again, or compares several.
pub fn run(options: &ReportOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    if let Some(bad) = &options.bug {
        return bug::run(bad, options, global);
    }
    if options.trials.len() > 1 {
        return compare_trials(options, global);
    }
    if let [folder] = options.trials.as_slice() {
        if let Some(answer) = report_of_search(Path::new(folder), global)? {
            return Ok(answer);
        }
    }
    let target = Target::find(options.trials.first().map(String::as_str), global)?;
    let how = how(options, &target)?;
    let report = Report::with_charts(&target.store, target.trial.id, &how)?;
    written(&report, &target.folder, global)
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
        settings: Settings { window_seconds: options.window.0.as_secs_f64(), ..Settings::default() },
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

fn compare_trials(options: &ReportOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let mut reports = Vec::with_capacity(options.trials.len());
    for name in &options.trials {
        let target = Target::find(Some(name), global)?;
        let how = how(options, &target)?;
        reports.push(Report::from_store(&target.store, target.trial.id, &how)?);
    }
    let folder = global.out.clone().unwrap_or_else(|| Path::new(RUNS).join("comparison"));
    written(&compare(&reports), &folder, global)
}

/// Writes a document into `folder`; the answer shows it, with where its files are.
pub fn written(document: &impl Document, folder: &Path, global: &GlobalOptions) -> Result<Answer, Failure> {
    let written = document.write(folder)?;
    let files = [&written.html, &written.markdown, &written.json];
    let mut further: String = files.iter().map(|path| format!("{}\n", path.display())).collect();
    if let Some(folder) = written.charts.first().and_then(|chart| chart.parent()) {
        further += &format!("{}/ ({} charts)\n", folder.display(), written.charts.len());
    }
    Answer::of_report(document, &format!("\n{further}"), global)
}
