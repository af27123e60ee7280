//! A service from its restart to a life that does its work and stays.

use std::time::Duration;

use heaptrial_model::{LifeKey, Pace, ServiceName};

use crate::error::ServiceError;
use crate::health::Health;
use crate::run::Purpose;
use crate::trial::Trial;

/// Between the first looks at a service. Asking systemd disturbs a host that is measured: later gaps are a share of the time
/// that the restart has taken, by which it is noticed late at most.
const FIRST_GAP: Duration = Duration::from_millis(2);
const LONGEST_GAP: Duration = Duration::from_millis(250);
const SHARE: u32 = 8;

/// A service whose restart was queued.
#[derive(Debug)]
pub(crate) struct Restart {
    pub(crate) service: ServiceName,
    pub(crate) purpose: Purpose,
    before: Option<LifeKey>,
    /// The life that does its work, and until when it has to stay.
    settles: Option<(LifeKey, Duration)>,
    queued: Duration,
    next_look: Duration,
    pub(crate) gap: Duration,
}

impl Restart {
    /// `before` is the life that ran when it was queued.
    pub(crate) fn new(
        service: ServiceName,
        purpose: Purpose,
        before: Option<LifeKey>,
        now: Duration,
    ) -> Self {
        let next_look = now + FIRST_GAP;
        Self { service, purpose, before, settles: None, queued: now, next_look, gap: FIRST_GAP }
    }

    /// The life that does its work and stayed so, once there is one.
    pub(crate) fn look(&mut self, trial: &Trial<'_>, pace: &Pace) -> Result<Option<LifeKey>, ServiceError> {
        let now = trial.host.clock.now();
        if let Some((life, until)) = &self.settles {
            trial.still_runs(&self.service, life).map_err(|how| {
                ServiceError(format!("it ended or restarted by itself soon after it was healthy ({how})"))
            })?;
            return Ok((now >= *until).then(|| life.clone()));
        }
        if now < self.next_look {
            return Ok(None);
        }
        let took = now - self.queued;
        self.gap = (took / SHARE).clamp(FIRST_GAP, LONGEST_GAP);
        self.next_look = now + self.gap;
        let last_seen = match trial.health(&self.service) {
            Health::Sick(why) => return Err(ServiceError(why)),
            Health::Healthy(life) if self.before.as_ref() != Some(&life) => {
                self.settles = Some((life, trial.host.clock.now() + pace.settle.0));
                return self.look(trial, pace);
            }
            Health::Healthy(_) => "what ran before still runs".to_owned(),
            Health::Waiting(what) => what,
        };
        let limit = pace.health_timeout;
        match took < limit.0 {
            true => Ok(None),
            false => Err(ServiceError(format!("it was not healthy within {limit}: {last_seen}"))),
        }
    }
}
