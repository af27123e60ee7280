//! A run over services: each gets its files, is restarted, watched, proved and committed; what fails is put back.
//!
//! | giving a treatment | what is true after it |
//! |---|---|
//! | record `Intent`, the bytes of before and after saved | the journal has all that undoes the change |
//! | files written, systemd reloaded, its view compared | the next life will have the treatment |
//! | restart | whatever ran before may be gone |
//! | healthy, settled, proved, its timer started, record `Committed` | that life runs what the arm wants |
//!
//! | putting back | what is true after it |
//! |---|---|
//! | record `Revert`, files as before, systemd reloaded | the next life will be as before |
//! | restarted if what runs may have the treatment, healthy, record `Revert` | it is as if nothing had been |
//!
//! A record comes before what it needs to be undone by; all else is found out again by looking. A run that is cut short
//! leaves services in the middle, and whoever goes on puts these back first, with a restart where they may have the
//! treatment: so a treatment begins on a service that is as before, always.

use std::collections::VecDeque;
use std::time::Duration;

use heaptrial_model::{LifeKey, Pace, ServiceName};

use crate::error::{ChangeError, ServiceError};
use crate::health::{self, Running};
use crate::journal::Event;
use crate::restart::Restart;
use crate::state::Stage;
use crate::trial::Trial;

/// Asked again and again whether no further service is to be restarted, and why.
pub type Halt<'t> = &'t dyn Fn() -> Option<String>;

/// Between two looks at the services that are being restarted, at most.
const LOOK_GAP: Duration = Duration::from_millis(10);

/// What is done with services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Apply,
    /// Give them back what they had.
    Revert,
}

/// What happens to services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification<'e> {
    /// A service is about to be restarted.
    Restarting(&'e ServiceName),
    /// A service was committed, failed, or was put back or not: the record of it.
    Recorded(&'e Event),
    /// Nothing happens for a moment: so many are done of so many.
    Waiting(usize, usize),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Services that are as wanted, also from earlier runs.
    pub done: usize,
    /// Services that failed in this run, with the reason.
    pub failed: Vec<(ServiceName, String)>,
    /// Services that could not be put back and were given up, with the reason.
    pub given_up: Vec<(ServiceName, String)>,
    /// Services that could not be put back, with the reason.
    pub stuck: Vec<(ServiceName, String)>,
    /// Services that were not reached.
    pub remaining: usize,
    /// Why the run stopped before its end.
    pub stopped: Option<String>,
}

impl Outcome {
    /// Whether everything is as it was wanted.
    pub fn is_complete(&self) -> bool {
        let all = self.failed.is_empty() && self.stuck.is_empty();
        all && self.remaining == 0 && self.stopped.is_none()
    }
}

struct Run<'r, 'a> {
    trial: &'r mut Trial<'a>,
    halt: Halt<'r>,
    purpose: Purpose,
    pace: Pace,
    total: usize,
    /// Nothing of them is changed yet.
    queue: VecDeque<ServiceName>,
    restarts: Vec<Restart>,
    last_launch: Option<Duration>,
    outcome: Outcome,
}

impl Trial<'_> {
    /// A run; that one failed in the middle is recorded, and what it left is for the recovery timer.
    pub(crate) fn run(
        &mut self,
        purpose: Purpose,
        pace: Pace,
        queue: Vec<ServiceName>,
        halt: Halt<'_>,
    ) -> Result<Outcome, ChangeError> {
        let run = Run {
            trial: self,
            halt,
            purpose,
            pace,
            total: queue.len(),
            queue: queue.into(),
            restarts: Vec::new(),
            last_launch: None,
            outcome: Outcome::default(),
        };
        let result = run.carry_out();
        if let Err(error) = &result {
            self.cut_short(error.to_string());
        }
        result
    }
}

impl Run<'_, '_> {
    fn carry_out(mut self) -> Result<Outcome, ChangeError> {
        loop {
            let stops = self.stops();
            let launched = !stops && self.launch()?;
            if self.look()? || launched {
                continue;
            }
            if self.restarts.is_empty() && (stops || self.queue.is_empty()) {
                break;
            }
            self.trial.host.clock.sleep(LOOK_GAP);
        }
        let wanted = match self.purpose {
            Purpose::Apply => Stage::Committed,
            Purpose::Revert => Stage::Reverted,
        };
        self.outcome.remaining = self.queue.len();
        self.outcome.done = self.trial.state.count(wanted);
        Ok(self.outcome)
    }

    fn now(&self) -> Duration {
        self.trial.host.clock.now()
    }

    /// Whether nothing further is begun; why, is in the outcome.
    fn stops(&mut self) -> bool {
        if self.outcome.stopped.is_none() {
            self.outcome.stopped = (self.halt)().or_else(|| self.spent_budget());
        }
        self.outcome.stopped.is_some()
    }

    fn spent_budget(&self) -> Option<String> {
        let (failures, budget) = (self.trial.state.failures, self.pace.failure_budget);
        let services = heaptrial_model::units::counted(failures as usize, "service");
        let is_spent = failures >= budget.max(1) && self.purpose == Purpose::Apply;
        is_spent.then(|| format!("{services} failed, which is all that failure_budget = {budget} allows"))
    }

