//! Changing services of this host: how a run is begun, and what is printed of its end.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use heaptrial_change::{Outcome, Prepared, Trial, TrialState};
use heaptrial_model::{HumanDuration, Pace, ServiceName, units};
use serde_json::json;

use super::events::EventLog;
use super::{Host, interrupt, interrupted};
use crate::answer::Answer;
use crate::exit::Failure;
use crate::output::with_reasons;

#[derive(Debug, Args)]
pub struct RevertOptions {
    /// From one service's restart to the next one's, instead of the plan's
    #[arg(long, value_name = "DURATION")]
    pub pause: Option<HumanDuration>,
    /// Services that are being restarted at any time, instead of the plan's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub at_once: Option<u32>,
    /// Give this service up where it cannot be put back, as when its unit was removed or masked: it is left as it is, and
    /// the rest is reverted to the end (several times, or with commas)
    #[arg(long, value_name = "SERVICE", value_parser = ServiceName::of_unit, value_delimiter = ',')]
    pub without: Vec<ServiceName>,
}

impl RevertOptions {
    pub fn is_given(&self) -> bool {
        self.pause.is_some() || self.at_once.is_some() || !self.without.is_empty()
    }

    pub fn pace(&self, planned: Pace) -> Pace {
        Pace {
            pause: self.pause.unwrap_or(planned.pause),
            at_once: self.at_once.unwrap_or(planned.at_once),
            ..planned
        }
    }

    /// Refuses to give up what is no service of it.
    pub fn check(&self, prepared: &Prepared) -> Result<(), Failure> {
        let is_unknown = |name: &&ServiceName| prepared.services.iter().all(|own| own.service != **name);
        match self.without.iter().find(is_unknown) {
            None => Ok(()),
            Some(service) => {
                let name = &prepared.plan.name;
                Err(Failure::refused(format!(
                    "--without {service}: `{name}` has no such service; nothing was changed"
                )))
            }
        }
    }
}

/// Services that a transaction has changed and not put back.
pub fn changed(state: &TrialState) -> Vec<&ServiceName> {
    state.services.keys().filter(|service| state.is_changed(service)).collect()
}

impl Host<'_> {
    /// Puts back everything that a trial or a rollout changed. It has ended in the database before: what services do while
    /// they are put back is none of its data.
    pub fn revert(&self, trial: &mut Trial<'_>, options: &RevertOptions) -> Result<Outcome, Failure> {
        options.check(trial.prepared())?;
        let pace = options.pace(trial.prepared().plan.pace);
        trial.report_to(EventLog::new(&self.database, trial.prepared(), changed(trial.state()).len()));
        let interrupt = interrupt()?;
        Ok(trial.revert(pace, &options.without, &|| interrupted(&interrupt))?)
    }
}

/// Continues or undoes what was not finished, unless something else does.
pub const SAME_COMMAND: &str = "the same command continues";

/// What was done with the services of a trial or a rollout: `complete` is true of so many when the run is complete, and `next`
/// continues or undoes it.
pub fn done(
    (kind, name): (&str, &str),
    action: &str,
    outcome: &Outcome,
    complete: &str,
    next: &str,
) -> Answer {
    let document = json!({
        kind: name,
        "action": action,
        "done": outcome.done,
        "failed": with_reasons(&outcome.failed),
        "given_up": with_reasons(&outcome.given_up),
        "not_put_back": with_reasons(&outcome.stuck),
        "remaining": outcome.remaining,
        "stopped": outcome.stopped,
    });
    let mut text = match outcome.is_complete() {
        true => format!("{kind} {name}: {complete}\n"),
        false => format!("{kind} {name}: {}\n", incomplete(outcome)),
    };
    for (service, why) in &outcome.given_up {
        text += &format!("{service} was given up ({why}); it may still run the treatment\n");
    }
    if !outcome.is_complete() {
        text += &format!("{next}\n");
    }
    if let ("revert", [(service, _), ..]) = (action, outcome.stuck.as_slice()) {
        text += &format!("--without {service} gives a service up and leaves it as it is\n");
    }
    Answer::new(document, text).unless(outcome.is_complete())
}

fn incomplete(outcome: &Outcome) -> String {
    let counts = [
        (outcome.failed.len(), "failed"),
        (outcome.stuck.len(), "could not be put back"),
        (outcome.remaining, "were not reached"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: String = counts.map(|(count, how)| format!(", {count} {how}")).collect();
    let why = outcome.stopped.as_ref().map_or(String::new(), |why| format!("; stopped: {why}"));
    format!("{} done{counts}{why}", units::counted(outcome.done, "service"))
}

/// What putting these services back would change.
pub fn would_put_back(kind: &str, name: &str, state: &TrialState, services: &[&ServiceName]) -> Answer {
    let files =
        |service: &ServiceName| state.services[service].changes.iter().map(|change| change.path.as_path());
    let put_back: BTreeMap<&ServiceName, Vec<&Path>> =
        services.iter().map(|service| (*service, files(service).collect())).collect();
    let mut text = String::new();
    for (service, files) in &put_back {
        text += &format!("would put back {service}\n");
        files.iter().for_each(|file| text += &format!("  {}\n", file.display()));
    }
    text += "nothing was changed\n";
    Answer::new(json!({ kind: name, "dry_run": true, "would_put_back": put_back }), text)
}
