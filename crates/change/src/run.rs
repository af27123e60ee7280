//! A run over services: a few are prepared together, since systemd reads all unit files at once; they are restarted at
//! the plan's pace, watched, proved and committed; what fails is put back.
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
//! | record `Reverting`, files as before, systemd reloaded | the next life will be as before |
//! | restarted if what runs may have the treatment, healthy, record `Reverted` | it is as if nothing had been |
//!
//! A record comes before what it needs to be undone by; all else is found out again by looking. A run that is cut short
//! leaves services in the middle, and whoever goes on puts these back first, with a restart where they may have the
//! treatment: so a treatment begins on a service that is as before, always.

use std::collections::VecDeque;
use std::time::Duration;

use heaptrial_host::systemd::Job;
use heaptrial_model::{LifeKey, Pace, ServiceName};

use crate::edges::can_be_asked;
use crate::error::{ChangeError, ServiceError};
use crate::health::{self, Running};
use crate::journal::Event;
use crate::restart::{Progress, Queued, Restart, Still};
use crate::state::Stage;
use crate::trial::{Trial, Witness};

/// Asked again and again whether no further service is to be restarted, and why.
pub type Halt<'t> = &'t dyn Fn() -> Option<String>;

/// Files are changed no longer than this before the restart, as far as the pace allows: a service that restarts by
/// itself in between has its treatment without a proof.
const PREPARED_AHEAD: Duration = Duration::from_secs(60);
/// What one restart takes, for the size of a batch, as long as none was seen.
const FIRST_RESTART: Duration = Duration::from_millis(250);
/// systemd reads all unit files at once, so that a batch costs about as much as one service.
const LARGEST_BATCH: u128 = 256;
/// Between two looks at the services that are being restarted, at most.
const LOOK_GAP: Duration = Duration::from_millis(10);

/// What is done with services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Apply,
    /// Give them back what they had.
    Revert,
}

/// What happens to a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// It is about to be restarted.
    Restarting(ServiceName),
    /// It runs what its arm wants.
    Committed(ServiceName, LifeKey),
    /// It does not, and is put back.
    Failed(ServiceName, String),
    Reverted(ServiceName),
    /// It could not be put back.
    RevertFailed(ServiceName, String),
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
    /// Services that had their treatment and of which somebody changed a file since, with the difference.
    pub drifted: Vec<(ServiceName, String)>,
    /// Services that were not reached.
    pub remaining: usize,
    /// Why the run stopped before its end.
    pub stopped: Option<String>,
}

impl Outcome {
    /// Whether everything is as it was wanted.
    pub fn is_complete(&self) -> bool {
        let all = self.failed.is_empty() && self.stuck.is_empty() && self.drifted.is_empty();
        all && self.remaining == 0 && self.stopped.is_none()
    }
}

pub(crate) struct Run<'r, 'a> {
    trial: &'r mut Trial<'a>,
    witness: &'r mut dyn Witness,
    halt: Halt<'r>,
    purpose: Purpose,
    pace: Pace,
    total: usize,
    /// Nothing of them is changed yet.
    queue: VecDeque<ServiceName>,
    /// With changed files, waiting for their restart.
    ready: VecDeque<ServiceName>,
    restarts: Vec<Restart>,
    /// Restarts that were queued so far, and when the first and the last was.
    launches: u32,
    first_launch: Option<Duration>,
    last_launch: Option<Duration>,
    outcome: Outcome,
}

impl<'r, 'a> Run<'r, 'a> {
    pub(crate) fn new(
        trial: &'r mut Trial<'a>,
        purpose: Purpose,
        pace: Pace,
        queue: VecDeque<ServiceName>,
        witness: &'r mut dyn Witness,
        halt: Halt<'r>,
    ) -> Self {
        Self {
            trial,
            witness,
            halt,
            purpose,
            pace,
            total: queue.len(),
            queue,
            ready: VecDeque::new(),
            restarts: Vec::new(),
            launches: 0,
            first_launch: None,
            last_launch: None,
            outcome: Outcome::default(),
        }
    }

