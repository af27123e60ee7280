//! Which service moves next: batches, the pace of restarts, and when a run is over.

use std::time::Duration;

use heaptrial_host::systemd::Job;
use heaptrial_model::{LifeKey, ServiceName};

use super::restart::RestartStep;
use super::{Batch, Machine, Notification, Outcome, Purpose, Restarting, Round, Step, Weight};
use crate::journal::Event;
use crate::state::{Stage, TrialState};

/// Files are changed no longer than this before the restart, as far as the pace tells: a service that restarts by
/// itself in between has its treatment without a proof.
const PREPARED_AHEAD: Duration = Duration::from_secs(60);
/// What one restart takes, for the size of a batch, as long as none was seen.
const FIRST_RESTART: Duration = Duration::from_millis(250);
/// systemd reads all unit files at once, so that a batch costs about as much as one service.
const LARGEST_BATCH: u128 = 256;
/// Between two looks at the services that are being restarted, at most.
const LOOK_GAP: Duration = Duration::from_millis(10);

impl Machine {
    /// Decides what is to be done when all that was decided is done; gives the outcome when that is nothing.
    pub(super) fn schedule(&mut self, state: &TrialState) -> Option<Outcome> {
        match self.round {
            Round::Begin => {
                self.moved = false;
                self.round = Round::Launch;
                self.todo.push_back(Step::AskHalt);
            }
            Round::Launch => {
                // A batch whose files are changed is through once systemd's view is checked.
                if self.batch.is_some() {
                    self.end_batch();
                    return None;
                }
                if self.stop.is_none() && self.ready.is_empty() && !self.queue.is_empty() {
                    self.begin_batch();
                    return None;
                }
                self.round = Round::Look;
                if self.stop.is_none() {
                    self.launch();
                }
            }
            Round::Look => {
                self.round = Round::End;
                self.to_look = self.restarts.iter().map(|step| step.service.clone()).collect();
            }
            Round::End => {
                if let Some(service) = self.to_look.pop_front() {
                    self.look(&service);
                    return None;
                }
                return self.end_round(state);
            }
        }
        None
    }

    fn end_round(&mut self, state: &TrialState) -> Option<Outcome> {
        self.round = Round::Begin;
        let through = self.queue.is_empty() && self.ready.is_empty();
        let idle = self.restarts.is_empty() && (self.stop.is_some() || through);
        if idle && !self.ready.is_empty() {
            self.put_ready_back();
            return None;
        }
        if idle && self.stop.is_none() && !self.checked && self.purpose == Purpose::Apply {
            self.checked = true;
            self.check_committed(state);
            return None;
        }
        if idle {
            let wanted = match self.purpose {
                Purpose::Apply => Stage::Committed,
                Purpose::Revert => Stage::Reverted,
            };
            let mut outcome = std::mem::take(&mut self.outcome);
            outcome.remaining += self.queue.len();
            outcome.done = state.count(wanted);
            outcome.stopped = self.stop.take();
            return Some(outcome);
        }
        if !self.moved {
            let jobs: Vec<Job> = self.restarts.iter().filter_map(|step| step.job().cloned()).collect();
            self.todo.push_back(Step::Wait(jobs, LOOK_GAP));
        }
        None
    }

    /// Why nothing further is begun.
    pub(super) fn stop_reason(&self, halt: Option<String>) -> Option<String> {
        let budget = self.pace.failure_budget;
        let spent = self.failures >= budget.max(1) && self.purpose == Purpose::Apply;
        halt.or_else(|| {
            let services = heaptrial_model::units::counted(self.failures as usize, "service");
            spent.then(|| format!("{services} failed, which is all that failure_budget = {budget} allows"))
        })
    }

    /// Changes the files of the next services.
    fn begin_batch(&mut self) {
        let size = self.batch_size().min(self.queue.len());
        let services: Vec<ServiceName> = self.queue.drain(..size).collect();
        self.batch = Some(Batch::default());
        match self.purpose {
            Purpose::Apply => {
                self.todo.push_back(Step::AskLives(services.clone()));
                self.todo.extend(services.into_iter().map(Step::Plan));
            }
            Purpose::Revert => {
                for service in services {
                    self.todo.push_back(reverting(&service));
                    self.todo.push_back(Step::Undo(service));
                }
            }
        }
        self.todo.push_back(Step::Reload);
    }

