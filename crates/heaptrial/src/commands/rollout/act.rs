//! `heaptrial rollout pause`, `resume` and `rollback`.

use std::time::Duration;

use clap::Args;
use heaptrial_change::edges::ThisHost;
use heaptrial_change::journal::Action;
use heaptrial_change::{Outcome, Trial, TrialStage, TrialState, read_prepared, read_state};
use heaptrial_fleet::rollout::{Progress, Rollout, RolloutPlan, pause as mark, read_plan};
use heaptrial_model::{ServiceName, units};
use serde_json::json;

use super::observe::Watcher;
use super::run;
use super::start::record;
use crate::answer::Answer;
use crate::commands::host::carry_out::{RevertOptions, SAME_COMMAND, done, would_put_back};
use crate::commands::host::events::EventLog;
use crate::commands::host::record::is_over;
use crate::commands::host::{Consent, Host, NameOptions, interrupt};
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Beside the services that it restarts: a process that works on a rollout sees within this time that it is to pause.
const SEES_A_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub struct ResumeOptions {
    #[command(flatten)]
    rollout: NameOptions,
    /// Return once it continues: a transient unit of systemd carries it out, and no terminal has to stay
    #[arg(long)]
    detach: bool,
}

#[derive(Debug, Args)]
pub struct RollbackOptions {
    #[command(flatten)]
    rollout: NameOptions,
    /// Only the services of this wave, counted from 1
    #[arg(long, value_name = "N", conflicts_with = "without", value_parser = clap::value_parser!(u32).range(1..))]
    wave: Option<u32>,
    #[command(flatten)]
    how: RevertOptions,
    #[command(flatten)]
    consent: Consent,
}

/// Asks the process that works on a rollout to pause.
pub fn pause(options: &NameOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::of(global)?;
    host.require_owner("rollout pause")?;
    let name = options.name.as_str();
    plan_of(&host, name)?;
    if is_over(&read_state(&host.paths, name)?) {
        return Err(Failure::refused(format!("rollout `{name}` is over; there is nothing to pause")));
    }
    mark(&host.paths, name, true).map_err(Failure::failed)?;
    let at_work = host.is_at_work(name);
    let how = match at_work {
        true => "pausing; what is being restarted is still brought to a known state",
        false => "paused (no process works on it)",
    };
    let text = format!("rollout {name}: {how}. `heaptrial rollout resume {name}` continues\n");
    Ok(Answer::new(json!({ "rollout": name, "paused": true, "process_at_work": at_work }), text))
}

pub fn resume(options: &ResumeOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::of(global)?;
    host.require_owner("rollout resume")?;
    let name = options.rollout.name.as_str();
    let plan = plan_of(&host, name)?;
    host.require_latest(name)?;
    let state = read_state(&host.paths, name)?;
    if is_complete(&state, &plan)? {
        let why = "complete; nothing to do";
        let document = json!({ "rollout": name, "nothing_to_do": why });
        return Ok(Answer::new(document, format!("rollout {name}: {why}\n")));
    }
    let this = ThisHost::new(host.systemd()?);
    let mut trial = Trial::open(this.host(), &host.paths, name, Action::Resume)?;
    trial.check_open_for_parts()?;
    host.require_recorded(trial.prepared(), trial.state())?;
    record(&host, trial.prepared(), &[], "resume")?;
    mark(&host.paths, name, false).map_err(Failure::failed)?;
    if options.detach {
        // The unit takes the lock.
        drop(trial);
        return run::detach(&host, name);
    }
    run::carry_out(&host, &mut trial, plan)
}

/// Whether every wave has passed and every service has its treatment.
fn is_complete(state: &TrialState, plan: &RolloutPlan) -> Result<bool, Failure> {
    let passed = Progress::of(state, plan.waves.len())?.current().is_none();
    Ok(is_over(state) && passed && plan.waves.iter().flatten().all(|service| state.is_committed(service)))
}