    pub(crate) fn carry_out(mut self) -> Result<Outcome, ChangeError> {
        let mut looked_again = self.purpose == Purpose::Revert;
        let stopped = loop {
            let stop = self.stop_reason();
            if stop.is_none() && self.ready.is_empty() && !self.queue.is_empty() {
                self.prepare()?;
                continue;
            }
            let launched = stop.is_none() && self.launch()?;
            if self.look()? || launched {
                continue;
            }
            let is_through = stop.is_some() || (self.queue.is_empty() && self.ready.is_empty());
            if !is_through || !self.restarts.is_empty() {
                self.wait()?;
            } else if !self.ready.is_empty() {
                self.put_ready_back()?;
            } else if stop.is_none() && !looked_again {
                looked_again = true;
                self.look_at_committed();
            } else {
                break stop;
            }
        };
        let wanted = match self.purpose {
            Purpose::Apply => Stage::Committed,
            Purpose::Revert => Stage::Reverted,
        };
        self.outcome.remaining += self.queue.len();
        self.outcome.done = self.trial.state.count(wanted);
        self.outcome.stopped = stopped;
        Ok(self.outcome)
    }

    fn now(&self) -> Duration {
        self.trial.host.clock.now()
    }

    /// Why nothing further is begun.
    fn stop_reason(&self) -> Option<String> {
        (self.halt)().or_else(|| {
            let (failures, budget) = (self.trial.state.failures, self.pace.failure_budget);
            let services = heaptrial_model::units::counted(failures as usize, "service");
            let is_spent = failures >= budget.max(1) && self.purpose == Purpose::Apply;
            is_spent.then(|| format!("{services} failed, which is all that failure_budget = {budget} allows"))
        })
    }

    /// Changes the files of the next services, as many as will be restarted within [`PREPARED_AHEAD`] by how fast it went
    /// so far.
    fn prepare(&mut self) -> Result<(), ChangeError> {
        let seen = self.first_launch.map(|first| (self.now() - first) / self.launches.max(1));
        let each = self.pace.pause.0.max(seen.unwrap_or(FIRST_RESTART / self.pace.at_once.max(1)));
        let size = (PREPARED_AHEAD.as_millis() / each.as_millis().max(1)).clamp(1, LARGEST_BATCH) as usize;
        let batch: Vec<ServiceName> = self.queue.drain(..size.min(self.queue.len())).collect();
        match self.purpose {
            Purpose::Apply => self.prepare_to_apply(batch),
            Purpose::Revert => {
                let undone = self.undo(batch)?;
                self.ready.extend(undone);
                Ok(())
            }
        }
    }

    fn prepare_to_apply(&mut self, batch: Vec<ServiceName>) -> Result<(), ChangeError> {
        let (mut written, mut failed) = (Vec::new(), Vec::new());
        let running = health::running(self.trial.host, &batch);
        for (service, running) in batch.into_iter().zip(running) {
            match self.trial.write_treatment(&service, running) {
                Ok(()) => written.push(service),
                Err(why) => failed.push((service, why)),
            }
        }
        if !written.is_empty() {
            self.trial.host.manager.reload()?;
            let checked = self.trial.check_settings(&written)?;
            for (service, checked) in written.into_iter().zip(checked) {
                match checked {
                    Ok(()) => self.ready.push_back(service),
                    Err(why) => failed.push((service, why)),
                }
            }
        }
        failed.into_iter().try_for_each(|(service, why)| self.fail(service, why, false))
    }

    /// Puts the files of services back; gives those of which that was done.
    fn undo(&mut self, services: Vec<ServiceName>) -> Result<Vec<ServiceName>, ChangeError> {
        let mut undone = Vec::new();
        for service in services {
            self.trial.note_done(Event::Reverting { service: service.clone(), why: None }, self.witness);
            match self.trial.undo_files(&service) {
                Ok(()) => undone.push(service),
                Err(why) => self.stuck(service, &why),
            }
        }
        self.trial.host.manager.reload()?;
        Ok(undone)
    }

