//! A run over services: each gets its files, is restarted, watched, proved and committed; what fails is put back.
//!
//! | giving a treatment | what is true after it |
//! |---|---|
//! | record `Intent`, the bytes of before and after saved | the journal has all that undoes the change |
//! | files written, systemd reloaded | the next life will have the treatment |
//! | systemd's view compared, restart | whatever ran before may be gone |
//! | healthy, settled, proved, its timer started, record `Committed` | that life runs what the arm wants |
//!
//! | putting back | what is true after it |
//! |---|---|
//! | record `Revert`, files as before, systemd reloaded | the next life will be as before |
//! | restarted if what runs may have the treatment, healthy, record `Revert` | it is as if nothing had been |
//!
//! A reload takes systemd longer than a restart. So files are written ahead for as many services as will be restarted within
//! moments, with one reload for all; where the run stops before their turn they are put back, and not restarted.
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

/// Files are written ahead for as many services as get through in this time, by the pace so far.
const AHEAD: Duration = Duration::from_secs(10);

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
    /// When the first service was restarted.
    began: Option<Duration>,
    /// Nothing of them is changed yet.
    queue: VecDeque<ServiceName>,
    /// Their files are as wanted, systemd has read them, and their restart is to come.
    ready: VecDeque<ServiceName>,
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
            began: None,
            queue: queue.into(),
            ready: VecDeque::new(),
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
            if stops && self.purpose == Purpose::Apply {
                self.put_ready_back()?;
            }
            let launched = self.launch(stops)?;
            if self.look()? || launched {
                continue;
            }
            if self.restarts.is_empty() && self.ready.is_empty() && (stops || self.queue.is_empty()) {
                break;
            }
            let gaps = self.restarts.iter().map(|restart| restart.gap);
            self.trial.host.clock.sleep(gaps.min().unwrap_or(LOOK_GAP).min(LOOK_GAP));
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

    /// Goes on with the next service, or with the files of the next ones, if it is time; gives whether it did.
    fn launch(&mut self, stops: bool) -> Result<bool, ChangeError> {
        let nothing = self.ready.is_empty() && (stops || self.queue.is_empty());
        if nothing || self.restarts.len() >= self.pace.at_once as usize {
            return Ok(false);
        }
        if self.last_launch.is_some_and(|at| self.now() - at < self.pace.pause.0) {
            let begun = self.total - self.queue.len() - self.ready.len();
            self.trial.notify(&Notification::Waiting(begun, self.total));
            return Ok(false);
        }
        if self.ready.is_empty() {
            self.make_ready()?;
            return Ok(!self.ready.is_empty());
        }
        let Some(next) = self.ready.iter().position(|service| !self.is_family_down(service)) else {
            return Ok(false);
        };
        let Some(service) = self.ready.remove(next) else { return Ok(false) };
        match self.purpose {
            Purpose::Apply => {
                let running = health::running(self.trial.host, &service);
                match self.trial.check_ready(&service, &running) {
                    Ok(()) => self.restart(service, Purpose::Apply, running)?,
                    Err(why) => self.fail(service, why, false)?,
                }
            }
            Purpose::Revert => self.end_as_before(&service, true)?,
        }
        Ok(true)
    }

    /// Writes the files of the next services, or puts them back, and has systemd read them.
    fn make_ready(&mut self) -> Result<(), ChangeError> {
        let through = (self.total - self.queue.len() - self.restarts.len()) as u128;
        let took = self.began.map_or(Duration::ZERO, |began| self.now() - began).as_nanos().max(1);
        let ahead = (AHEAD.as_nanos() * through / took).max(1);
        while (self.ready.len() as u128) < ahead && self.spent_budget().is_none() {
            let Some(next) = self.queue.iter().position(|service| !self.is_family_down(service)) else {
                break;
            };
            let Some(service) = self.queue.remove(next) else { break };
            match self.purpose {
                Purpose::Apply => match self.trial.write_files(&service) {
                    Ok(()) => self.ready.push_back(service),
                    Err(why) => self.fail(service, why, false)?,
                },
                Purpose::Revert => {
                    self.trial.note_done(revert(&service, Stage::Reverting, None));
                    if self.put_files_back(&service) {
                        self.ready.push_back(service);
                    }
                }
            }
        }
        if !self.ready.is_empty() {
            self.trial.host.manager.reload()?;
        }
        Ok(())
    }

    /// Puts back what was written ahead of its turn.
    fn put_ready_back(&mut self) -> Result<(), ChangeError> {
        let mut ready = std::mem::take(&mut self.ready);
        for service in &ready {
            self.trial.note_done(revert(service, Stage::Reverting, None));
        }
        ready.retain(|service| self.put_files_back(service));
        if !ready.is_empty() {
            self.trial.host.manager.reload()?;
        }
        for service in ready.into_iter().rev() {
            // One that was not restarted is nothing to report.
            if !self.restart_as_before(&service, false)? {
                self.as_before(&service);
            }
            self.queue.push_front(service);
        }
        Ok(())
    }

    /// Whether a service of the same family is being restarted: they are never down together.
    fn is_family_down(&self, service: &ServiceName) -> bool {
        let family_of = |service| self.trial.prepared.treatment(service)?.family.as_ref();
        let family = family_of(service);
        family.is_some() && self.restarts.iter().any(|restart| family_of(&restart.service) == family)
    }

    fn restart(
        &mut self,
        service: ServiceName,
        purpose: Purpose,
        running: Running,
    ) -> Result<(), ChangeError> {
        self.last_launch = Some(self.now());
        self.began = self.began.or(self.last_launch);
        self.trial.notify(&Notification::Restarting(&service));
        if purpose == Purpose::Revert {
            // What failed under its treatment may have used up its starts.
            let _ = self.trial.host.manager.reset_failed(&service);
        }
        match self.trial.restart(&service, running) {
            Ok(before) => {
                let restart = Restart::new(service, purpose, before, self.now());
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
        if self.put_files_back(&service) {
            self.trial.host.manager.reload()?;
            self.end_as_before(&service, restarted)?;
        }
        Ok(())
    }

    /// Puts a service's files back, for systemd to read; gives whether it could.
    fn put_files_back(&mut self, service: &ServiceName) -> bool {
        let undone = self.trial.undo_files(service);
        undone.map_err(|why| self.stuck(service.clone(), why)).is_ok()
    }

    /// Restarts a service whose files are as before, where what runs may have the treatment; gives whether it did.
    /// `restarted`: whether what ran before may be gone.
    fn restart_as_before(&mut self, service: &ServiceName, restarted: bool) -> Result<bool, ChangeError> {
        let running = health::running(self.trial.host, service);
        let by_somebody = !restarted && running == Running::Stopped;
        if by_somebody || self.trial.state.stays_stopped(service, &running) {
            self.trial.warn(&format!("{service} is stopped and stays so; its files are as before"));
            return Ok(false);
        }
        let may_be_treated = self.trial.state.may_be_treated(service, &running);
        if may_be_treated {
            self.restart(service.clone(), Purpose::Revert, running)?;
        }
        Ok(may_be_treated)
    }

    fn end_as_before(&mut self, service: &ServiceName, restarted: bool) -> Result<(), ChangeError> {
        if !self.restart_as_before(service, restarted)? {
            self.reverted(service);
        }
        Ok(())
    }

    fn reverted(&mut self, service: &ServiceName) {
        let event = self.as_before(service);
        self.trial.notify(&Notification::Recorded(&event));
    }

    /// Records that a service is as before.
    fn as_before(&mut self, service: &ServiceName) -> Event {
        if let Err(why) = self.trial.start_timers_again(service) {
            self.trial.warn(&format!("{service}: {why}"));
        }
        let event = revert(service, Stage::Reverted, None);
        self.trial.note_done(event.clone());
        event
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
