//! A service from its restart to its proof.

use std::time::Duration;

use heaptrial_host::systemd::{Job, JobResult, SystemdError};
use heaptrial_model::{LifeKey, Pace, ServiceName};

use super::{Purpose, Restarting, Step, Still};
use crate::error::ServiceError;
use crate::health::Health;

/// Between the first looks at a service; what is asked of systemd here is asked on a host that is being measured, so
/// that the gap doubles up to [`LONGEST_GAP`].
const FIRST_GAP: Duration = Duration::from_millis(10);
const LONGEST_GAP: Duration = Duration::from_millis(250);

/// A service that was given its treatment, and that systemd has started again by itself as often as that, will not come up. Not
/// at once: its predecessor's port may be taken for a moment.
const MOST_ENDS: u32 = 3;
const CRASHES_FOR: Duration = Duration::from_secs(30);

/// How far a restart is.
#[derive(Debug)]
enum At {
    Job(Job),
    Health,
    Settle { life: LifeKey, until: Duration },
    Proof,
}

/// A service that is being restarted, or that was and is watched.
#[derive(Debug)]
pub(super) struct RestartStep {
    pub(super) service: ServiceName,
    pub(super) family: Option<String>,
    pub(super) purpose: Purpose,
    /// What ran before it was restarted.
    before: Option<LifeKey>,
    at: At,
    deadline: Duration,
    next_look: Duration,
    gap: Duration,
    seen: String,
    /// How it ended by itself since it is watched.
    ended: Option<String>,
    /// Since when it is watched, and how often systemd had started it again by itself then.
    began: Duration,
    restarts: Option<u32>,
}

/// What an answer makes of a restart.
pub(super) enum Progress {
    Same,
    /// It came a step further.
    Moved,
    /// It does its work, and has to stay so.
    Healthy(LifeKey),
    Settled(LifeKey),
    Failed(ServiceError),
}

impl RestartStep {
    pub(super) fn new(
        service: ServiceName,
        family: Option<String>,
        purpose: Purpose,
        restarting: Restarting,
        is_asked: bool,
        now: Duration,
        deadline: Duration,
    ) -> Self {
        Self {
            service,
            family,
            purpose,
            before: restarting.before,
            at: restarting.job.map_or(At::Health, At::Job),
            deadline,
            next_look: now,
            // Asking a relay itself is dearer than asking systemd.
            gap: if is_asked { LONGEST_GAP } else { FIRST_GAP },
            seen: "it has just started".to_owned(),
            ended: None,
            began: now,
            restarts: None,
        }
    }

    pub(super) fn job(&self) -> Option<&Job> {
        if let At::Job(job) = &self.at { Some(job) } else { None }
    }

    /// What has to be found out now; nothing if it is too early for that.
    pub(super) fn question(&self, now: Duration) -> Option<Step> {
        match &self.at {
            At::Job(job) => Some(Step::AskJob(self.service.clone(), job.clone())),
            At::Health if now < self.next_look => None,
            At::Health => Some(Step::AskHealth(self.service.clone())),
            At::Settle { life, .. } => Some(Step::AskStill(self.service.clone(), life.clone())),
            At::Proof => None,
        }
    }

    /// Takes in that it is too early to look again.
    pub(super) fn pass(&self, now: Duration, pace: &Pace) -> Progress {
        if matches!(self.at, At::Health) && now >= self.deadline {
            return self.unhealthy(pace);
        }
        Progress::Same
    }

    pub(super) fn take_job(
        &mut self,
        result: Result<Option<JobResult>, SystemdError>,
        now: Duration,
        pace: &Pace,
    ) -> Progress {
        let late = now >= self.deadline;
        match result {
            Ok(Some(result)) if result.is_done() => {
                self.at = At::Health;
                self.next_look = now;
                Progress::Moved
            }
            Ok(Some(result)) => {
                Progress::Failed(ServiceError::Restart { service: self.service.clone(), result })
            }
            Ok(None) if late => Progress::Failed(ServiceError::RestartLate { limit: pace.health_timeout }),
            Err(SystemdError::Lost { .. }) => {
                // Its end cannot be heard any more: the unit itself tells.
                self.at = At::Health;
                self.next_look = now;
                Progress::Moved
            }
            Err(error) if late => Progress::Failed(error.into()),
            Ok(None) | Err(_) => Progress::Same,
        }
    }

