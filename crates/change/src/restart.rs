//! A service from its restart to a life that does its work and stays.

use std::time::Duration;

use heaptrial_host::systemd::{Job, JobResult, SystemdError};
use heaptrial_model::{LifeKey, Pace, ServiceName};

use crate::error::ServiceError;
use crate::health::Health;
use crate::run::Purpose;
use crate::trial::Trial;

/// Between the first looks at a service; what is asked of systemd here is asked on a host that is being measured, so
/// that the gap doubles up to [`LONGEST_GAP`].
const FIRST_GAP: Duration = Duration::from_millis(10);
const LONGEST_GAP: Duration = Duration::from_millis(250);

/// A service that was given its treatment, and that systemd has started again by itself as often as that, will not come up. Not
/// at once: its predecessor's port may be taken for a moment.
const MOST_ENDS: u32 = 3;
const CRASHES_FOR: Duration = Duration::from_secs(30);

/// A restart that was queued.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Queued {
    /// What ran before.
    pub(crate) before: Option<LifeKey>,
    /// The job, where its end will be heard.
    pub(crate) job: Option<Job>,
}

/// Whether a life still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Still {
    Runs,
    /// It does not: its service is stopped.
    Stopped,
    /// It does not; how it ended, where that is known.
    Ended(Option<String>),
}

/// How far a restart is.
#[derive(Debug)]
enum At {
    Job(Job),
    Health,
    Settle { life: LifeKey, until: Duration },
}

/// A service that is being restarted, or that was and is watched.
#[derive(Debug)]
pub(crate) struct Restart {
    pub(crate) service: ServiceName,
    pub(crate) purpose: Purpose,
    before: Option<LifeKey>,
    at: At,
    began: Duration,
    deadline: Duration,
    next_look: Duration,
    gap: Duration,
    last_seen: String,
    /// How it ended by itself since it is watched.
    ended: Option<String>,
    /// How often systemd had started it again by itself when it was first looked at.
    restarts_at_first: Option<u32>,
}

/// What a look at a restart found.
pub(crate) enum Progress {
    Waits,
    /// It came a step further.
    Moved,
    /// This life does its work and stayed so.
    Settled(LifeKey),
    Failed(ServiceError),
}

impl Restart {
    /// `asks_program`: whether a look at its health asks the program itself.
    pub(crate) fn new(
        service: ServiceName,
        purpose: Purpose,
        queued: Queued,
        asks_program: bool,
        now: Duration,
        pace: &Pace,
    ) -> Self {
        Self {
            service,
            purpose,
            before: queued.before,
            at: queued.job.map_or(At::Health, At::Job),
            began: now,
            deadline: now + pace.health_timeout.0,
            next_look: now,
            // Asking a relay itself is dearer than asking systemd.
            gap: if asks_program { LONGEST_GAP } else { FIRST_GAP },
            last_seen: "it has just started".to_owned(),
            ended: None,
            restarts_at_first: None,
        }
    }

    pub(crate) fn job(&self) -> Option<&Job> {
        if let At::Job(job) = &self.at { Some(job) } else { None }
    }

    /// Looks how far it is.
    pub(crate) fn poll(&mut self, trial: &Trial<'_>, pace: &Pace) -> Progress {
        let host = trial.host;
        let now = host.clock.now();
        if let At::Job(job) = &self.at {
            match self.job_ended(host.manager.job_result(job), now, pace) {
                // What has just started is looked at before anything else happens.
                Progress::Moved => self.at = At::Health,
                other => return other,
            }
        }
        match &self.at {
            At::Settle { life, until } => {
                self.still(trial.still(&self.service, life), life.clone(), now < *until)
            }
            _ if now < self.next_look => self.waits(now, pace),
            _ => {
                let health = trial.health(&self.service);
                self.health(health, host.clock.now(), pace)
            }
        }
    }

    fn job_ended(
        &self,
        result: Result<Option<JobResult>, SystemdError>,
        now: Duration,
        pace: &Pace,
    ) -> Progress {
        let late = now >= self.deadline;
        match result {
            Ok(Some(result)) if result.is_done() => Progress::Moved,
            Ok(Some(result)) => {
                failed(format!("its restart ended as `{}`; see `journalctl -u {}`", result.0, self.service))
            }
            // Its end cannot be heard any more: the unit itself shows it.
            Err(SystemdError::Lost { .. }) => Progress::Moved,
            Ok(None) if late => failed(format!("its restart did not end within {}", pace.health_timeout)),
            Err(error) if late => Progress::Failed(error.into()),
            Ok(None) | Err(_) => Progress::Waits,
        }
    }

    fn health(&mut self, health: Health, now: Duration, pace: &Pace) -> Progress {
        self.next_look = now + self.gap;
        self.gap = (self.gap * 2).min(LONGEST_GAP);
        match health {
            Health::Sick(why) => Progress::Failed(ServiceError(why)),
            Health::Waiting { what, ended, restarts } => {
                self.last_seen = what;
                self.ended = ended.or(self.ended.take());
                match restarts.and_then(|restarts| self.crash_loop(restarts, now)) {
                    Some(why) => Progress::Failed(ServiceError(why)),
                    None => self.waits(now, pace),
                }
            }
            Health::Healthy(life) if self.before.as_ref() == Some(&life) => {
                self.last_seen = "what ran before still runs".to_owned();
                self.waits(now, pace)
            }
            Health::Healthy(life) if pace.settle.0.is_zero() => Progress::Settled(life),
            Health::Healthy(life) => {
                self.at = At::Settle { life, until: now + pace.settle.0 };
                Progress::Moved
            }
        }
    }

    fn still(&self, still: Still, life: LifeKey, has_to_stay: bool) -> Progress {
        match still {
            Still::Runs if has_to_stay => Progress::Waits,
            Still::Runs => Progress::Settled(life),
            Still::Ended(how) => ended_soon(how.as_deref()),
            Still::Stopped => ended_soon(Some("it ended without an error")),
        }
    }

    fn waits(&self, now: Duration, pace: &Pace) -> Progress {
        if now < self.deadline {
            return Progress::Waits;
        }
        let last_seen = match &self.ended {
            Some(ended) => format!("{}; it ended by itself before ({ended})", self.last_seen),
            None => self.last_seen.clone(),
        };
        failed(format!("it was not healthy within {}: {last_seen}", pace.health_timeout))
    }

    /// What is wrong with a service that ends again and again. One that is put back is waited for: there is nothing better to do.
    fn crash_loop(&mut self, restarts: u32, now: Duration) -> Option<String> {
        // A restart that is asked for begins the count again.
        let first = self.restarts_at_first.map_or(restarts, |first| first.min(restarts));
        self.restarts_at_first = Some(first);
        let ends = restarts - first;
        let watched = now.saturating_sub(self.began);
        if self.purpose == Purpose::Revert || ends < MOST_ENDS || watched < CRASHES_FOR {
            return None;
        }
        let how = self.ended.as_ref().map(|ended| format!(" ({ended})")).unwrap_or_default();
        Some(format!(
            "it ends by itself again and again{how}: systemd has started it {ends} times within {}; see `journalctl -u {}`",
            heaptrial_model::units::duration(watched.as_secs_f64()),
            self.service
        ))
    }
}

fn failed(why: String) -> Progress {
    Progress::Failed(ServiceError(why))
}

fn ended_soon(how: Option<&str>) -> Progress {
    let how = how.map_or(String::new(), |how| format!(" ({how})"));
    failed(format!("it ended or restarted by itself soon after it was healthy{how}"))
}