pub fn rollback(options: &RollbackOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::of(global)?;
    let name = options.rollout.name.as_str();
    let prepared = read_prepared(&host.paths, name)?;
    let plan = read_plan(&prepared)?;
    let wanted = services_of(&plan, options.wave)?;
    let state = read_state(&host.paths, name)?;
    let changed: Vec<&ServiceName> = wanted.iter().filter(|service| state.is_changed(service)).collect();
    if options.consent.dry_run {
        return Ok(would_put_back("rollout", name, &state, &changed));
    }
    host.require_owner("rollout rollback")?;
    if state.stage == TrialStage::Reverted {
        let text = format!("rollout {name} was rolled back and everything is as before\n");
        // The database may have been out of reach when it ended.
        return Ok(
            Answer::new(json!({ "rollout": name, "done": 0 }), text).unless(host.end_record(&prepared))
        );
    }
    host.require_latest(name)?;
    let count = units::counted(changed.len(), "service");
    options.consent.ask(&format!("This puts back the files of {count} and restarts them."))?;
    // A process that works on it would continue with the next wave; what it is restarting it brings to a known state first.
    mark(&host.paths, name, true).map_err(Failure::failed)?;
    if host.is_at_work(name) {
        eprintln!("waiting until the process that works on rollout {name} has seen that it is to pause");
    }
    let planned = prepared.plan.pace;
    let patience = planned.health_timeout.0 + planned.settle.0 + SEES_A_PAUSE;
    let this = ThisHost::new(host.systemd()?);
    let mut trial = Trial::open_after(this.host(), &host.paths, name, Action::Revert, patience)?;
    for watch in heaptrial_fleet::watch::watches_of(&host.paths.state, changed.iter().copied()) {
        eprintln!(
            "the watch after `{watch}` will report that this was put back; `heaptrial watch stop {watch}` ends it"
        );
    }
    let mut is_ended = true;
    let outcome = match options.wave {
        None => {
            is_ended = host.end_record(&prepared);
            host.revert(&mut trial, &options.how)?
        }
        Some(wave) => {
            let stuck = one_wave(&host, &mut trial, plan, wave as usize - 1, &options.how)?;
            let left = wanted.iter().filter(|service| trial.state().is_changed(service)).count();
            Outcome { done: changed.len() - left, remaining: left - stuck.len(), stuck, ..Outcome::default() }
        }
    };
    let complete = format!("{} as before the rollout", units::counted(outcome.done, "service"));
    Ok(done(("rollout", name), "revert", &outcome, &complete, SAME_COMMAND).unless(is_ended))
}

fn one_wave(
    host: &Host<'_>,
    trial: &mut Trial<'_>,
    plan: RolloutPlan,
    wave: usize,
    how: &RevertOptions,
) -> Result<Vec<(ServiceName, String)>, Failure> {
    let pace = how.pace(trial.prepared().plan.pace);
    trial.report_to(EventLog::new(&host.database, trial.prepared(), plan.waves[wave].len()));
    let mut watcher = Watcher::new(Default::default(), trial.prepared(), &[]);
    let interrupt = interrupt()?;
    let mut rollout = Rollout::new(trial, plan, host.paths.clone(), &mut watcher, &interrupt);
    Ok(rollout.roll_back_wave(wave, pace)?)
}

fn plan_of(host: &Host<'_>, name: &str) -> Result<RolloutPlan, Failure> {
    Ok(read_plan(&read_prepared(&host.paths, name)?)?)
}

fn services_of(plan: &RolloutPlan, wave: Option<u32>) -> Result<Vec<ServiceName>, Failure> {
    match wave {
        None => Ok(plan.waves.concat()),
        Some(number) => plan.waves.get(number as usize - 1).cloned().ok_or_else(|| {
            Failure::usage(format!("there is no wave {number}; the rollout has {}", plan.waves.len()))
        }),
    }
}
