//! What one does with a trial: start, resume, revert, recover.

use std::collections::VecDeque;

use heaptrial_model::{Pace, ServiceName};

use crate::journal::{Event, RolloutStep};
use crate::run::{Halt, Outcome, Purpose, Run};
use crate::state::{Stage, TrialStage};
use crate::trial::{FieldError, Trial, Witness};

impl Trial<'_> {
    /// Gives every service its treatment, at the plan's pace; also continues a start that was cut short. Services that
    /// have theirs are left alone.
    pub fn start(&mut self, witness: &mut dyn Witness, halt: Halt<'_>) -> Result<Outcome, FieldError> {
        let name = &self.prepared.plan.name;
        let action = match self.state.stage {
            TrialStage::Planned => "start",
            TrialStage::Starting | TrialStage::Running => "resume",
            TrialStage::Reverting => {
                return Err(FieldError::Stage(format!(
                    "trial `{name}` is being reverted; `heaptrial trial stop {name} --revert` goes on with that"
                )));
            }
            TrialStage::Stopped | TrialStage::Reverted => {
                return Err(FieldError::Stage(format!("trial `{name}` has ended; plan a new one")));
            }
        };
        self.opened(action)?;
        self.install(witness)?;
        let queue = self.unless(Stage::Committed);
        let pace = self.prepared.plan.pace;
        let outcome = self.run(Purpose::Apply, pace, queue, witness, halt)?;
        if let Some(why) = why_not_all(&outcome) {
            self.note(Event::Interrupted { why }, witness);
        } else {
            self.record(Event::Started)?;
        }
        self.disarm_or_warn(witness);
        Ok(outcome)
    }

    /// Puts every service and every file of the host back, at `pace`.
    pub fn revert(
        &mut self,
        pace: Pace,
        witness: &mut dyn Witness,
        halt: Halt<'_>,
    ) -> Result<Outcome, FieldError> {
        // Neither a full disk nor a systemd that is not well is a reason to leave services as they are.
        self.note_opened("revert", witness);
        let changed = self.unless(Stage::Reverted);
        let queue: VecDeque<ServiceName> =
            changed.into_iter().filter(|service| self.state.services.contains_key(service)).collect();
        if !queue.is_empty() {
            if let Err(error) = self.arm(witness) {
                witness.warning(&format!("{error}; reverting without a timer that takes over"));
            }
        }
        let outcome = self.run(Purpose::Revert, pace, queue, witness, halt)?;
        if let Some(why) = why_not_all(&outcome) {
            self.note(Event::Interrupted { why }, witness);
            // What cannot be put back now is not tried again and again behind the operator's back.
            self.disarm_or_warn(witness);
        } else {
            self.undo_host_files(witness)?;
            self.note(Event::Ended { reverted: true }, witness);
        }
        Ok(outcome)
    }

    /// What the dead man's timer does: the process that changed services is gone. A revert is completed; of a start,
    /// the services that were being changed are put back and the others stay as they are.
    pub fn recover(&mut self, witness: &mut dyn Witness, halt: Halt<'_>) -> Result<Outcome, FieldError> {
        let pace = self.prepared.plan.pace;
        if self.state.stage == TrialStage::Reverting {
            return self.revert(pace, witness, halt);
        }
        self.note_opened("dead_man", witness);
        let queue: VecDeque<ServiceName> = self.state.in_flight().into();
        let outcome = self.run(Purpose::Revert, pace, queue, witness, halt)?;
        if self.state.stage == TrialStage::Starting {
            let why = "the process that started the trial ended before it was done".to_owned();
            self.note(Event::Interrupted { why }, witness);
        }
        self.disarm_or_warn(witness);
        Ok(outcome)
    }

    /// A run; one that fails in the middle is told in the journal, and what it left is for the dead man's timer.
    fn run(
        &mut self,
        purpose: Purpose,
        pace: Pace,
        queue: VecDeque<ServiceName>,
        witness: &mut dyn Witness,
        halt: Halt<'_>,
    ) -> Result<Outcome, FieldError> {
        let result = Run::new(self, purpose, pace, queue, witness, halt).go();
        if let Err(error) = &result {
            self.note(Event::Interrupted { why: error.to_string() }, witness);
        }
        result
    }

    fn note_opened(&mut self, action: &str, witness: &mut dyn Witness) {
        self.note(crate::trial::opened_event(action), witness);
    }

    fn disarm_or_warn(&mut self, witness: &mut dyn Witness) {
        if let Err(error) = self.disarm() {
            witness.warning(&format!(
                "{error}; the dead man's timer of the trial is still there and finds nothing to do"
            ));
        }
    }

    /// Begins or continues a rollout: installs what it brings. Services are changed by [`Self::apply_to`].
    pub fn open_rollout(&mut self, witness: &mut dyn Witness) -> Result<(), FieldError> {
        let name = &self.prepared.plan.name;
        let action = match self.state.stage {
            TrialStage::Planned => "start",
            TrialStage::Starting | TrialStage::Running | TrialStage::Stopped => "resume",
            TrialStage::Reverting => {
                return Err(FieldError::Stage(format!(
                    "rollout `{name}` is being rolled back; `heaptrial rollout rollback {name}` goes on with that"
                )));
            }
            TrialStage::Reverted => {
                return Err(FieldError::Stage(format!("rollout `{name}` was rolled back; start a new one")));
            }
        };
        self.opened(action)?;
        let installed = self.install(witness);
        self.disarm_or_warn(witness);
        installed
    }

    /// Gives these services their treatment; those that have theirs are left alone.
    pub fn apply_to(
        &mut self,
        services: &[ServiceName],
        pace: Pace,
        witness: &mut dyn Witness,
        halt: Halt<'_>,
    ) -> Result<Outcome, FieldError> {
        let open = |service: &&ServiceName| self.stage(service) != Some(Stage::Committed);
        let queue: VecDeque<ServiceName> = services.iter().filter(open).cloned().collect();
        self.arm(witness)?;
        let outcome = self.run(Purpose::Apply, pace, queue, witness, halt)?;
        self.disarm_or_warn(witness);
        Ok(outcome)
    }

    /// Puts these services back, those of them that were changed.
    pub fn put_back(
        &mut self,
        services: &[ServiceName],
        pace: Pace,
        witness: &mut dyn Witness,
        halt: Halt<'_>,
    ) -> Result<Outcome, FieldError> {
        let changed =
            |service: &&ServiceName| self.stage(service).is_some_and(|stage| stage != Stage::Reverted);
        let queue: VecDeque<ServiceName> = services.iter().filter(changed).cloned().collect();
        if queue.is_empty() {
            return Ok(Outcome::default());
        }
        if let Err(error) = self.arm(witness) {
            witness.warning(&format!("{error}; putting back without a timer that takes over"));
        }
        let outcome = self.run(Purpose::Revert, pace, queue, witness, halt)?;
        self.disarm_or_warn(witness);
        Ok(outcome)
    }

    /// Records how far the rollout has come.
    pub fn note_step(&mut self, step: RolloutStep) -> Result<(), FieldError> {
        self.record(Event::Rollout { step })
    }

    /// Records that every wave has passed.
    pub fn finish_rollout(&mut self) -> Result<(), FieldError> {
        self.record(Event::Started)?;
        self.record(Event::Ended { reverted: false })
    }

    /// Ends the trial; services keep what they run.
    pub fn end(&mut self) -> Result<(), FieldError> {
        if self.state.stage == TrialStage::Reverted {
            return Err(FieldError::Stage(format!("trial `{}` has ended", self.prepared.plan.name)));
        }
        let in_flight = self.state.in_flight();
        if !in_flight.is_empty() {
            let names: Vec<&str> = in_flight.iter().map(ServiceName::as_str).collect();
            return Err(FieldError::Stage(format!(
                "{} of trial `{name}` {are} neither started nor as before: `heaptrial trial resume {name}` or `heaptrial trial stop {name} --revert` first",
                names.join(", "),
                name = self.prepared.plan.name,
                are = if names.len() == 1 { "is" } else { "are" },
            )));
        }
        self.opened("stop")?;
        self.disarm()?;
        self.record(Event::Ended { reverted: false })
    }

    /// The services that do not stand at a stage, in the order of the plan.
    fn unless(&self, stage: Stage) -> VecDeque<ServiceName> {
        let services = self.prepared.services.iter().map(|treatment| &treatment.service);
        services.filter(|service| self.stage(service) != Some(stage)).cloned().collect()
    }
}

fn why_not_all(outcome: &Outcome) -> Option<String> {
    if outcome.is_complete() {
        return None;
    }
    Some(outcome.stopped.clone().unwrap_or_else(|| {
        let names: Vec<&str> =
            outcome.failed.iter().chain(&outcome.stuck).map(|(service, _)| service.as_str()).collect();
        format!("{} failed", names.join(", "))
    }))
}
