//! Carries the steps of a [`Machine`] out, in the order in which it gives them: asks, writes the journal, acts.

use std::collections::VecDeque;

use heaptrial_model::{Pace, ServiceName};

use crate::error::{ChangeError, ServiceError};
use crate::health;
use crate::machine::{Answer, Machine, Outcome, Purpose, Step, Weight};
use crate::trial::{Trial, Witness};

/// Asked again and again whether no further service is to be restarted, and why.
pub type Halt<'t> = &'t dyn Fn() -> Option<String>;

impl Trial<'_> {
    pub(crate) fn carry_out(
        &mut self,
        purpose: Purpose,
        pace: Pace,
        queue: VecDeque<ServiceName>,
        witness: &mut dyn Witness,
        halt: Halt<'_>,
    ) -> Result<Outcome, ChangeError> {
        let mut machine = Machine::new(purpose, pace, queue, &self.prepared, &self.state);
        let mut answer = Answer::Nothing;
        loop {
            let step = machine.next(&self.state, self.host.clock.now(), answer);
            answer = match step {
                Step::Finish(outcome) => return Ok(outcome),
                step => self.take(step, witness, halt)?,
            };
        }
    }

    fn take(&mut self, step: Step, witness: &mut dyn Witness, halt: Halt<'_>) -> Result<Answer, ChangeError> {
        let host = self.host;
        Ok(match step {
            Step::AskHalt => Answer::Halt(halt()),
            Step::Record(event, Weight::Run) => {
                self.record(event)?;
                Answer::Done
            }
            Step::Record(event, Weight::Service) => {
                Answer::Tried(self.record(event).map_err(ServiceError::from))
            }
            Step::Record(event, Weight::None) => {
                self.note_done(event, witness);
                Answer::Done
            }
            Step::AskLives(services) => Answer::Lives(health::running(host, &services)),
            Step::Plan(service) => Answer::Planned(self.plan_files(&service)),
            Step::Write(service) => Answer::Tried(self.write_files(&service)),
            Step::Undo(service) => Answer::Tried(self.undo_files(&service)),
            Step::Reload => {
                host.manager.reload()?;
                Answer::Done
            }
            Step::AskSettings(services) => Answer::Settings(self.check_settings(&services)?),
            Step::AskAdoption(service) => Answer::Adoption(self.adopt(&service)),
            Step::AskLibrary(service) => Answer::Tried(self.check_library(&service)),
            Step::AskLife(service) | Step::AskLaunch(service) => {
                Answer::Life(health::running_one(host, &service))
            }
            Step::Restart(service, purpose) => {
                if purpose == Purpose::Revert {
                    // What failed under its treatment may have used up its starts.
                    let _ = host.manager.reset_failed(&service);
                }
                Answer::Queued(self.restart(&service))
            }
            Step::AskJob(_, job) => Answer::Job(host.manager.job_result(&job)),
            Step::AskHealth(service) => match self.treatment(&service) {
                Some(treatment) => Answer::Health(health::look(host, treatment)),
                None => {
                    Answer::Health(health::Health::Sick(ServiceError::NotPlanned { service }.to_string()))
                }
            },
            Step::AskStill(service, life) => Answer::Still(self.still(&service, &life)),
            Step::Prove(service, life) => Answer::Proof(self.prove(&service, &life)),
            Step::StartTimer(service, ..) => Answer::Tried(self.start_timer(&service)),
            Step::StartTimersAgain(service) => Answer::Tried(self.start_timers_again(&service)),
            Step::Tell(notification) => {
                witness.told(&self.prepared, &notification);
                Answer::Done
            }
            Step::Wait(jobs, time) if jobs.is_empty() => {
                host.clock.sleep(time);
                Answer::Done
            }
            Step::Wait(jobs, time) => {
                host.manager.wait_for_any(&jobs.iter().collect::<Vec<_>>(), time)?;
                Answer::Done
            }
            Step::Finish(_) => Answer::Nothing,
        })
    }
}
