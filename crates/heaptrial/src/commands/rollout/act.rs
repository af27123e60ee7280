//! `heaptrial rollout pause`, `resume` and `rollback`.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use heaptrial_change::edges::ThisHost;
use heaptrial_change::journal::Action;
use heaptrial_change::{Stage, Trial, TrialStage, changed_files, read_prepared, read_state};
use heaptrial_fleet::rollout::{Progress, Rollout, RolloutPlan, pause as mark, read_plan};
use heaptrial_host::Paths;
use heaptrial_model::{ErrorClass, HumanDuration, Pace, ServiceName, TrialName, units};
use serde_json::json;

use super::carry_out::carry_out;
use super::detach;
use super::observe::Watcher;
use super::start::record;
use crate::commands::trial::in_database::{self, refuse_unrecorded};
use crate::commands::trial::on_host::{self, Teller, refuse_taken_over};
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;

/// Beside the services that it restarts: a process that works on a rollout sees within this time that it is to pause.
const SEES_A_PAUSE: Duration = Duration::from_secs(30);

/// Which rollout.
#[derive(Debug, Args)]
pub struct NameOptions {
    /// The rollout's name
    #[arg(value_name = "NAME")]
    rollout: TrialName,
}

/// Which rollout goes on.
#[derive(Debug, Args)]
pub struct ResumeOptions {
    /// The rollout's name
    #[arg(value_name = "NAME")]
    rollout: TrialName,
    /// Return once it goes on: a transient unit of systemd carries it out, and no terminal has to stay
    #[arg(long)]
    detach: bool,
    /// What a unit of systemd runs for a start or a resume: a pause that was asked for since then holds
    #[arg(long, hide = true, conflicts_with = "detach")]
    in_unit: bool,
}

