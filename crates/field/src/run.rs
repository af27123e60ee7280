//! The run over services: prepare a few, restart them at the pace of the plan, watch, prove, commit; put back what
//! fails. Starting and reverting a trial are the same run with another [`Purpose`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use heaptrial_host::systemd::Job;
use heaptrial_host::{HostRoot, Process};
use heaptrial_model::{LifeKey, Pace, ServiceName};

use crate::flight::{Flight, Step};
use crate::health::Watch;
use crate::journal::Event;
use crate::state::Stage;
use crate::trial::{FieldError, News, Trial, Witness};

/// Files are changed no longer than this before the restart, as far as the pace tells: a service that restarts by
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
    /// Give them their treatments.
    Apply,
    /// Give them back what they had.
    Revert,
}

/// Asked again and again whether no further service is to be restarted, and why.
pub type Halt<'t> = &'t dyn Fn() -> Option<String>;

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Services that are as wanted, also from earlier runs.
    pub done: usize,
    /// Services that failed in this run, with the reason.
    pub failed: Vec<(ServiceName, String)>,
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
        self.failed.is_empty() && self.stuck.is_empty() && self.remaining == 0 && self.stopped.is_none()
    }
}

/// A run over the services of a trial.
pub(crate) struct Run<'t, 'a> {
    pub(crate) trial: &'t mut Trial<'a>,
    pub(crate) witness: &'t mut dyn Witness,
    halt: Halt<'t>,
    pub(crate) pace: Pace,
    purpose: Purpose,
    queue: VecDeque<ServiceName>,
    ready: VecDeque<ServiceName>,
    pub(crate) flights: Vec<Flight>,
    first_launch: Option<Instant>,
    last_launch: Option<Instant>,
    launches: u32,
    failures: u32,
    total: usize,
    outcome: Outcome,
}

impl<'t, 'a> Run<'t, 'a> {
    pub(crate) fn new(
        trial: &'t mut Trial<'a>,
        purpose: Purpose,
        pace: Pace,
        queue: VecDeque<ServiceName>,
        witness: &'t mut dyn Witness,
        halt: Halt<'t>,
    ) -> Self {
        let total = queue.len();
        let failures = trial.state.failures;
        Self {
            trial,
            witness,
            halt,
            pace,
            purpose,
            queue,
            ready: VecDeque::new(),
            flights: Vec::new(),
            first_launch: None,
            last_launch: None,
            launches: 0,
            failures,
            total,
            outcome: Outcome::default(),
        }
    }

    /// Works through the queue.
    pub(crate) fn go(mut self) -> Result<Outcome, FieldError> {
        let mut checked = false;
        loop {
            let stop = self.stop_reason();
            if stop.is_none() {
                self.prepare()?;
                self.launch()?;
            }
            let moved = self.look()?;
            let idle = self.flights.is_empty() && (stop.is_some() || self.is_empty());
            if idle && !self.ready.is_empty() {
                self.put_ready_back()?;
                continue;
            }
            if idle && stop.is_none() && !checked && self.purpose == Purpose::Apply {
                checked = true;
                self.check_committed()?;
                continue;
            }
            if idle {
                return self.finish(stop);
            }
            if !moved {
                self.wait()?;
            }
        }
    }

