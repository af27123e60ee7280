//! What the answer to each step leads to.

use heaptrial_model::ServiceName;

use super::restart::{Progress, RestartStep};
use super::schedule::{may_be_adopted, needs_restart, reverting};
use super::{Answer, Machine, Notification, Purpose, Restarting, Running, Step, Still, Weight};
use crate::error::ServiceError;
use crate::journal::Event;
use crate::state::TrialState;

impl Machine {
    pub(super) fn take(&mut self, state: &TrialState, asked: Step, answer: Answer) {
        match (asked, answer) {
            (Step::AskHalt, Answer::Halt(why)) => self.stop = self.stop_reason(why),
            (Step::Record(event, Weight::Service), Answer::Tried(Err(why))) => {
                if let (Some(service), Some(batch)) = (event.service(), &mut self.batch) {
                    // What was to follow in this batch does not.
                    self.todo.retain(|step| !matches!(step, Step::Write(other) if other == service));
                    batch.changed.retain(|other| other != service);
                    self.ready.retain(|other| other != service);
                    batch.failed.push((service.clone(), why));
                }
            }
            (Step::AskLives(services), Answer::Lives(lives)) => {
                self.lives_before(state, services, lives);
            }
            (Step::Plan(service), Answer::Planned(planned)) => self.planned(service, planned),
            (Step::Write(service), Answer::Tried(written)) => self.written(service, written),
            (Step::Undo(service), Answer::Tried(undone)) => self.undone(service, undone),
            (Step::AskSettings(services), Answer::Settings(found)) => self.settings(services, found),
            (Step::AskAdoption(service), Answer::Adoption(Some(life))) => {
                // A run that was killed had restarted it already.
                self.todo
                    .push_back(Step::Record(Event::Healthy { service: service.clone(), life }, Weight::Run));
                self.watch(service, Purpose::Apply, Restarting::default());
            }
            (Step::AskAdoption(service), Answer::Adoption(None)) => {
                self.todo.push_back(Step::AskLibrary(service));
            }
            (Step::AskLaunch(service), Answer::Life(running)) => {
                // Somebody may have stopped it since its files were changed.
                if stays_stopped(state, &service, &running) {
                    self.fail(service, Purpose::Apply, ServiceError::Stopped);
                } else if may_be_adopted(state, &service) {
                    self.todo.push_back(Step::AskAdoption(service));
                } else {
                    self.todo.push_back(Step::AskLibrary(service));
                }
            }
            (Step::AskLibrary(service), Answer::Tried(Ok(()))) => self.restart(service, Purpose::Apply),
            (Step::AskLibrary(service), Answer::Tried(Err(why))) => self.fail(service, Purpose::Apply, why),
            (Step::AskLife(service), Answer::Life(running)) => self.files_are_back(state, service, running),
            (Step::Restart(service, purpose), Answer::Queued(Ok(restarting))) => {
                self.watch(service, purpose, restarting);
            }
            (Step::Restart(service, purpose), Answer::Queued(Err(why))) => self.fail(service, purpose, why),
            (Step::AskJob(service, _), Answer::Job(result)) => {
                let (now, pace) = (self.now, self.pace);
                let progress = self.restarted(&service).map(|step| step.take_job(result, now, &pace));
                self.progress(&service, progress);
                // What has just started is looked at before anything else happens.
                if self.restarts.iter().any(|step| step.service == service && step.job().is_none()) {
                    self.look(&service);
                }
            }
            (Step::AskHealth(service), Answer::Health(health)) => {
                let (now, pace) = (self.now, self.pace);
                let progress = self.restarted(&service).map(|step| step.take_health(health, now, &pace));
                self.progress(&service, progress);
            }
            (Step::AskStill(service, _), Answer::Still(still)) => self.still(service, still),
            (Step::Prove(service, life), Answer::Proof(Ok(identity))) => {
                self.todo.push_back(Step::StartTimer(service, life, Box::new(identity)));
            }
            (Step::Prove(service, _), Answer::Proof(Err(why))) => self.fail(service, Purpose::Apply, why),
            (Step::StartTimer(service, life, identity), Answer::Tried(Ok(()))) => {
                let identity = Some(*identity);
                let committed = Event::Committed { service: service.clone(), life: life.clone(), identity };
                self.todo.push_back(Step::Record(committed, Weight::Run));
                self.todo.push_back(Step::Tell(Notification::Committed(service, life)));
            }
            (Step::StartTimer(service, ..), Answer::Tried(Err(why))) => {
                self.fail(service, Purpose::Apply, why)
            }
            (Step::StartTimersAgain(service), Answer::Tried(Err(why))) => {
                let text = format!("{service}: {why}");
                self.todo.push_front(Step::Tell(Notification::Warning(text)));
            }
            // Of the others only that they are done matters.
            _ => {}
        }
    }