    /// After the files of a batch: what was changed is ready once systemd's view is, what failed is put back.
    fn end_batch(&mut self) {
        let Some(batch) = &mut self.batch else { return };
        let changed = std::mem::take(&mut batch.changed);
        if self.purpose == Purpose::Apply && !changed.is_empty() {
            self.todo.push_back(Step::AskSettings(changed));
            return;
        }
        self.ready.extend(changed);
        let failed = std::mem::take(&mut batch.failed);
        self.batch = None;
        // What failed may be the last that the budget allows.
        self.round = Round::Begin;
        for (service, why) in failed {
            self.fail(service, self.purpose, why);
        }
    }

    /// As many services as will be restarted within [`PREPARED_AHEAD`], by how fast it went so far.
    fn batch_size(&self) -> usize {
        let seen = self.first_launch.map(|first| (self.now - first) / self.launches.max(1));
        let each = self.pace.pause.0.max(seen.unwrap_or(FIRST_RESTART / self.pace.at_once.max(1)));
        (PREPARED_AHEAD.as_millis() / each.as_millis().max(1)).clamp(1, LARGEST_BATCH) as usize
    }

    /// Restarts the next service if it is time.
    fn launch(&mut self) {
        if self.restarts.len() >= self.pace.at_once as usize {
            return;
        }
        if self.last_launch.is_some_and(|at| self.now - at < self.pace.pause.0) {
            let done = self.total - self.queue.len() - self.ready.len();
            self.todo.push_back(Step::Tell(Notification::Waiting(done, self.total)));
            return;
        }
        let free = |service: &ServiceName| {
            let family = self.members.get(service).and_then(|member| member.family.as_ref());
            family.is_none() || self.restarts.iter().all(|step| step.family.as_ref() != family)
        };
        let Some(index) = self.ready.iter().position(free) else { return };
        let Some(service) = self.ready.remove(index) else { return };
        self.todo.push_back(match self.purpose {
            Purpose::Revert => Step::AskLife(service),
            Purpose::Apply => Step::AskLaunch(service),
        });
    }

    /// Files of services that are not restarted any more must not wait for a restart that nobody proves.
    fn put_ready_back(&mut self) {
        let ready = std::mem::take(&mut self.ready);
        self.outcome.remaining += ready.len();
        if self.purpose == Purpose::Revert {
            return;
        }
        for service in ready {
            self.todo.push_back(reverting(&service));
            self.todo.push_back(Step::Undo(service));
        }
        self.todo.push_back(Step::Reload);
    }

    /// Looks once more at every service that was committed: one may have ended since.
    fn check_committed(&mut self, state: &TrialState) {
        for (service, found) in &state.services {
            match &found.life {
                Some(life) if found.stage == Stage::Committed => {
                    self.todo.push_back(Step::AskStill(service.clone(), life.clone()));
                }
                _ => {}
            }
        }
    }

    /// Watches a service until it is proved. What ran before its restart does not count.
    pub(super) fn watch(&mut self, service: ServiceName, purpose: Purpose, restarting: Restarting) {
        let member = self.members.get(&service);
        let family = member.and_then(|member| member.family.clone());
        let is_asked = member.is_some_and(|member| member.is_asked);
        let deadline = self.now + self.pace.health_timeout.0;
        self.restarts
            .push(RestartStep::new(service, family, purpose, restarting, is_asked, self.now, deadline));
    }
}

/// Announces that a service is about to be put back.
pub(super) fn reverting(service: &ServiceName) -> Step {
    Step::Record(Event::Reverting { service: service.clone() }, Weight::None)
}

/// Whether an earlier run may have restarted a service with its treatment.
pub(super) fn may_be_adopted(state: &TrialState, service: &ServiceName) -> bool {
    state.services.get(service).is_some_and(|found| found.restarted && found.undone.is_none())
}

/// Whether a service whose files are as before has to be restarted: what runs may have been started with the treatment,
/// or nothing runs, and the treatment may be why. One of which no file was changed has none.
pub(super) fn needs_restart(state: &TrialState, service: &ServiceName, now: Option<&LifeKey>) -> bool {
    let Some(found) = state.services.get(service) else { return false };
    let may_have_it = match &found.undone {
        Some(life) => now == life.as_ref(),
        None => now != found.life_before.as_ref(),
    };
    now.is_none() || may_have_it && !found.changes.is_empty()
}