    /// Until a restart ends, or it is time to look again.
    fn wait(&self) -> Result<(), FieldError> {
        let job = |flight: &'_ Flight| match &flight.step {
            Step::Restart(job) => Some(job.clone()),
            _ => None,
        };
        let jobs: Vec<Job> = self.flights.iter().filter_map(job).collect();
        if jobs.is_empty() {
            std::thread::sleep(LOOK_GAP);
            return Ok(());
        }
        Ok(self.trial.systemd.wait_for_any(&jobs.iter().collect::<Vec<_>>(), LOOK_GAP)?)
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.ready.is_empty()
    }

    fn stop_reason(&self) -> Option<String> {
        if let Some(why) = (self.halt)() {
            return Some(why);
        }
        let spent = self.failures >= self.pace.failure_budget.max(1);
        (spent && self.purpose == Purpose::Apply).then(|| {
            let services = if self.failures == 1 {
                "1 service".to_owned()
            } else {
                format!("{} services", self.failures)
            };
            format!(
                "{services} failed, which is all that failure_budget = {} allows",
                self.pace.failure_budget
            )
        })
    }

    /// Files of services that are not restarted any more must not wait for a restart that nobody proves.
    fn put_ready_back(&mut self) -> Result<(), FieldError> {
        let ready = std::mem::take(&mut self.ready);
        self.outcome.remaining += ready.len();
        if self.purpose == Purpose::Revert {
            return Ok(());
        }
        let mut undone = Vec::new();
        for service in ready {
            self.trial.note(Event::Reverting { service: service.clone() }, self.witness);
            match self.trial.undo_files(&service) {
                Ok(()) => undone.push(service),
                Err(why) => self.stuck(service, why),
            }
        }
        self.trial.systemd.reload()?;
        for service in undone {
            if self.trial.undone(&service, self.witness) {
                self.restart(service, Purpose::Revert)?;
            } else {
                self.reverted(service);
            }
        }
        Ok(())
    }

    fn finish(mut self, stop: Option<String>) -> Result<Outcome, FieldError> {
        self.outcome.remaining += self.queue.len();
        let wanted = match self.purpose {
            Purpose::Apply => Stage::Committed,
            Purpose::Revert => Stage::Reverted,
        };
        self.outcome.done = self.trial.state.count(wanted);
        self.outcome.stopped = stop;
        Ok(self.outcome)
    }

    /// Changes the files of the next services and has systemd read them.
    fn prepare(&mut self) -> Result<(), FieldError> {
        if !self.ready.is_empty() || self.queue.is_empty() {
            return Ok(());
        }
        let size = self.batch_size();
        let batch: Vec<ServiceName> = self.queue.drain(..size.min(self.queue.len())).collect();
        let lives = match self.purpose {
            Purpose::Apply => self.trial.current_lives(&batch),
            Purpose::Revert => vec![None; batch.len()],
        };
        let mut written = Vec::new();
        let mut failed = Vec::new();
        for (service, life) in batch.into_iter().zip(lives) {
            let changed = match self.purpose {
                Purpose::Apply => self.trial.write_files(&service, life),
                Purpose::Revert => {
                    self.trial.note(Event::Reverting { service: service.clone() }, self.witness);
                    self.trial.undo_files(&service)
                }
            };
            match changed {
                Ok(()) => written.push(service),
                Err(why) => failed.push((service, why)),
            }
        }
        self.trial.systemd.reload()?;
        let environments = match self.purpose {
            Purpose::Apply => self.trial.systemd.environments(&written)?,
            Purpose::Revert => Vec::new(),
        };
        for (index, service) in written.into_iter().enumerate() {
            // Of a revert nothing is asked.
            let systemds = environments.get(index);
            match systemds.map_or(Ok(()), |systemds| self.trial.check_effective(&service, systemds)) {
                Ok(()) => self.ready.push_back(service),
                Err(why) => failed.push((service, why)),
            }
        }
        for (service, why) in failed {
            self.fail(service, self.purpose, why)?;
        }
        Ok(())
    }

    /// As many services as will be restarted within [`PREPARED_AHEAD`], by how fast it went so far.
    fn batch_size(&self) -> usize {
        let seen = self.first_launch.map(|first| first.elapsed() / self.launches.max(1));
        let each = self.pace.pause.0.max(seen.unwrap_or(FIRST_RESTART / self.pace.at_once.max(1)));
        (PREPARED_AHEAD.as_millis() / each.as_millis().max(1)).clamp(1, LARGEST_BATCH) as usize
    }

    /// Restarts the next service if it is time.
    fn launch(&mut self) -> Result<(), FieldError> {
        if self.flights.len() >= self.pace.at_once as usize {
            return Ok(());
        }
        if self.last_launch.is_some_and(|at| at.elapsed() < self.pace.pause.0) {
            let why = "waiting for the next restart";
            let done = self.total - self.queue.len() - self.ready.len();
            self.witness.waiting(done, self.total, why);
            return Ok(());
        }
        let free = |service: &ServiceName| {
            let family = self.trial.treatment(service).and_then(|treatment| treatment.family.as_ref());
            family.is_none() || self.flights.iter().all(|flight| flight.family.as_ref() != family)
        };
        let Some(index) = self.ready.iter().position(free) else { return Ok(()) };
        let Some(service) = self.ready.remove(index) else { return Ok(()) };
        match self.purpose {
            Purpose::Apply => match self.trial.adopt(&service) {
                Some(life) => {
                    // A run that was killed had restarted it already.
                    self.trial.record(Event::Healthy { service: service.clone(), life: life.clone() })?;
                    self.fly(service, Purpose::Apply, Step::Health { last_seen: String::new() });
                }
                None => {
                    if let Err(why) = self.trial.check_library(&service) {
                        return self.fail(service, Purpose::Apply, why);
                    }
                    self.restart(service, Purpose::Apply)?;
                }
            },
            Purpose::Revert if self.trial.undone(&service, self.witness) => {
                self.restart(service, Purpose::Revert)?;
            }
            Purpose::Revert => self.reverted(service),
        }
        Ok(())
    }

    fn restart(&mut self, service: ServiceName, purpose: Purpose) -> Result<(), FieldError> {
        let now = Instant::now();
        self.first_launch.get_or_insert(now);
        self.last_launch = Some(now);
        self.launches += 1;
        match purpose {
            Purpose::Apply => self.trial.record(Event::Restarting { service: service.clone() })?,
            Purpose::Revert => self.trial.note(Event::Restarting { service: service.clone() }, self.witness),
        }
        self.tell(&service, &News::Restarting);
        if purpose == Purpose::Revert {
            // What failed under its treatment may have used up its starts.
            let _ = self.trial.systemd.reset_failed(&service);
        }
        match self.trial.systemd.queue_restart(&service) {
            Ok(job) => {
                self.fly(service, purpose, Step::Restart(job));
                Ok(())
            }
            Err(error) => self.fail(service, purpose, error.to_string()),
        }
    }

    fn fly(&mut self, service: ServiceName, purpose: Purpose, step: Step) {
        let family = self.trial.treatment(&service).and_then(|treatment| treatment.family.clone());
        let deadline = Instant::now() + self.pace.health_timeout.0;
        self.flights.push(Flight { service, family, purpose, step, watch: Watch::new(), deadline });
    }

    /// A service did not become what it should: it is put back, or, if that was being tried, left with a word.
    pub(crate) fn fail(
        &mut self,
        service: ServiceName,
        purpose: Purpose,
        why: String,
    ) -> Result<(), FieldError> {
        if purpose == Purpose::Revert {
            self.stuck(service, why);
            return Ok(());
        }
        self.failures += 1;
        self.trial.note(Event::Failed { service: service.clone(), why: why.clone() }, self.witness);
        self.tell(&service, &News::Failed(&why));
        self.outcome.failed.push((service.clone(), why));
        self.trial.note(Event::Reverting { service: service.clone() }, self.witness);
        if let Err(why) = self.trial.undo_files(&service) {
            self.stuck(service, why);
            return Ok(());
        }
        self.trial.systemd.reload()?;
        if self.trial.undone(&service, self.witness) {
            self.restart(service, Purpose::Revert)?;
        } else {
            self.reverted(service);
        }
        Ok(())
    }

    pub(crate) fn reverted(&mut self, service: ServiceName) {
        if let Err(why) = self.trial.start_timers_again(&service) {
            self.witness.warning(&format!("{service}: {why}"));
        }
        self.trial.note(Event::Reverted { service: service.clone() }, self.witness);
        self.tell(&service, &News::Reverted);
    }

    fn stuck(&mut self, service: ServiceName, why: String) {
        self.trial.note(Event::RevertFailed { service: service.clone(), why: why.clone() }, self.witness);
        self.tell(&service, &News::RevertFailed(&why));
        self.outcome.stuck.push((service, why));
    }

    /// Looks once more at every service that was committed: one may have ended since.
    fn check_committed(&mut self) -> Result<(), FieldError> {
        let committed: Vec<(ServiceName, Option<LifeKey>)> = self
            .trial
            .state
            .services
            .iter()
            .filter(|(_, state)| state.stage == Stage::Committed)
            .map(|(service, state)| (service.clone(), state.life.clone()))
            .collect();
        for (service, life) in committed {
            let same = |life: &LifeKey| {
                let now = Process::new(&HostRoot::default(), life.pid).life_key();
                now.is_ok_and(|now| now == *life)
            };
            if life.as_ref().is_some_and(same) {
                continue;
            }
            // A timer, an administrator or a crash restarted it: it is watched and proved like any other.
            self.witness.warning(&format!("{service} was restarted meanwhile; looking at what it runs now"));
            self.fly(service, Purpose::Apply, Step::Health { last_seen: String::new() });
        }
        Ok(())
    }

    pub(crate) fn tell(&mut self, service: &ServiceName, news: &News<'_>) {
        if let Some(treatment) = self.trial.treatment(service).cloned() {
            self.witness.told(&treatment, news);
        }
    }
}