    /// Which lives run before files are changed. What somebody stopped is not started by a treatment.
    fn lives_before(&mut self, state: &TrialState, services: Vec<ServiceName>, lives: Vec<Running>) {
        let Some(batch) = &mut self.batch else { return };
        for (service, running) in services.into_iter().zip(lives) {
            if stays_stopped(state, &service, &running) {
                self.todo.retain(|step| *step != Step::Plan(service.clone()));
                batch.failed.push((service.clone(), ServiceError::Stopped));
            }
            batch.lives.insert(service, running);
        }
    }

    fn planned(
        &mut self,
        service: ServiceName,
        planned: Result<Option<Vec<crate::journal::Change>>, ServiceError>,
    ) {
        let Some(batch) = &mut self.batch else { return };
        match planned {
            Ok(changes) => {
                self.todo.push_front(Step::Write(service.clone()));
                let Some(changes) = changes else { return };
                let arm = self.members.get(&service).map(|member| member.arm.clone()).unwrap_or_default();
                let life = batch.lives.get(&service).cloned().and_then(Running::life);
                let intent = Event::Intent { service, arm, changes, life };
                self.todo.push_front(Step::Record(intent, Weight::Service));
            }
            Err(why) => batch.failed.push((service, why)),
        }
    }

    fn written(&mut self, service: ServiceName, written: Result<(), ServiceError>) {
        let Some(batch) = &mut self.batch else { return };
        match written {
            Ok(()) => {
                batch.changed.push(service.clone());
                self.todo.push_front(Step::Record(Event::Written { service }, Weight::Service));
            }
            Err(why) => batch.failed.push((service, why)),
        }
    }

    fn undone(&mut self, service: ServiceName, undone: Result<(), ServiceError>) {
        match (undone, &mut self.batch) {
            (Ok(()), Some(batch)) if self.purpose == Purpose::Revert => batch.changed.push(service),
            // After the reload that is decided already.
            (Ok(()), _) => self.todo.push_back(Step::AskLife(service)),
            (Err(why), Some(batch)) if self.purpose == Purpose::Revert => batch.failed.push((service, why)),
            (Err(why), _) => self.stuck(service, why),
        }
    }

    fn settings(&mut self, services: Vec<ServiceName>, found: Vec<Result<(), ServiceError>>) {
        let Some(batch) = &mut self.batch else { return };
        for (service, found) in services.into_iter().zip(found) {
            match found {
                Ok(()) => {
                    let effective = Event::Effective { service: service.clone() };
                    self.todo.push_back(Step::Record(effective, Weight::Service));
                    self.ready.push_back(service);
                }
                Err(why) => batch.failed.push((service, why)),
            }
        }
    }

    /// A service's files are as before and systemd knows it: what runs may still have the treatment.
    fn files_are_back(&mut self, state: &TrialState, service: ServiceName, running: Running) {
        if stays_stopped(state, &service, &running) {
            let text = format!(
                "{service} does not run: somebody stopped it, or it was through with its work. It stays so; its files are as before"
            );
            self.todo.push_back(Step::Tell(Notification::Warning(text)));
            return self.reverted(service);
        }
        let life = running.life();
        let restart = needs_restart(state, &service, life.as_ref());
        // Where nothing runs, what is just being started may come up with the treatment: nothing is known for later yet.
        let is_news = state.services.get(&service).is_some_and(|found| found.undone.is_none());
        if is_news && life.is_some() {
            let undone = Event::Undone { service: service.clone(), life: life.filter(|_| restart) };
            self.todo.push_back(Step::Record(undone, Weight::None));
        }
        if restart { self.restart(service, Purpose::Revert) } else { self.reverted(service) }
    }

    fn restart(&mut self, service: ServiceName, purpose: Purpose) {
        self.first_launch.get_or_insert(self.now);
        self.last_launch = Some(self.now);
        self.launches += 1;
        let weight = match purpose {
            Purpose::Apply => Weight::Run,
            Purpose::Revert => Weight::None,
        };
        self.todo.push_back(Step::Record(Event::Restarting { service: service.clone() }, weight));
        self.todo.push_back(Step::Tell(Notification::Restarting(service.clone())));
        self.todo.push_back(Step::Restart(service, purpose));
    }

