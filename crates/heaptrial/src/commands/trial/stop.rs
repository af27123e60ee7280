//! `heaptrial trial stop`: ends a trial, and puts everything back if asked. Also what the recovery timer runs.

use clap::Args;
use heaptrial_change::edges::ThisHost;
use heaptrial_change::journal::Action;
use heaptrial_change::{ChangeError, Trial, TrialStage, TrialState, read_state};
use heaptrial_model::{ServiceName, units};
use serde_json::json;

use crate::answer::Answer;
use crate::commands::host::carry_out::{RevertOptions, SAME_COMMAND, changed, done, would_put_back};
use crate::commands::host::events::EventLog;
use crate::commands::host::{Consent, Host, NameOptions, interrupt, interrupted};
use crate::exit::Failure;
use crate::options::{GlobalOptions, command};

#[derive(Debug, Args)]
pub struct StopOptions {
    #[command(flatten)]
    trial: NameOptions,
    /// Put back every file as it was, and restart the services
    #[arg(long)]
    revert: bool,
    #[command(flatten)]
    how: RevertOptions,
    #[command(flatten)]
    consent: Consent,
}

pub fn stop(options: &StopOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    if !options.revert && options.how.is_given() {
        return Err(Failure::usage("--pause, --at-once and --without go with --revert"));
    }
    let host = Host::of(global)?;
    let name = options.trial.name.as_str();
    let state = read_state(&host.paths, name)?;
    let prepared = host.trial(name)?;
    if options.consent.dry_run {
        let services = if options.revert { changed(&state) } else { Vec::new() };
        return Ok(would_put_back("trial", name, &state, &services));
    }
    host.require_owner("trial stop")?;
    if state.stage == TrialStage::Reverted {
        // The database may have been out of reach when it ended.
        return Ok(ended(name, &state).unless(host.end_record(&prepared)));
    }
    let count = units::counted(changed(&state).len(), "service");
    if options.revert {
        host.require_latest(name)?;
        options.consent.ask(&format!("This puts back the files of {count} and restarts them."))?;
    } else {
        options.consent.ask(&format!("This ends trial `{name}`; its {count} keep what they run."))?;
    }
    let this = ThisHost::new(host.systemd()?);
    let action = if options.revert { Action::Revert } else { Action::Stop };
    let mut trial = Trial::open(this.host(), &host.paths, name, action)?;
    if !options.revert {
        trial.end()?;
        return Ok(ended(name, trial.state()).unless(host.end_record(&prepared)));
    }
    options.how.check(&prepared)?;
    let is_ended = host.end_record(&prepared);
    let outcome = host.revert(&mut trial, &options.how)?;
    let complete = format!("{} put back, as before the trial", units::counted(outcome.done, "service"));
    Ok(done(("trial", name), "revert", &outcome, &complete, SAME_COMMAND).unless(is_ended))
}

fn ended(name: &str, state: &TrialState) -> Answer {
    let given_up: Vec<&str> = state.given_up.iter().map(ServiceName::as_str).collect();
    let text = match state.stage {
        TrialStage::Reverted if given_up.is_empty() => {
            format!("trial {name} has ended and everything is as before\n")
        }
        TrialStage::Reverted => {
            format!("trial {name} has ended; everything is as before but for {}\n", given_up.join(", "))
        }
        _ => format!(
            "trial {name} has ended; {} writes its report, {} puts everything back\n",
            command(format_args!("report {name}")),
            command(format_args!("trial stop {name} --revert"))
        ),
    };
    Answer::new(json!({ "trial": name, "action": "stop", "complete": true, "given_up": given_up }), text)
}

/// Puts right what a process that is gone left.
pub fn recover(options: &NameOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::of(global)?;
    host.require_trusted()?;
    let name = options.name.as_str();
    let this = ThisHost::new(host.systemd()?);
    let mut trial = match Trial::open(this.host(), &host.paths, name, Action::Recover) {
        // It is still there.
        Err(ChangeError::Held { .. }) => return Ok(Answer::verbatim("")),
        opened => opened?,
    };
    trial.report_to(EventLog::new(&host.database, trial.prepared(), trial.state().in_flight().len()));
    let interrupt = interrupt()?;
    let outcome = trial.recover(&|| interrupted(&interrupt))?;
    let kind = trial.prepared().owner.kind.clone();
    let complete = "nothing is left in the middle";
    Ok(done((&kind, name), "recover", &outcome, complete, "the timer continues"))
}
