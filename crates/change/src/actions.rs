//! What one does with a transaction: start, resume, revert, recover, end; or parts of it, for whoever works in waves.

use std::collections::VecDeque;

use heaptrial_model::{Pace, ServiceName};

use crate::error::ChangeError;
use crate::journal::{Action, Event};
use crate::machine::{Outcome, Purpose};
use crate::prepared::Prepared;
use crate::run::Halt;
use crate::state::{Stage, TrialStage};
use crate::trial::{Trial, Witness};

impl Trial<'_> {
    /// Gives every service its treatment, at the plan's pace; also continues a start that was cut short. Services that
    /// have theirs are left alone.
    pub fn start(&mut self, witness: &mut dyn Witness, halt: Halt<'_>) -> Result<Outcome, ChangeError> {
        self.check_accounted()?;
        self.begin_or_resume(&[TrialStage::Stopped])?;
        self.install(witness)?;
        // A process that took services out may have been cut short.
        let half_out: Vec<ServiceName> =
            self.state.dropping.difference(&self.state.dropped).cloned().collect();
        for service in half_out {
            let outcome = self.put_out(&service, self.prepared.plan.pace, witness, halt)?;
            if let Some(why) = why_not_all(&outcome) {
                self.note_done(Event::Interrupted { why }, witness);
                return Ok(outcome);
            }
        }
        let (lost, drifted) = self.lost(witness);
        let mut queue = self.kept(self.unless(Stage::Committed));
        queue.extend(lost);
        let pace = self.prepared.plan.pace;
        let mut outcome = self.run(Purpose::Apply, pace, queue, witness, halt)?;
        outcome.drifted = drifted;
        if let Some(why) = why_not_all(&outcome) {
            self.note_done(Event::Interrupted { why }, witness);
        } else {
            self.record(Event::Started)?;
        }
        self.disarm_or_warn(witness);
        Ok(outcome)
    }

    /// Puts every service and every file of the host back, at `pace`. A service of `without` that cannot be put back is
    /// given up: it is left as it is, and the rest comes to its end.
    pub fn revert(
        &mut self,
        pace: Pace,
        without: &[ServiceName],
        witness: &mut dyn Witness,
        halt: Halt<'_>,
    ) -> Result<Outcome, ChangeError> {
        // Neither a full disk nor a systemd that is not well is a reason to leave services as they are.
        self.note_done(opened(Action::Revert), witness);
        let changed = self.unless(Stage::Reverted);
        let changed = changed.into_iter().filter(|service| self.state.services.contains_key(service));
        let queue = self.kept(changed.collect());
        if !queue.is_empty() {
            if let Err(error) = self.arm(witness) {
                witness.warning(&format!("{error}; reverting without a timer that takes over"));
            }
        }
        let mut outcome = self.run(Purpose::Revert, pace, queue, witness, halt)?;
        let (given_up, stuck) = outcome.stuck.into_iter().partition(|(service, _)| without.contains(service));
        (outcome.given_up, outcome.stuck) = (given_up, stuck);
        for (service, _) in &outcome.given_up {
            self.note_done(Event::Dropped { service: service.clone(), reverted: false }, witness);
        }
        let accounted = self.check_accounted();
        if let Err(error) = accounted {
            self.note_done(Event::Interrupted { why: error.to_string() }, witness);
            self.disarm_at_once(witness);
            return Err(error);
        }
        if let Some(why) = why_not_all(&outcome) {
            self.note_done(Event::Interrupted { why }, witness);
            // What cannot be put back now is not tried again and again behind the operator's back.
            self.disarm_at_once(witness);
        } else {
            self.undo_host_files(witness)?;
            self.note_done(Event::Ended { reverted: true }, witness);
        }
        Ok(outcome)
    }

    /// What the recovery timer does: the process that changed services is gone. A revert is completed; of a start,
    /// the services that were being changed are put back and the others stay as they are.
    pub fn recover(&mut self, witness: &mut dyn Witness, halt: Halt<'_>) -> Result<Outcome, ChangeError> {
        let pace = self.prepared.plan.pace;
        if self.state.stage == TrialStage::Reverting {
            return self.revert(pace, &[], witness, halt);
        }
        self.note_done(opened(Action::Recover), witness);
        let queue: VecDeque<ServiceName> = self.state.in_flight().into();
        let outcome = self.run(Purpose::Revert, pace, queue, witness, halt)?;
        if self.state.stage == TrialStage::Starting {
            let why = "the process that started the trial ended before it was done".to_owned();
            self.note_done(Event::Interrupted { why }, witness);
        }
        self.disarm_or_warn(witness);
        Ok(outcome)
    }

    /// A run; one that fails in the middle is told in the journal, and what it left is for the recovery timer.
    fn run(
        &mut self,
        purpose: Purpose,
        pace: Pace,
        queue: VecDeque<ServiceName>,
        witness: &mut dyn Witness,
        halt: Halt<'_>,
    ) -> Result<Outcome, ChangeError> {
        let result = self.carry_out(purpose, pace, queue, witness, halt);
        if let Err(error) = &result {
            self.note_done(Event::Interrupted { why: error.to_string() }, witness);
        }
        result
    }

    /// Records that this process begins or goes on; refused once it is being reverted, was reverted, or stands at one of
    /// `ended`.
    fn begin_or_resume(&mut self, ended: &[TrialStage]) -> Result<(), ChangeError> {
        let wanted = self.wanted(ended)?;
        self.record(opened(wanted))
    }

    fn wanted(&self, ended: &[TrialStage]) -> Result<Action, ChangeError> {
        let stage = self.state.stage;
        let wanted = if stage == TrialStage::Planned { Action::Start } else { Action::Resume };
        if matches!(stage, TrialStage::Reverting | TrialStage::Reverted) || ended.contains(&stage) {
            return Err(self.not_at(wanted));
        }
        Ok(wanted)
    }

    /// Refuses what [`Self::start`] would refuse because of how far it has come, before anything is recorded elsewhere.
    pub fn check_start(&self) -> Result<(), ChangeError> {
        self.wanted(&[TrialStage::Stopped]).map(drop)
    }

    pub fn check_open_for_parts(&self) -> Result<(), ChangeError> {
        self.wanted(&[]).map(drop)
    }

    fn not_at(&self, wanted: Action) -> ChangeError {
        ChangeError::Stage {
            kind: self.prepared.owner.kind.clone(),
            name: self.prepared.plan.name.clone(),
            wanted,
            stage: self.state.stage,
        }
    }

    /// Removes the recovery timer, unless it has something to do if this process ends here: services that an earlier
    /// process left in the middle, and that this one did not come to.
    fn disarm_or_warn(&mut self, witness: &mut dyn Witness) {
        let stuck = |service: &ServiceName| self.stage(service) == Some(Stage::RevertFailed);
        if self.state.in_flight().iter().all(stuck) {
            self.disarm_at_once(witness);
        }
    }

    fn disarm_at_once(&mut self, witness: &mut dyn Witness) {
        if let Err(error) = self.disarm() {
            witness.warning(&format!("{error}; its recovery timer is still there and finds nothing to do"));
        }
    }

    /// Begins or continues, without a service: installs what it brings. Services are changed by [`Self::apply_to`], also
    /// after an end.
    pub fn open_for_parts(&mut self, witness: &mut dyn Witness) -> Result<(), ChangeError> {
        self.check_accounted()?;
        self.begin_or_resume(&[])?;
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
    ) -> Result<Outcome, ChangeError> {
        let open = |service: &&ServiceName| self.stage(service) != Some(Stage::Committed);
        let queue = self.kept(services.iter().filter(open).cloned().collect());
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
    ) -> Result<Outcome, ChangeError> {
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

    /// Takes a service out: it is put back, and neither a resume nor a revert comes to it from here on.
    pub fn drop_service(
        &mut self,
        service: &ServiceName,
        pace: Pace,
        witness: &mut dyn Witness,
        halt: Halt<'_>,
    ) -> Result<Outcome, ChangeError> {
        self.check_drop(service)?;
        self.record(opened(Action::Drop))?;
        self.record(Event::Dropping { service: service.clone() })?;
        self.put_out(service, pace, witness, halt)
    }

    /// Puts back a service that is being taken out.
    fn put_out(
        &mut self,
        service: &ServiceName,
        pace: Pace,
        witness: &mut dyn Witness,
        halt: Halt<'_>,
    ) -> Result<Outcome, ChangeError> {
        let outcome = self.put_back(std::slice::from_ref(service), pace, witness, halt)?;
        if outcome.is_complete() {
            self.record(Event::Dropped { service: service.clone(), reverted: true })?;
        }
        Ok(outcome)
    }

    /// Refuses what [`Self::drop_service`] would refuse, before anything is recorded elsewhere.
    pub fn check_drop(&self, service: &ServiceName) -> Result<(), ChangeError> {
        if self.state.stage != TrialStage::Running {
            return Err(self.not_at(Action::Drop));
        }
        if self.treatment(service).is_none() || self.state.dropped.contains(service) {
            let (kind, name) = (self.prepared.owner.kind.clone(), self.prepared.plan.name.clone());
            return Err(ChangeError::NotOne { kind, name, service: service.clone() });
        }
        Ok(())
    }

    /// Services that have their treatment and lost a file of it, which is to be written again; and those of which somebody
    /// changed a file, with the difference.
    fn lost(&self, witness: &mut dyn Witness) -> (Vec<ServiceName>, Vec<(ServiceName, String)>) {
        let (mut lost, mut drifted) = (Vec::new(), Vec::new());
        let committed = self.state.services.iter().filter(|(_, found)| found.stage == Stage::Committed);
        for (service, _) in committed {
            match self.is_written(service) {
                Ok(true) => {}
                Ok(false) => {
                    witness.warning(&format!("a file of {service} is gone; it is written again"));
                    lost.push(service.clone());
                }
                Err(why) => {
                    witness.warning(&format!("{service}: {why}"));
                    drifted.push((service.clone(), why.to_string()));
                }
            }
        }
        (lost, drifted)
    }

    /// Those of some services that nobody took out.
    fn kept(&self, services: VecDeque<ServiceName>) -> VecDeque<ServiceName> {
        services.into_iter().filter(|service| !self.state.dropped.contains(service)).collect()
    }

    /// Records that every part is done, and ends it.
    pub fn finish(&mut self) -> Result<(), ChangeError> {
        self.record(Event::Started)?;
        self.record(Event::Ended { reverted: false })
    }

    /// Ends it; services keep what they run.
    pub fn end(&mut self) -> Result<(), ChangeError> {
        if self.state.stage == TrialStage::Reverted {
            return Err(self.not_at(Action::Stop));
        }
        let services = self.state.in_flight();
        if !services.is_empty() {
            let (kind, name) = (self.prepared.owner.kind.clone(), self.prepared.plan.name.clone());
            return Err(ChangeError::InFlight { kind, name, services });
        }
        self.record(opened(Action::Stop))?;
        self.disarm()?;
        self.record(Event::Ended { reverted: false })
    }

    /// The services that do not stand at a stage, in the order of the plan.
    fn unless(&self, stage: Stage) -> VecDeque<ServiceName> {
        let services = self.prepared.services.iter().map(|treatment| &treatment.service);
        services.filter(|service| self.stage(service) != Some(stage)).cloned().collect()
    }
}

fn opened(action: Action) -> Event {
    Event::Opened {
        schema_version: Prepared::VERSION,
        action,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
    }
}

fn why_not_all(outcome: &Outcome) -> Option<String> {
    if outcome.is_complete() {
        return None;
    }
    let names = |list: &[(ServiceName, String)]| -> String {
        list.iter().map(|(service, _)| service.as_str()).collect::<Vec<_>>().join(", ")
    };
    let failed = [outcome.failed.as_slice(), &outcome.stuck].concat();
    Some(outcome.stopped.clone().unwrap_or_else(|| match failed.as_slice() {
        [] => format!("somebody changed files of {}", names(&outcome.drifted)),
        failed => format!("{} failed", names(failed)),
    }))
}