    /// Asks what has to be known of a service that is being restarted.
    pub(super) fn look(&mut self, service: &ServiceName) {
        let (now, pace) = (self.now, self.pace);
        let Some(step) = self.restarted(service) else { return };
        match step.question(now) {
            Some(question) => self.todo.push_back(question),
            None => {
                let progress = step.pass(now, &pace);
                self.progress(service, Some(progress));
            }
        }
    }

    fn restarted(&mut self, service: &ServiceName) -> Option<&mut RestartStep> {
        self.restarts.iter_mut().find(|step| step.service == *service)
    }

    fn progress(&mut self, service: &ServiceName, progress: Option<Progress>) {
        let at = self.restarts.iter().position(|step| step.service == *service);
        let (Some(at), Some(progress)) = (at, progress) else { return };
        let purpose = self.restarts[at].purpose;
        self.moved |= !matches!(progress, Progress::Same);
        match progress {
            Progress::Same | Progress::Moved => {}
            Progress::Healthy(life) => {
                let weight = match purpose {
                    Purpose::Apply => Weight::Run,
                    Purpose::Revert => Weight::None,
                };
                let healthy = Event::Healthy { service: service.clone(), life: life.clone() };
                self.todo.push_back(Step::Record(healthy, weight));
                if self.pace.settle.0.is_zero() {
                    let now = self.now;
                    let progress = self.restarts[at].take_still(Still::Runs, now);
                    self.progress(service, Some(progress));
                }
            }
            Progress::Settled(life) => {
                self.restarts.remove(at);
                match purpose {
                    Purpose::Apply => self.todo.push_back(Step::Prove(service.clone(), life)),
                    Purpose::Revert => self.reverted(service.clone()),
                }
            }
            Progress::Failed(why) => {
                self.restarts.remove(at);
                self.fail(service.clone(), purpose, why);
            }
        }
    }

    fn still(&mut self, service: ServiceName, still: Still) {
        let now = self.now;
        if let Some(step) = self.restarted(&service) {
            let progress = step.take_still(still, now);
            self.progress(&service, Some(progress));
        } else if still == Still::Stopped {
            let text = format!("{service} was stopped meanwhile, and stays so; its files keep the treatment");
            self.todo.push_back(Step::Tell(Notification::Warning(text)));
        } else if still != Still::Runs {
            // A timer, an administrator or a crash restarted a committed service: it is proved like any other.
            let text = format!("{service} was restarted meanwhile; looking at what it runs now");
            self.todo.push_back(Step::Tell(Notification::Warning(text)));
            self.watch(service, Purpose::Apply, Restarting::default());
        }
    }

    /// A service did not become what it should: it is put back, or, if that was being tried, left with a word.
    pub(super) fn fail(&mut self, service: ServiceName, purpose: Purpose, why: ServiceError) {
        if purpose == Purpose::Revert {
            return self.stuck(service, why);
        }
        self.failures += 1;
        let why = why.to_string();
        let failed = Event::Failed { service: service.clone(), why: why.clone() };
        self.todo.push_back(Step::Record(failed, Weight::None));
        self.todo.push_back(Step::Tell(Notification::Failed(service.clone(), why.clone())));
        self.outcome.failed.push((service.clone(), why));
        self.todo.push_back(reverting(&service));
        self.todo.push_back(Step::Undo(service));
        self.todo.push_back(Step::Reload);
    }

    fn reverted(&mut self, service: ServiceName) {
        self.todo.push_back(Step::StartTimersAgain(service.clone()));
        let reverted = Event::Reverted { service: service.clone() };
        self.todo.push_back(Step::Record(reverted, Weight::None));
        self.todo.push_back(Step::Tell(Notification::Reverted(service)));
    }

    fn stuck(&mut self, service: ServiceName, why: ServiceError) {
        let why = why.to_string();
        let failed = Event::RevertFailed { service: service.clone(), why: why.clone() };
        self.todo.push_back(Step::Record(failed, Weight::None));
        self.todo.push_back(Step::Tell(Notification::RevertFailed(service.clone(), why.clone())));
        self.outcome.stuck.push((service, why));
    }
}

/// Whether a service stays stopped: it has not been restarted since its files were changed, or ran as it should after that.
/// One that ended in between may have ended because of its treatment, and is started again.
fn stays_stopped(state: &TrialState, service: &ServiceName, running: &Running) -> bool {
    let Running::Stopped { boot_id } = running else { return false };
    let Some(found) = state.services.get(service) else { return true };
    // A boot is a restart too.
    let same_boot = found.life_before.as_ref().is_some_and(|life| Some(&life.boot_id) == boot_id.as_ref());
    found.settled || !found.restarted && same_boot
}
