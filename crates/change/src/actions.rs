//! What one does with a transaction: start, revert, recover, end; or parts of it, for whoever works in waves.

use heaptrial_model::{Pace, ServiceName};

use crate::error::ChangeError;
use crate::journal::{Action, Event};
use crate::run::{Halt, Outcome, Purpose};
use crate::state::{Stage, TrialStage};
use crate::trial::Trial;

impl Trial<'_> {
    /// Gives every service its treatment; also continues a start that was cut short. Services that have theirs are left
    /// alone, unless their files are no longer as they were written.
    pub fn start(&mut self, halt: Halt<'_>) -> Result<Outcome, ChangeError> {
        self.check_start()?;
        self.begin_or_resume()?;
        self.arm()?;
        let services: Vec<ServiceName> = self.prepared.names().cloned().collect();
        let outcome = self.apply(&services, halt)?;
        if outcome.is_complete() {
            self.record(Event::Ended { stage: TrialStage::Running, why: None })?;
        } else {
            self.interrupted(&outcome);
        }
        self.rest();
        Ok(outcome)
    }

    /// Puts every service and every file of the host back, at `pace`. A service of `without` that cannot be put back is
    /// given up: it is left as it is, and the rest comes to its end.
    pub fn revert(
        &mut self,
        pace: Pace,
        without: &[ServiceName],
        halt: Halt<'_>,
    ) -> Result<Outcome, ChangeError> {
        // Neither a full disk nor a systemd that is not well is a reason to leave services as they are.
        self.note_done(opened(Action::Revert));
        let services: Vec<ServiceName> = self.prepared.names().cloned().collect();
        let mut outcome = self.run_back(&services, pace, halt)?;
        let (given_up, stuck) = outcome.stuck.into_iter().partition(|(service, _)| without.contains(service));
        (outcome.given_up, outcome.stuck) = (given_up, stuck);
        for (service, _) in &outcome.given_up {
            self.note_done(Event::Dropped { service: service.clone(), given_up: true });
        }
        if let Err(error) = self.check_accounted() {
            self.cut_short(error.to_string());
            self.disarm_at_once();
            return Err(error);
        }
        if outcome.is_complete() {
            self.undo_host_files()?;
            self.note_done(Event::Ended { stage: TrialStage::Reverted, why: None });
        } else {
            self.interrupted(&outcome);
            // What cannot be put back now is not tried again and again behind the operator's back.
            self.disarm_at_once();
        }
        Ok(outcome)
    }

    /// What the recovery timer does: the process that changed services is gone. A revert is completed; of a start,
    /// the services that were being changed are put back and the others stay as they are.
    pub fn recover(&mut self, halt: Halt<'_>) -> Result<Outcome, ChangeError> {
        let pace = self.prepared.plan.pace;
        if self.state.stage == TrialStage::Reverting {
            return self.revert(pace, &[], halt);
        }
        self.note_done(opened(Action::Recover));
        let outcome = self.run(Purpose::Revert, pace, self.state.in_flight(), halt)?;
        if self.state.stage == TrialStage::Starting {
            let why = "the process that started the trial ended before it was done";
            self.cut_short(why.to_owned());
        }
        self.rest();
        Ok(outcome)
    }

    /// Puts back those of some services that an earlier process left in the middle, that were taken out, or whose files are no
    /// longer as they were written; then gives all that lack their treatment theirs.
    fn apply(&mut self, services: &[ServiceName], halt: Halt<'_>) -> Result<Outcome, ChangeError> {
        let pace = self.prepared.plan.pace;
        let in_flight = self.state.in_flight();
        let is_out_or_lost = |service: &ServiceName| {
            let is_written = || self.is_written(service).is_ok_and(|written| written);
            self.state.is_committed(service) && (self.state.dropped.contains(service) || !is_written())
        };
        let first = services.iter().filter(|service| in_flight.contains(service) || is_out_or_lost(service));
        let first: Vec<ServiceName> = first.cloned().collect();
        let put_back = self.run(Purpose::Revert, pace, first, halt)?;
        if put_back.stopped.is_some() {
            return Ok(put_back);
        }
        let lacks = |service: &&ServiceName| {
            !self.state.is_changed(service) && !self.state.dropped.contains(*service)
        };
        let queue = services.iter().filter(lacks).cloned().collect();
        let mut outcome = self.run(Purpose::Apply, pace, queue, halt)?;
        outcome.stuck.extend(put_back.stuck);
        Ok(outcome)
    }

    /// Puts back those of these services that were changed, with a timer that takes over where one can be had.
    fn run_back(
        &mut self,
        services: &[ServiceName],
        pace: Pace,
        halt: Halt<'_>,
    ) -> Result<Outcome, ChangeError> {
        let queue = services.iter().filter(|service| self.state.is_to_revert(service));
        let queue: Vec<ServiceName> = queue.cloned().collect();
        if !queue.is_empty() {
            if let Err(error) = self.arm() {
                self.warn(&format!("{error}; putting back without a timer that takes over"));
            }
        }
        self.run(Purpose::Revert, pace, queue, halt)
    }

    /// Refuses what [`Self::start`] would refuse because of how far it has come, before anything is recorded elsewhere.
    pub fn check_start(&self) -> Result<(), ChangeError> {
        match self.state.stage {
            TrialStage::Stopped => Err(self.not_now()),
            _ => self.check_open_for_parts(),
        }
    }

    /// Like [`Self::check_start`], for [`Self::open_for_parts`]: also one that has ended is gone on with.
    pub fn check_open_for_parts(&self) -> Result<(), ChangeError> {
        match self.state.stage {
            TrialStage::Reverting | TrialStage::Reverted => Err(self.not_now()),
            _ => Ok(()),
        }
    }

    /// Records that this process begins or goes on, and installs what the transaction brings.
    fn begin_or_resume(&mut self) -> Result<(), ChangeError> {
        self.check_accounted()?;
        let is_new = self.state.stage == TrialStage::Planned;
        self.record(opened(if is_new { Action::Start } else { Action::Resume }))?;
        self.install()
    }

    fn not_now(&self) -> ChangeError {
        let (kind, name) = (self.prepared.owner.kind.clone(), self.prepared.plan.name.clone());
        ChangeError::Stage { kind, name, stage: self.state.stage }
    }

    /// Nothing is changed for a while: removes the recovery timer, unless it has something to do if this process ends here,
    /// services that an earlier process left in the middle and that this one did not come to.
    pub fn rest(&mut self) {
        let stuck = |service: &ServiceName| self.state.stage_of(service) == Some(Stage::RevertFailed);
        if self.state.in_flight().iter().all(stuck) {
            self.disarm_at_once();
        }
    }

    fn disarm_at_once(&mut self) {
        if let Err(error) = self.disarm() {
            self.warn(&format!("{error}; its recovery timer is still there and finds nothing to do"));
        }
    }

    /// Begins or continues, without a service: installs what it brings. [`Self::apply_to`] changes services.
    pub fn open_for_parts(&mut self) -> Result<(), ChangeError> {
        self.check_open_for_parts()?;
        self.begin_or_resume()
    }

    /// Gives these services their treatment; those that have theirs are left alone. A timer takes over if this process ends,
    /// until [`Self::rest`].
    pub fn apply_to(&mut self, services: &[ServiceName], halt: Halt<'_>) -> Result<Outcome, ChangeError> {
        self.arm()?;
        self.apply(services, halt)
    }

    /// Puts these services back, those of them that were changed; with the same timer.
    pub fn put_back(
        &mut self,
        services: &[ServiceName],
        pace: Pace,
        halt: Halt<'_>,
    ) -> Result<Outcome, ChangeError> {
        if !services.iter().any(|service| self.state.is_to_revert(service)) {
            return Ok(Outcome::default());
        }
        self.run_back(services, pace, halt)
    }

    /// Takes a service out: it is put back, and neither a resume nor a revert comes to it from here on.
    pub fn drop_service(&mut self, service: &ServiceName, halt: Halt<'_>) -> Result<Outcome, ChangeError> {
        self.check_drop(service)?;
        self.record(opened(Action::Drop))?;
        self.record(Event::Dropped { service: service.clone(), given_up: false })?;
        let outcome = self.put_back(std::slice::from_ref(service), self.prepared.plan.pace, halt)?;
        self.rest();
        Ok(outcome)
    }

    /// Refuses what [`Self::drop_service`] would refuse, before anything is recorded elsewhere.
    pub fn check_drop(&self, service: &ServiceName) -> Result<(), ChangeError> {
        if self.state.stage != TrialStage::Running {
            return Err(self.not_now());
        }
        let is_out = self.state.dropped.contains(service) && !self.state.is_to_revert(service);
        if self.prepared.treatment(service).is_none() || is_out {
            return Err(ChangeError::Refused(format!(
                "{service} is not a service of {} `{}`, or was taken out of it",
                self.prepared.owner.kind, self.prepared.plan.name
            )));
        }
        Ok(())
    }

    /// Records that every part is done, and ends it.
    pub fn finish(&mut self) -> Result<(), ChangeError> {
        self.record(Event::Ended { stage: TrialStage::Stopped, why: None })
    }

    /// Ends it; services keep what they run.
    pub fn end(&mut self) -> Result<(), ChangeError> {
        if self.state.stage == TrialStage::Reverted {
            return Err(self.not_now());
        }
        let services = self.state.in_flight();
        if !services.is_empty() {
            let (kind, name) = (self.prepared.owner.kind.clone(), self.prepared.plan.name.clone());
            return Err(ChangeError::InFlight { kind, name, services });
        }
        self.record(opened(Action::Stop))?;
        self.disarm()?;
        self.finish()
    }

    /// Records why a run did not come to its end.
    fn interrupted(&mut self, outcome: &Outcome) {
        let failed: Vec<&str> =
            outcome.failed.iter().chain(&outcome.stuck).map(|(service, _)| service.as_str()).collect();
        let why = outcome.stopped.clone().unwrap_or_else(|| format!("{} failed", failed.join(", ")));
        self.cut_short(why);
    }

    pub(crate) fn cut_short(&mut self, why: String) {
        self.note_done(Event::Ended { stage: self.state.stage, why: Some(why) });
    }
}

fn opened(action: Action) -> Event {
    Event::Opened { action, tool_version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() }
}