    /// Begins with the next service if it is time; gives whether it did.
    fn launch(&mut self) -> Result<bool, ChangeError> {
        if self.restarts.len() >= self.pace.at_once as usize {
            return Ok(false);
        }
        let Some(next) = self.queue.iter().position(|service| !self.is_family_down(service)) else {
            return Ok(false);
        };
        if self.last_launch.is_some_and(|at| self.now() - at < self.pace.pause.0) {
            self.trial.notify(&Notification::Waiting(self.total - self.queue.len(), self.total));
            return Ok(false);
        }
        let Some(service) = self.queue.remove(next) else { return Ok(false) };
        match self.purpose {
            Purpose::Apply => match self.trial.treat(&service) {
                Ok(()) => self.restart(service, Purpose::Apply)?,
                Err(why) => self.fail(service, why, false)?,
            },
            Purpose::Revert => {
                self.trial.note_done(revert(&service, Stage::Reverting, None));
                self.put_files_back(service, true)?;
            }
        }
        Ok(true)
    }

    /// Whether a service of the same family is being restarted: they are never down together.
    fn is_family_down(&self, service: &ServiceName) -> bool {
        let family_of = |service| self.trial.prepared.treatment(service)?.family.as_ref();
        let family = family_of(service);
        family.is_some() && self.restarts.iter().any(|restart| family_of(&restart.service) == family)
    }

    fn restart(&mut self, service: ServiceName, purpose: Purpose) -> Result<(), ChangeError> {
        self.last_launch = Some(self.now());
        self.trial.notify(&Notification::Restarting(&service));
        if purpose == Purpose::Revert {
            // What failed under its treatment may have used up its starts.
            let _ = self.trial.host.manager.reset_failed(&service);
        }
        match self.trial.restart(&service) {
            Ok(before) => {
                let restart = Restart::new(service, purpose, before, self.now(), &self.pace);
                self.restarts.push(restart);
                Ok(())
            }
            Err(why) => self.failed(service, purpose, why),
        }
    }

    /// Looks at the services that are being restarted; gives whether one is through.
    fn look(&mut self) -> Result<bool, ChangeError> {
        let mut has_moved = false;
        for mut restart in std::mem::take(&mut self.restarts) {
            let looked = restart.look(self.trial, &self.pace);
            has_moved |= !matches!(looked, Ok(None));
            match (restart.purpose, looked) {
                (_, Ok(None)) => self.restarts.push(restart),
                (Purpose::Apply, Ok(Some(life))) => self.commit(restart.service, life)?,
                (Purpose::Revert, Ok(Some(_))) => self.reverted(&restart.service),
                (purpose, Err(why)) => self.failed(restart.service, purpose, why)?,
            }
        }
        Ok(has_moved)
    }

    fn commit(&mut self, service: ServiceName, life: LifeKey) -> Result<(), ChangeError> {
        let proved = self.trial.prove(&service, &life).and_then(|identity| {
            self.trial.start_timer(&service)?;
            Ok(identity)
        });
        match proved {
            Ok(identity) => {
                let event = Event::Committed { service, life, identity: Some(identity) };
                self.trial.record(event.clone())?;
                self.trial.notify(&Notification::Recorded(&event));
                Ok(())
            }
            Err(why) => self.fail(service, why, true),
        }
    }

    /// A service did not become what it should, or what it was.
    fn failed(
        &mut self,
        service: ServiceName,
        purpose: Purpose,
        why: ServiceError,
    ) -> Result<(), ChangeError> {
        match purpose {
            Purpose::Apply => self.fail(service, why, true),
            Purpose::Revert => {
                self.stuck(service, why);
                Ok(())
            }
        }
    }

    /// A service did not become what it should: it is put back at once. `restarted`: whether what ran before may be gone.
    fn fail(&mut self, service: ServiceName, why: ServiceError, restarted: bool) -> Result<(), ChangeError> {
        self.outcome.failed.push((service.clone(), why.to_string()));
        self.done(revert(&service, Stage::Reverting, Some(why)));
        if self.trial.state.stage_of(&service).is_none() {
            // Nothing of it was changed.
            self.trial.note_done(revert(&service, Stage::Reverted, None));
            return Ok(());
        }
        self.put_files_back(service, restarted)
    }

    /// Puts a service's files back, and restarts it where what runs may have the treatment.
    fn put_files_back(&mut self, service: ServiceName, restarted: bool) -> Result<(), ChangeError> {
        if let Err(why) = self.trial.undo_files(&service) {
            self.stuck(service, why);
            return Ok(());
        }
        self.trial.host.manager.reload()?;
        let running = health::running(self.trial.host, &service);
        let by_somebody = !restarted && running == Running::Stopped;
        if by_somebody || self.trial.state.stays_stopped(&service, &running) {
            self.trial.warn(&format!("{service} is stopped and stays so; its files are as before"));
        } else if self.trial.state.may_be_treated(&service, &running) {
            return self.restart(service, Purpose::Revert);
        }
        self.reverted(&service);
        Ok(())
    }

    fn reverted(&mut self, service: &ServiceName) {
        if let Err(why) = self.trial.start_timers_again(service) {
            self.trial.warn(&format!("{service}: {why}"));
        }
        self.done(revert(service, Stage::Reverted, None));
    }

    fn stuck(&mut self, service: ServiceName, why: ServiceError) {
        self.outcome.stuck.push((service.clone(), why.to_string()));
        self.done(revert(&service, Stage::RevertFailed, Some(why)));
    }

    /// Records what was done, and reports it.
    fn done(&mut self, event: Event) {
        self.trial.note_done(event.clone());
        self.trial.notify(&Notification::Recorded(&event));
    }
}

fn revert(service: &ServiceName, stage: Stage, why: Option<ServiceError>) -> Event {
    Event::Revert { service: service.clone(), stage, why: why.map(|why| why.to_string()) }
}