    pub(super) fn take_health(&mut self, health: Health, now: Duration, pace: &Pace) -> Progress {
        self.next_look = now + self.gap;
        self.gap = (self.gap * 2).min(LONGEST_GAP);
        match health {
            Health::Sick(why) => Progress::Failed(ServiceError::Sick(why)),
            Health::Waiting { what, ended, restarts } => {
                self.seen = what;
                self.ended = ended.or(self.ended.take());
                match restarts.and_then(|restarts| self.crash_loop(restarts, now)) {
                    Some(why) => Progress::Failed(ServiceError::Sick(why)),
                    None => self.pass(now, pace),
                }
            }
            Health::Healthy(life) if self.before.as_ref() == Some(&life) => {
                self.seen = "what ran before still runs".to_owned();
                self.pass(now, pace)
            }
            Health::Healthy(life) => {
                self.at = At::Settle { life: life.clone(), until: now + pace.settle.0 };
                Progress::Healthy(life)
            }
        }
    }

    pub(super) fn take_still(&mut self, still: Still, now: Duration) -> Progress {
        let At::Settle { life, until } = &self.at else { return Progress::Same };
        match still {
            Still::Ended(how) => Progress::Failed(ServiceError::EndedSoon { how }),
            Still::Stopped => Progress::Failed(ServiceError::EndedSoon {
                how: Some("it ended without an error".to_owned()),
            }),
            Still::Runs if now < *until => Progress::Same,
            Still::Runs => {
                let life = life.clone();
                self.at = At::Proof;
                Progress::Settled(life)
            }
        }
    }

    /// What is wrong with a service that ends again and again. One that is put back is waited for: there is nothing better to do.
    fn crash_loop(&mut self, restarts: u32, now: Duration) -> Option<String> {
        // A restart that is asked for begins the count anew.
        let first = self.restarts.map_or(restarts, |first| first.min(restarts));
        self.restarts = Some(first);
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

    fn unhealthy(&self, pace: &Pace) -> Progress {
        let limit = pace.health_timeout;
        let last_seen = match &self.ended {
            Some(ended) => format!("{}; it ended by itself before ({ended})", self.seen),
            None => self.seen.clone(),
        };
        Progress::Failed(ServiceError::Unhealthy { limit, last_seen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a service that is looked at each second is given up, and how; systemd starts it again every `every` seconds.
    fn given_up(purpose: Purpose, every: u32, counted_before: u32) -> Option<(u64, String)> {
        let pace = Pace::default();
        let limit = pace.health_timeout.0;
        let service = "tor@a.service".parse().unwrap();
        let mut step =
            RestartStep::new(service, None, purpose, Restarting::default(), false, Duration::ZERO, limit);
        (1..=limit.as_secs()).find_map(|second| {
            let health = Health::Waiting {
                what: "it is activating (auto-restart)".to_owned(),
                ended: Some("exit-code, exit status 3".to_owned()),
                restarts: Some(counted_before + second as u32 / every),
            };
            match step.take_health(health, Duration::from_secs(second), &pace) {
                Progress::Failed(why) => Some((second, why.to_string())),
                _ => None,
            }
        })
    }

    #[test]
    fn a_service_that_ends_again_and_again_is_not_waited_for_until_the_limit() {
        for (every, counted_before) in [(1, 0), (1, 40), (9, 0)] {
            let (second, why) = given_up(Purpose::Apply, every, counted_before).unwrap();
            assert!(second <= 36, "{second}");
            assert!(why.contains("by itself again and again (exit-code, exit status 3)"), "{why}");
        }
        assert_eq!(given_up(Purpose::Apply, 1, 0).unwrap().0, CRASHES_FOR.as_secs());
        // What ended twice may still come up, and what was put back is waited for.
        let limit = Pace::default().health_timeout.0.as_secs();
        assert_eq!(given_up(Purpose::Apply, 250, 0).unwrap().0, limit);
        assert_eq!(given_up(Purpose::Revert, 1, 0).unwrap().0, limit);
    }
}
