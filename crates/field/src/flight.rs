//! A service from its restart to its proof.

use std::time::Instant;

use heaptrial_host::systemd::Job;
use heaptrial_host::{HostRoot, Process};
use heaptrial_model::{LifeKey, ServiceName};

use crate::health::{self, Health, Watch};
use crate::journal::Event;
use crate::run::{Purpose, Run};
use crate::trial::{FieldError, News};

/// A service that is being restarted.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) service: ServiceName,
    pub(crate) family: Option<String>,
    pub(crate) purpose: Purpose,
    pub(crate) step: Step,
    pub(crate) watch: Watch,
    pub(crate) deadline: Instant,
}

/// How far it is.
#[derive(Debug)]
pub(crate) enum Step {
    Restart(Job),
    Health { last_seen: String },
    Settle { life: LifeKey, until: Instant },
}

/// What came of looking at a flight.
pub(crate) enum Landing {
    Flying(Flight),
    Landed,
    Failed { service: ServiceName, purpose: Purpose, why: String },
}

impl Run<'_, '_> {
    /// Looks at every service that is being restarted; tells whether anything happened.
    pub(crate) fn look(&mut self) -> Result<bool, FieldError> {
        let mut moved = false;
        for flight in std::mem::take(&mut self.flights) {
            let step = std::mem::discriminant(&flight.step);
            match self.look_at(flight)? {
                Landing::Flying(flight) => {
                    moved |= std::mem::discriminant(&flight.step) != step;
                    self.flights.push(flight);
                }
                Landing::Landed => moved = true,
                Landing::Failed { service, purpose, why } => {
                    moved = true;
                    self.fail(service, purpose, why)?;
                }
            }
        }
        Ok(moved)
    }

    fn look_at(&mut self, mut flight: Flight) -> Result<Landing, FieldError> {
        let failed = |flight: Flight, why: String| {
            Ok(Landing::Failed { service: flight.service, purpose: flight.purpose, why })
        };
        let late = Instant::now() >= flight.deadline;
        let limit = self.pace.health_timeout;
        match &flight.step {
            Step::Restart(job) => match self.trial.systemd.job_result(job) {
                Ok(Some(result)) if result.is_done() => {
                    flight.step = Step::Health { last_seen: "it has just started".to_owned() };
                    self.look_at(flight)
                }
                Ok(Some(result)) => {
                    let why = format!(
                        "its restart ended as `{}`; see `journalctl -u {}`",
                        result.0, flight.service
                    );
                    failed(flight, why)
                }
                Ok(None) if late => failed(flight, format!("its restart did not end within {limit}")),
                Err(error) if late => failed(flight, error.to_string()),
                Ok(None) | Err(_) => Ok(Landing::Flying(flight)),
            },
            Step::Health { last_seen } => {
                let last_seen = last_seen.clone();
                let Some(treatment) = self.trial.treatment(&flight.service).cloned() else {
                    return failed(flight, "the frozen plan does not name it".to_owned());
                };
                match flight.watch.look(self.trial.systemd, &treatment) {
                    Health::Sick(why) => failed(flight, why),
                    Health::Waiting(why) if late => {
                        failed(flight, format!("it was not healthy within {limit}: {why}"))
                    }
                    Health::Waiting(why) => {
                        if why != last_seen {
                            flight.step = Step::Health { last_seen: why };
                        }
                        Ok(Landing::Flying(flight))
                    }
                    Health::Healthy(life) => self.healthy(flight, life),
                }
            }
            Step::Settle { life, until } => {
                let same =
                    Process::new(&HostRoot::default(), life.pid).life_key().is_ok_and(|now| now == *life);
                if !same {
                    let status = self.trial.systemd.status(&flight.service);
                    let how = status
                        .map_or(String::new(), |status| format!(" ({})", health::how_it_ended(&status)));
                    return failed(
                        flight,
                        format!("it ended or restarted by itself soon after it was healthy{how}"),
                    );
                }
                if Instant::now() < *until {
                    return Ok(Landing::Flying(flight));
                }
                let life = life.clone();
                self.settled(flight, life)
            }
        }
    }

    fn healthy(&mut self, mut flight: Flight, life: LifeKey) -> Result<Landing, FieldError> {
        let healthy = Event::Healthy { service: flight.service.clone(), life: life.clone() };
        match flight.purpose {
            Purpose::Apply => self.trial.record(healthy)?,
            Purpose::Revert => self.trial.note(healthy, self.witness),
        }
        if self.pace.settle.0.is_zero() {
            return self.settled(flight, life);
        }
        flight.step = Step::Settle { life, until: Instant::now() + self.pace.settle.0 };
        Ok(Landing::Flying(flight))
    }

    fn settled(&mut self, flight: Flight, life: LifeKey) -> Result<Landing, FieldError> {
        let Flight { service, purpose, .. } = flight;
        if purpose == Purpose::Revert {
            self.reverted(service);
            return Ok(Landing::Landed);
        }
        let Some(treatment) = self.trial.treatment(&service) else { return Ok(Landing::Landed) };
        let proved = health::options_in_force(treatment)
            .and_then(|()| health::proof(&life, treatment, &self.trial.identifier))
            .and_then(|identity| self.trial.start_timer(&service).map(|()| identity));
        match proved {
            Ok(identity) => {
                let committed = Event::Committed {
                    service: service.clone(),
                    life: life.clone(),
                    identity: Some(identity),
                };
                self.trial.record(committed)?;
                self.tell(&service, &News::Committed(&life));
                Ok(Landing::Landed)
            }
            Err(why) => Ok(Landing::Failed { service, purpose, why }),
        }
    }
}
