//! `heaptrial trial stop`: ends a trial, and puts everything back if asked. Also what the recovery timer runs.

use std::process::ExitCode;

use clap::Args;
use heaptrial_change::edges::ThisHost;
use heaptrial_change::journal::Action;
use heaptrial_change::{
    ChangeError, LockError, ServiceState, Stage, Trial, TrialStage, read_prepared, read_state,
};
use heaptrial_host::Paths;
use heaptrial_model::{ErrorClass, HumanDuration, Pace, ServiceName, TrialName, units};
use serde_json::{Value, json};

use super::in_database;
use super::on_host::{self, Teller};
use super::unfound::Unfound;
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;

/// Which trial, and how it ends.
#[derive(Debug, Args)]
pub struct StopOptions {
    /// The trial's name
    #[arg(value_name = "NAME")]
    trial: TrialName,
    /// Put back every file as it was, and restart the services
    #[arg(long)]
    revert: bool,
    /// From one service's restart to the next one's, instead of the plan's [pace]
    #[arg(long, value_name = "DURATION", requires = "revert")]
    pause: Option<HumanDuration>,
    /// Services that are being restarted at any time, instead of the plan's [pace]
    #[arg(long, value_name = "N", requires = "revert", value_parser = clap::value_parser!(u32).range(1..))]
    at_once: Option<u32>,
    /// Give this service up where it cannot be put back, as when its unit was removed or masked: it is left as it is, and
    /// the rest is reverted to the end (several times, or with commas)
    #[arg(long, value_name = "SERVICE", requires = "revert", value_parser = ServiceName::of_unit, value_delimiter = ',')]
    without: Vec<ServiceName>,
    /// End it without asking
    #[arg(long)]
    yes: bool,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Which trial.
#[derive(Debug, Args)]
pub struct RecoverOptions {
    /// The trial's name
    trial: TrialName,
}

pub fn stop(options: &StopOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = global.paths()?;
    let name = options.trial.as_str();
    let state = match read_state(&paths, name) {
        Err(error @ ChangeError::Unknown { .. }) => return without_folder(error, options, &paths, global),
        state => state?,
    };
    let doing = if options.revert { "rollback" } else { "pause" };
    let prepared = read_prepared(&paths, name)?;
    on_host::refuse_rollout(&prepared, doing)?;
    let ending = |ended: bool| if ended { ExitCode::SUCCESS } else { code(ErrorClass::Failed) };
    if state.stage == TrialStage::Reverted {
        let mut ended = true;
        // The database may have been out of reach when it ended.
        if !options.dry_run && on_host::require_owner("ending it in the database", &paths).is_ok() {
            ended = in_database::end(&on_host::database(&paths, global), &prepared);
        }
        let given_up: Vec<&str> = state.given_up.iter().map(ServiceName::as_str).collect();
        match given_up.as_slice() {
            _ if global.json => println!("{:#}", ended_json(name, &given_up)),
            [] => println!("trial {name} has ended and everything is as before"),
            _ => println!(
                "trial {name} has ended; what could be put back is as before, and given up, perhaps with the treatment, were {}",
                given_up.join(", ")
            ),
        }
        return Ok(ending(ended));
    }
    let changed = state.services.values().filter(|service| service.stage != Stage::Reverted).count();
    if options.dry_run {
        return dry_run(name, &state, options.revert, global);
    }
    on_host::require_owner("trial stop", &paths)?;
    if options.revert {
        on_host::refuse_taken_over(&paths, name)?;
    }
    let what = if options.revert {
        let written =
            |service: &&ServiceState| service.stage != Stage::Reverted && !service.changes.is_empty();
        let written = state.services.values().filter(written).count();
        format!("This puts back the files of {} and restarts them.", units::counted(written, "service"))
    } else {
        format!("This ends trial `{name}`; its {} keep what they run.", units::counted(changed, "service"))
    };
    on_host::confirm(&what, options.yes)?;
    let this = ThisHost::new(global.systemd()?);
    let action = if options.revert { Action::Revert } else { Action::Stop };
    let mut trial = Trial::open(this.host(), &paths, name, action)?;
    on_host::check_without(trial.prepared(), &options.without)?;
    let database = on_host::database(&paths, global);
    if !options.revert {
        trial.end()?;
        let ended = in_database::end(&database, trial.prepared());
        if global.json {
            println!("{:#}", ended_json(name, &[]));
            return Ok(ending(ended));
        }
        let text = format!(
            "trial {name} has ended; `heaptrial report {name}` writes its report, `heaptrial trial stop {name} --revert` puts everything back"
        );
        println!("{}", global.told(&text));
        return Ok(ending(ended));
    }
    let planned = trial.prepared().plan.pace;
    let pace = Pace {
        pause: options.pause.unwrap_or(planned.pause),
        at_once: options.at_once.unwrap_or(planned.at_once),
        ..planned
    };
    // What services do while they are put back is none of the trial's data.
    let mut teller = Teller::new(&database, trial.prepared(), changed);
    let ended = in_database::end(&database, trial.prepared());
    let interrupt = on_host::interrupt()?;
    let outcome = trial.revert(pace, &options.without, &mut teller, &|| on_host::interrupted(&interrupt))?;
    on_host::warn_of_unsampled(&database, global);
    if global.json {
        println!("{:#}", on_host::outcome_json(name, "revert", &outcome));
    } else if outcome.is_complete() {
        let files = if outcome.given_up.is_empty() { "every file is" } else { "the files of the others are" };
        println!(
            "trial {name}: {files} as before, and {} put back",
            if outcome.done == 1 {
                "1 service is".to_owned()
            } else {
                format!("{} services are", outcome.done)
            }
        );
    } else {
        println!(
            "trial {name}: {} as before, {} could not be put back, {} not reached; the same command goes on",
            units::counted(outcome.done, "service"),
            outcome.stuck.len(),
            outcome.remaining
        );
    }
    if !global.json {
        on_host::tell_stuck(&format!("heaptrial trial stop {name} --revert"), &outcome, global);
    }
    Ok(ending(outcome.is_complete() && ended))
}

/// One whose folder is gone is ended in the database, where nothing of it is in force.
fn without_folder(
    error: ChangeError,
    options: &StopOptions,
    paths: &Paths,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let name = options.trial.as_str();
    let found = Unfound::named(name, paths, global)?;
    if !found.as_ref().is_some_and(Unfound::is_only_recorded) {
        return Err(found.map_or(error.into(), |found| Failure::failed(found.to_string())));
    }
    if options.dry_run {
        if global.json {
            println!(
                "{:#}",
                json!({ "schema_version": 1, "trial": name, "dry_run": true, "would_put_back": {} })
            );
        } else {
            println!("would end trial {name} in the database; nothing was changed");
        }
        return Ok(ExitCode::SUCCESS);
    }
    on_host::require_owner("trial stop", paths)?;
    on_host::confirm(
        &format!(
            "The folder of trial `{name}` is gone and no file of it is in force; this ends it in the database."
        ),
        options.yes,
    )?;
    let ended = in_database::end_named(&on_host::database(paths, global), name);
    if global.json {
        println!("{:#}", ended_json(name, &[]));
    } else {
        println!("trial {name} has ended; its folder is gone, and no file of it is in force on this host");
    }
    Ok(if ended { ExitCode::SUCCESS } else { code(ErrorClass::Failed) })
}

fn ended_json(name: &str, given_up: &[&str]) -> Value {
    json!({ "schema_version": 1, "trial": name, "action": "stop", "complete": true, "given_up": given_up })
}

/// Puts right what a process that is gone left.
pub fn recover(options: &RecoverOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = global.paths()?;
    on_host::require_trusted(&paths)?;
    let this = ThisHost::new(global.systemd()?);
    let mut trial = match Trial::open(this.host(), &paths, options.trial.as_str(), Action::Recover) {
        // It is still there.
        Err(ChangeError::Lock(LockError::Held { .. })) => return Ok(ExitCode::SUCCESS),
        opened => opened?,
    };
    let database = on_host::database(&paths, global);
    let in_flight = trial.state().in_flight().len();
    let mut teller = Teller::new(&database, trial.prepared(), in_flight);
    let interrupt = on_host::interrupt()?;
    let outcome = trial.recover(&mut teller, &|| on_host::interrupted(&interrupt))?;
    Ok(if outcome.is_complete() { ExitCode::SUCCESS } else { code(ErrorClass::Failed) })
}

fn dry_run(
    name: &str,
    state: &heaptrial_change::TrialState,
    revert: bool,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    if !revert && !global.json {
        println!("would end trial {name}; its services keep what they run");
    }
    let changed = state.services.iter().filter(|(_, found)| revert && found.stage != Stage::Reverted);
    let changed: Vec<&ServiceName> = changed.map(|(service, _)| service).collect();
    on_host::tell_would_put_back(("trial", name), state, &changed, global);
    Ok(ExitCode::SUCCESS)
}
