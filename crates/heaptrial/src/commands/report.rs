//! `heaptrial report`: a run's report, from its database.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use heaptrial_model::HumanDuration;
use heaptrial_report::{Options, Report, Written};
use heaptrial_store::Store;

use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder;

/// Which run, and how it is read.
#[derive(Debug, Args)]
pub struct ReportOptions {
    /// A run's folder or database; without it the newest run below this folder
    run: Option<PathBuf>,
    /// Leave readings below this age out of medians and slopes [default: a third of the duration]
    #[arg(long, value_name = "DURATION")]
    warm_up: Option<HumanDuration>,
}

/// Writes the report of a run anew and prints it.
pub fn run(options: &ReportOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let database = run_folder::database(options.run.as_deref().or(global.db.as_deref()))?;
    let store = Store::open(&database).map_err(Failure::refused)?;
    let trials = store.trials().map_err(Failure::failed)?;
    let trial =
        trials.last().ok_or_else(|| Failure::refused(format!("{} holds no trial", database.display())))?;
    let folder = match &global.out {
        Some(folder) => folder.clone(),
        None => database.parent().unwrap_or(Path::new(".")).to_owned(),
    };
    let planned = Duration::from_micros(trial.plan.planned_us.max(0) as u64);
    if let Some(warm_up) = options.warm_up.filter(|warm_up| warm_up.0 >= planned) {
        return Err(Failure::usage(format!(
            "--warm-up {warm_up} leaves no readings: each service was observed for {}",
            HumanDuration(planned)
        )));
    }
    let options = Options { warm_up: options.warm_up.map(|duration| duration.0) };
    write_and_print(&store, trial.id, &folder, &options, global)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes all forms of a report into `folder` and prints the one for the terminal, or JSON.
pub fn write_and_print(
    store: &Store,
    trial_id: i64,
    folder: &Path,
    options: &Options,
    global: &GlobalOptions,
) -> Result<Report, Failure> {
    let (report, trajectories) =
        Report::with_trajectories(store, trial_id, options).map_err(Failure::failed)?;
    let written = heaptrial_report::write(&report, &trajectories, folder).map_err(Failure::failed)?;
    if global.json {
        print!("{}", report.json().map_err(Failure::failed)?);
    } else {
        print!("{}", heaptrial_report::terminal(&report, global.colored_stdout()).map_err(Failure::failed)?);
        print_paths(&written);
    }
    Ok(report)
}

fn print_paths(written: &Written) {
    println!();
    for path in [&written.html, &written.markdown, &written.json] {
        println!("{}", path.display());
    }
    if let Some(folder) = written.charts.first().and_then(|chart| chart.parent()) {
        println!("{}/ ({} charts)", folder.display(), written.charts.len());
    }
}
