//! `heaptrial trial stop`: ends a trial, and puts everything back if asked. Also what the dead man's timer runs.

use std::process::ExitCode;

use clap::Args;
use heaptrial_field::{FieldError, Places, Stage, Trial, TrialStage, read_prepared, read_state};
use heaptrial_host::systemd::Systemd;
use heaptrial_model::{HumanDuration, Pace, units};

use super::on_host::{self, Teller, failure_of};
use crate::exit::{Failure, GENERAL_FAILURE};
use crate::options::GlobalOptions;

/// Which trial, and how it ends.
#[derive(Debug, Args)]
pub struct StopOptions {
    /// The trial's name
    #[arg(value_name = "NAME")]
    trial: String,
    /// Put back every file as it was, and restart the services
    #[arg(long)]
    revert: bool,
    /// From one service's restart to the next one's, in place of the plan's [pace]
    #[arg(long, value_name = "DURATION", requires = "revert")]
    pause: Option<HumanDuration>,
    /// Services that are being restarted at any time, in place of the plan's [pace]
    #[arg(long, value_name = "N", requires = "revert", value_parser = clap::value_parser!(u32).range(1..))]
    at_once: Option<u32>,
    /// End it without asking
    #[arg(long)]
    yes: bool,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Which trial.
#[derive(Debug, Args)]
pub struct DeadManOptions {
    /// The trial's name
    trial: String,
}

/// Ends a trial.
pub fn stop(options: &StopOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let places = Places::default();
    let name = &options.trial;
    let state = read_state(&places, name).map_err(failure_of)?;
    let doing = if options.revert { "rollback" } else { "pause" };
    on_host::refuse_rollout(&read_prepared(&places, name).map_err(failure_of)?, doing)?;
    if state.stage == TrialStage::Reverted {
        println!("trial {name} has ended and everything is as before");
        return Ok(ExitCode::SUCCESS);
    }
    let changed = state.services.values().filter(|service| service.stage != Stage::Reverted).count();
    if options.dry_run {
        return dry_run(name, &state, options.revert);
    }
    on_host::require_root("trial stop")?;
    if options.revert {
        on_host::refuse_taken_over(&places, name)?;
    }
    let what = if options.revert {
        format!("This puts back the files of {} and restarts them.", units::counted(changed, "service"))
    } else {
        format!("This ends trial `{name}`; its {} keep what they run.", units::counted(changed, "service"))
    };
    on_host::confirm(&what, options.yes)?;
    let systemd = Systemd::connect().map_err(Failure::refused)?;
    let purpose = if options.revert { "stop --revert" } else { "stop" };
    let mut trial = Trial::open(&systemd, &places, name, purpose).map_err(failure_of)?;
    let database = on_host::database(&places, global);
    if !options.revert {
        trial.end().map_err(failure_of)?;
        on_host::end_in_database(&database, name);
        println!(
            "trial {name} has ended; `heaptrial report {name}` writes its report, `heaptrial trial stop {name} --revert` puts everything back"
        );
        return Ok(ExitCode::SUCCESS);
    }
    let planned = trial.prepared().plan.pace;
    let pace = Pace {
        pause: options.pause.unwrap_or(planned.pause),
        at_once: options.at_once.unwrap_or(planned.at_once),
        ..planned
    };
    // What services do while they are put back is none of the trial's data.
    let mut teller = Teller::new(&database, name, changed);
    on_host::end_in_database(&database, name);
    let interrupt = on_host::interrupt()?;
    let outcome =
        trial.revert(pace, &mut teller, &|| on_host::interrupted(&interrupt)).map_err(failure_of)?;
    if global.json {
        println!("{:#}", on_host::outcome_json(name, "revert", &outcome));
    } else if outcome.is_complete() {
        println!(
            "trial {name}: every file is as before, and {} run what they ran",
            units::counted(outcome.done, "service")
        );
    } else {
        println!(
            "trial {name}: {} as before, {} could not be put back, {} not reached; the same command goes on",
            units::counted(outcome.done, "service"),
            outcome.stuck.len(),
            outcome.remaining
        );
    }
    Ok(if outcome.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(GENERAL_FAILURE) })
}

/// Puts right what a process that is gone left.
pub fn dead_man(options: &DeadManOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let places = Places::default();
    let systemd = Systemd::connect().map_err(Failure::refused)?;
    let mut trial = match Trial::open(&systemd, &places, &options.trial, "dead-man") {
        // It is still there.
        Err(FieldError::Lock(_)) => return Ok(ExitCode::SUCCESS),
        opened => opened.map_err(failure_of)?,
    };
    let database = on_host::database(&places, global);
    let in_flight = trial.state().in_flight().len();
    let mut teller = Teller::new(&database, &options.trial, in_flight);
    let interrupt = on_host::interrupt()?;
    let outcome = trial.recover(&mut teller, &|| on_host::interrupted(&interrupt)).map_err(failure_of)?;
    Ok(if outcome.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(GENERAL_FAILURE) })
}

fn dry_run(name: &str, state: &heaptrial_field::TrialState, revert: bool) -> Result<ExitCode, Failure> {
    if !revert {
        println!("would end trial {name}; its services keep what they run");
    }
    for (service, found) in
        state.services.iter().filter(|(_, found)| revert && found.stage != Stage::Reverted)
    {
        println!("would put back {service}");
        for change in &found.changes {
            println!("  {}", change.path.display());
        }
    }
    println!("nothing was changed");
    Ok(ExitCode::SUCCESS)
}