/// Which rollout, and how much of it.
#[derive(Debug, Args)]
pub struct RollbackOptions {
    /// The rollout's name
    #[arg(value_name = "NAME")]
    rollout: TrialName,
    /// Only the services of this wave, counted from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    wave: Option<u32>,
    /// From one service's restart to the next one's, instead of the rollout's own
    #[arg(long, value_name = "DURATION")]
    pause: Option<HumanDuration>,
    /// Services that are being restarted at any time, instead of the rollout's own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    at_once: Option<u32>,
    /// Give this service up where it cannot be put back, as when its unit was removed or masked (several times, or with
    /// commas)
    #[arg(long, value_name = "SERVICE", conflicts_with = "wave", value_parser = ServiceName::of_unit, value_delimiter = ',')]
    without: Vec<ServiceName>,
    /// Roll back without asking
    #[arg(long)]
    yes: bool,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Asks the process that works on a rollout to pause.
pub fn pause(options: &NameOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    on_host::require_root("rollout pause")?;
    let paths = Paths::default();
    let name = options.rollout.as_str();
    plan_of(&paths, name)?;
    let state = read_state(&paths, name)?;
    if matches!(state.stage, TrialStage::Stopped | TrialStage::Reverted) {
        return Err(Failure::refused(format!("rollout `{name}` is over; there is nothing to pause")));
    }
    mark(&paths, name, true).map_err(Failure::failed)?;
    let at_work = on_host::is_at_work(&paths, name);
    if global.json {
        println!(
            "{:#}",
            json!({ "schema_version": 1, "rollout": name, "paused": true, "process_at_work": at_work })
        );
    } else if at_work {
        println!(
            "rollout {name}: pausing; what is being restarted is still brought to a known state. `heaptrial rollout resume {name}` goes on"
        );
    } else {
        println!(
            "rollout {name}: paused (no process works on it); `heaptrial rollout resume {name}` goes on"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Goes on with a rollout.
pub fn resume(options: &ResumeOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    on_host::require_root("rollout resume")?;
    let paths = Paths::default();
    let plan = plan_of(&paths, options.rollout.as_str())?;
    refuse_taken_over(&paths, options.rollout.as_str())?;
    if let Some(code) = nothing_to_do(&paths, options.rollout.as_str(), &plan, global)? {
        return Ok(code);
    }
    let database = on_host::database(&paths, global);
    if options.detach {
        return detach::carry_out(options.rollout.as_str(), &paths, &database, global);
    }
    let this = ThisHost::new(global.systemd()?);
    let mut trial = Trial::open(this.host(), &paths, options.rollout.as_str(), Action::Resume)?;
    trial.check_open_for_parts()?;
    refuse_unrecorded(&database, trial.prepared(), trial.state())?;
    record(&database, trial.prepared(), &[], "resume")?;
    if !options.in_unit {
        mark(&paths, options.rollout.as_str(), false).map_err(Failure::failed)?;
    }
    carry_out(&mut trial, plan, &paths, &database, global)
}

fn tell_nothing_to_do(name: &str, why: &str, global: &GlobalOptions) {
    if global.json {
        println!("{:#}", json!({ "schema_version": 1, "rollout": name, "nothing_to_do": why }));
    } else {
        println!("rollout {name}: {why}");
    }
}

/// Of a rollout of which every wave has passed: says so, or which services have lost their treatment since.
fn nothing_to_do(
    paths: &Paths,
    name: &str,
    plan: &RolloutPlan,
    global: &GlobalOptions,
) -> Result<Option<ExitCode>, Failure> {
    let state = read_state(paths, name)?;
    let passed = Progress::of(&state, plan.waves.len())?.current().is_none();
    let all = plan
        .waves
        .iter()
        .flatten()
        .all(|service| state.services.get(service).is_some_and(|found| found.stage == Stage::Committed));
    if state.stage != TrialStage::Stopped || !passed || !all {
        return Ok(None);
    }
    let lost = changed_files(&state);
    if lost.is_empty() {
        tell_nothing_to_do(name, "complete, and every file is as it wrote it; nothing to do", global);
        return Ok(Some(ExitCode::SUCCESS));
    }
    let files: Vec<String> =
        lost.iter().map(|(service, path)| format!("{service} ({})", path.display())).collect();
    Err(Failure::refused(format!(
        "rollout `{name}` is complete, and somebody changed its files since: {}. Put them back, or start a new rollout, which brings the treatment to services that do not run it: `heaptrial rollout start {} --arm {}`",
        files.join(", "),
        plan.trial.as_deref().unwrap_or("TRIAL"),
        plan.arm
    )))
}

pub fn rollback(options: &RollbackOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = Paths::default();
    let name = options.rollout.as_str();
    let prepared = read_prepared(&paths, name)?;
    let plan = read_plan(&prepared).map_err(Failure::refused)?;
    let wanted = services_of(&plan, options.wave)?;
    let state = read_state(&paths, name)?;
    let mut ended = true;
    if state.stage == TrialStage::Reverted {
        // The database may have been out of reach when it ended.
        if !options.dry_run && on_host::require_root("ending it in the database").is_ok() {
            ended = in_database::end(&on_host::database(&paths, global), &prepared);
        }
        let given_up: Vec<&str> = state.given_up.iter().map(ServiceName::as_str).collect();
        match given_up.as_slice() {
            _ if global.json => println!("{:#}", put_back_json(name, 0, &[], 0, &given_up)),
            [] => println!("rollout {name} was rolled back and everything is as before"),
            _ => {
                println!("rollout {name} was rolled back but for what was given up: {}", given_up.join(", "))
            }
        }
        return Ok(if ended { ExitCode::SUCCESS } else { code(ErrorClass::Failed) });
    }
    let changed: Vec<&ServiceName> = wanted
        .iter()
        .filter(|service| state.services.get(*service).is_some_and(|found| found.stage != Stage::Reverted))
        .collect();
    if options.dry_run {
        on_host::tell_would_put_back(("rollout", name), &state, &changed, global);
        return Ok(ExitCode::SUCCESS);
    }
    on_host::require_root("rollout rollback")?;
    refuse_taken_over(&paths, name)?;
    on_host::confirm(
        &format!(
            "This puts back the files of {} and restarts them.",
            units::counted(changed.len(), "service")
        ),
        options.yes,
    )?;
    let this = ThisHost::new(global.systemd()?);
    on_host::check_without(&prepared, &options.without)?;
    let planned = prepared.plan.pace;
    // A process that works on it would go on with the next wave; what it is restarting it brings to a known state first.
    mark(&paths, name, true).map_err(Failure::failed)?;
    if on_host::is_at_work(&paths, name) {
        eprintln!("waiting until the process that works on rollout {name} has seen that it is to pause");
    }
    let patience = planned.health_timeout.0 + planned.settle.0 + SEES_A_PAUSE;
    let mut trial = Trial::open_after(this.host(), &paths, name, Action::Revert, patience)?;
    let pace = Pace {
        pause: options.pause.unwrap_or(planned.pause),
        at_once: options.at_once.unwrap_or(planned.at_once),
        ..planned
    };
    for watch in heaptrial_fleet::watch::watches_of(&paths.state, changed.iter().copied()) {
        eprintln!(
            "the watch after `{watch}` will report that this was put back; `heaptrial watch stop {watch}` ends it"
        );
    }
    let database = on_host::database(&paths, global);
    let mut teller = Teller::new(&database, &prepared, changed.len());
    let interrupt = on_host::interrupt()?;
    let (done, stuck, remaining) = match options.wave {
        None => {
            ended = in_database::end(&database, &prepared);
            let halt = || on_host::interrupted(&interrupt);
            let outcome = trial.revert(pace, &options.without, &mut teller, &halt)?;
            on_host::warn_of_unsampled(&database, global);
            if !global.json {
                on_host::tell_stuck(&format!("heaptrial rollout rollback {name}"), &outcome, global);
            }
            (outcome.done, outcome.stuck, outcome.remaining)
        }
        Some(wave) => {
            let stuck =
                one_wave(&mut trial, plan, &paths, (wave as usize - 1, pace), &mut teller, &interrupt)?;
            let left = wanted.iter().filter(|service| {
                trial.state().services.get(*service).is_some_and(|found| found.stage != Stage::Reverted)
            });
            let left = left.count();
            (changed.len() - left, stuck.clone(), left - stuck.len())
        }
    };
    if global.json {
        println!("{:#}", put_back_json(name, done, &stuck, remaining, &[]));
    } else if stuck.is_empty() && remaining == 0 {
        println!("rollout {name}: {} as before the rollout", units::counted(done, "service"));
    } else {
        println!(
            "rollout {name}: {} as before, {} could not be put back, {remaining} not reached; the same command goes on",
            units::counted(done, "service"),
            stuck.len()
        );
    }
    let well = stuck.is_empty() && remaining == 0 && ended;
    Ok(if well { ExitCode::SUCCESS } else { code(ErrorClass::Failed) })
}

fn put_back_json(
    name: &str,
    done: usize,
    stuck: &[(ServiceName, String)],
    remaining: usize,
    given_up: &[&str],
) -> serde_json::Value {
    let stuck: Vec<_> =
        stuck.iter().map(|(service, why)| json!({ "service": service, "why": why })).collect();
    json!({
        "schema_version": 1,
        "rollout": name,
        "put_back": done,
        "not_put_back": stuck,
        "remaining": remaining,
        "given_up": given_up,
    })
}

fn one_wave(
    trial: &mut Trial<'_>,
    plan: RolloutPlan,
    paths: &Paths,
    (wave, pace): (usize, Pace),
    teller: &mut Teller,
    interrupt: &AtomicBool,
) -> Result<Vec<(ServiceName, String)>, Failure> {
    let mut watcher = Watcher::new(Default::default(), trial.prepared(), &[]);
    let mut rollout = Rollout::new(trial, plan, paths.clone(), &mut watcher, teller, interrupt);
    Ok(rollout.roll_back_wave(wave, pace)?)
}

fn plan_of(paths: &Paths, name: &str) -> Result<RolloutPlan, Failure> {
    let prepared = read_prepared(paths, name)?;
    read_plan(&prepared).map_err(Failure::refused)
}

fn services_of(plan: &RolloutPlan, wave: Option<u32>) -> Result<Vec<ServiceName>, Failure> {
    match wave {
        None => Ok(plan.waves.concat()),
        Some(number) => plan.waves.get(number as usize - 1).cloned().ok_or_else(|| {
            Failure::usage(format!("there is no wave {number}; the rollout has {}", plan.waves.len()))
        }),
    }
}