    /// Restarts the next service if it is time; gives whether it did.
    fn launch(&mut self) -> Result<bool, ChangeError> {
        if self.restarts.len() >= self.pace.at_once as usize {
            return Ok(false);
        }
        if self.last_launch.is_some_and(|at| self.now() - at < self.pace.pause.0) {
            let done = self.total - self.queue.len() - self.ready.len();
            self.witness.told(&self.trial.prepared, &Notification::Waiting(done, self.total));
            return Ok(false);
        }
        let Some(next) = self.ready.iter().position(|service| !self.is_family_down(service)) else {
            return Ok(false);
        };
        let Some(service) = self.ready.remove(next) else { return Ok(false) };
        match self.purpose {
            Purpose::Revert => self.files_are_back(service, true)?,
            Purpose::Apply => match self.check_before_restart(&service) {
                Ok(()) => self.restart(service, Purpose::Apply)?,
                Err(why) => self.fail(service, why, false)?,
            },
        }
        Ok(true)
    }

    /// Whether a service of the same family is being restarted: they are never down together.
    fn is_family_down(&self, service: &ServiceName) -> bool {
        let family_of =
            |service| self.trial.treatment(service).and_then(|treatment| treatment.family.as_ref());
        let family = family_of(service);
        family.is_some() && self.restarts.iter().any(|restart| family_of(&restart.service) == family)
    }

    fn check_before_restart(&mut self, service: &ServiceName) -> Result<(), ServiceError> {
        // Somebody may have stopped it since its files were changed.
        if health::running_one(self.trial.host, service) == Running::Stopped {
            return Err(ServiceError::stopped());
        }
        self.trial.check_library(service)
    }

    fn restart(&mut self, service: ServiceName, purpose: Purpose) -> Result<(), ChangeError> {
        let now = self.now();
        self.first_launch.get_or_insert(now);
        self.last_launch = Some(now);
        self.launches += 1;
        self.witness.told(&self.trial.prepared, &Notification::Restarting(service.clone()));
        if purpose == Purpose::Revert {
            // What failed under its treatment may have used up its starts.
            let _ = self.trial.host.manager.reset_failed(&service);
        }
        match self.trial.restart(&service) {
            Ok(queued) => self.watch(service, purpose, queued),
            Err(why) => self.failed(service, purpose, why)?,
        }
        Ok(())
    }

    fn watch(&mut self, service: ServiceName, purpose: Purpose, queued: Queued) {
        let relay = self.trial.treatment(&service).and_then(|treatment| treatment.relay.as_ref());
        let asks_program = relay.is_some_and(can_be_asked);
        let now = self.now();
        self.restarts.push(Restart::new(service, purpose, queued, asks_program, now, &self.pace));
    }

    /// Looks at the services that are being restarted; gives whether one came further.
    fn look(&mut self) -> Result<bool, ChangeError> {
        let mut has_moved = false;
        for mut restart in std::mem::take(&mut self.restarts) {
            let progress = restart.poll(self.trial, &self.pace);
            has_moved |= !matches!(progress, Progress::Waits);
            match progress {
                Progress::Waits | Progress::Moved => self.restarts.push(restart),
                Progress::Settled(life) => match restart.purpose {
                    Purpose::Apply => self.commit(restart.service, life)?,
                    Purpose::Revert => self.reverted(restart.service),
                },
                Progress::Failed(why) => self.failed(restart.service, restart.purpose, why)?,
            }
        }
        Ok(has_moved)
    }

    fn wait(&mut self) -> Result<(), ChangeError> {
        let jobs: Vec<&Job> = self.restarts.iter().filter_map(Restart::job).collect();
        match jobs.is_empty() {
            true => self.trial.host.clock.sleep(LOOK_GAP),
            false => self.trial.host.manager.wait_for_any(&jobs, LOOK_GAP)?,
        }
        Ok(())
    }

    fn commit(&mut self, service: ServiceName, life: LifeKey) -> Result<(), ChangeError> {
        let proved = self.trial.prove(&service, &life).and_then(|identity| {
            self.trial.start_timer(&service)?;
            Ok(identity)
        });
        match proved {
            Ok(identity) => {
                let (name, identity) = (service.clone(), Some(identity));
                self.trial.record(Event::Committed { service: name, life: life.clone(), identity })?;
                self.witness.told(&self.trial.prepared, &Notification::Committed(service, life));
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
                self.stuck(service, &why);
                Ok(())
            }
        }
    }

    /// A service did not become what it should: it is put back at once. `restarted`: whether what ran before may be gone.
    fn fail(&mut self, service: ServiceName, why: ServiceError, restarted: bool) -> Result<(), ChangeError> {
        let why = why.to_string();
        let event = Event::Reverting { service: service.clone(), why: Some(why.clone()) };
        self.trial.note_done(event, self.witness);
        self.witness.told(&self.trial.prepared, &Notification::Failed(service.clone(), why.clone()));
        self.outcome.failed.push((service.clone(), why));
        if self.trial.stage(&service).is_none() {
            // Nothing of it was changed.
            self.trial.note_done(Event::Reverted { service }, self.witness);
            return Ok(());
        }
        match self.trial.undo_files(&service) {
            Ok(()) => {
                self.trial.host.manager.reload()?;
                self.files_are_back(service, restarted)
            }
            Err(why) => {
                self.stuck(service, &why);
                Ok(())
            }
        }
    }

    /// A service's files are as before and systemd knows it: what runs may still have the treatment.
    fn files_are_back(&mut self, service: ServiceName, restarted: bool) -> Result<(), ChangeError> {
        let running = health::running_one(self.trial.host, &service);
        let by_somebody = !restarted && running == Running::Stopped;
        if by_somebody || self.trial.state.stays_stopped(&service, &running) {
            self.witness.warning(&format!("{service} is stopped and stays so; its files are as before"));
        } else if self.trial.state.may_be_treated(&service, &running) {
            return self.restart(service, Purpose::Revert);
        }
        self.reverted(service);
        Ok(())
    }

    fn reverted(&mut self, service: ServiceName) {
        if let Err(why) = self.trial.start_timers_again(&service) {
            self.witness.warning(&format!("{service}: {why}"));
        }
        self.trial.note_done(Event::Reverted { service: service.clone() }, self.witness);
        self.witness.told(&self.trial.prepared, &Notification::Reverted(service));
    }

    fn stuck(&mut self, service: ServiceName, why: &ServiceError) {
        let why = why.to_string();
        self.trial
            .note_done(Event::RevertFailed { service: service.clone(), why: why.clone() }, self.witness);
        self.witness.told(&self.trial.prepared, &Notification::RevertFailed(service.clone(), why.clone()));
        self.outcome.stuck.push((service, why));
    }

    /// Files of services that are not restarted any more must not wait for a restart that nobody proves.
    fn put_ready_back(&mut self) -> Result<(), ChangeError> {
        let ready = std::mem::take(&mut self.ready);
        self.outcome.remaining += ready.len();
        if self.purpose == Purpose::Revert {
            return Ok(());
        }
        let undone = self.undo(ready.into())?;
        undone.into_iter().try_for_each(|service| self.files_are_back(service, false))
    }

    /// Looks once more at every service that was committed: one may have ended since. Which a timer, an administrator or a
    /// crash restarted is proved like any other.
    fn look_at_committed(&mut self) {
        for (service, life) in self.trial.state.committed() {
            let still = self.trial.still(&service, &life);
            let what = match still {
                Still::Runs => continue,
                Still::Stopped => "was stopped meanwhile, and stays so; its files keep the treatment",
                Still::Ended(_) => "was restarted meanwhile; looking at what it runs now",
            };
            self.witness.warning(&format!("{service} {what}"));
            if still != Still::Stopped {
                self.watch(service, Purpose::Apply, Queued::default());
            }
        }
    }
}
