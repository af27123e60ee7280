//! How far data reach before the time of a look.

use heaptrial_stats::median;
use heaptrial_store::{Store, Tick, TrialRecord};

use super::schedule::Scheduled;
use crate::analysis::longest_distance;
use crate::judgement::JudgementError;
use crate::judgement::rows::rfc3339;

/// Readings may be missing right before a look for this share of the time after which it is planned, if that is longer than what
/// makes a gap: an agent that is restarted then is no reason to refuse.
const SHARE: f64 = 0.01;

/// What to do about a look at data that do not reach its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gaps {
    Refused,
    Accepted,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// The last reading before its time, in microseconds since 1970.
    pub last_us: Option<i64>,
    /// By how many seconds that is too early, if it was accepted.
    pub gap_seconds: Option<f64>,
}

/// Finds out whether data reach the time of a look (`planned_us`, microseconds since 1970): of several hosts those of each, since a look is of
/// all of them, and taken once.
pub(super) fn of(
    store: &Store,
    trial: &TrialRecord,
    look: Scheduled,
    planned_us: i64,
    gaps: Gaps,
) -> Result<Reach, JudgementError> {
    let before = |ended: Option<i64>| ended.filter(|ended| *ended < planned_us);
    let ended = before(trial.ended_wall_us);
    let ticks = store.ticks_until(trial.id, ended.unwrap_or(planned_us))?;
    let parts = store.parts(trial.id)?;
    let share = SHARE * look.planned_us as f64;
    let mut hosts = Vec::new();
    for part in &parts {
        let boots = store.boots_of(trial.id, &part.host)?;
        let own = ticks.iter().copied().filter(|tick| boots.contains(&tick.host_id)).collect();
        hosts.push(HostReach::of(Some(&part.host), own, before(part.ended_wall_us)));
    }
    if parts.is_empty() {
        hosts.push(HostReach::of(None, ticks, ended));
    }
    let start = trial.plan.started_wall_us;
    // Without any reading it is as long as the trial.
    let gap = |host: &HostReach| planned_us.saturating_sub(host.last_us.unwrap_or(start));
    let reaches = |host: &HostReach| host.reaches(gap(host) as f64, share);
    let Some(worst) = hosts.iter().max_by_key(|host| (!reaches(host), gap(host))) else {
        return Ok(Reach { last_us: None, gap_seconds: None });
    };
    let last_us = worst.last_us;
    let reached = reaches(worst);
    if reached || gaps == Gaps::Accepted {
        return Ok(Reach { last_us, gap_seconds: (!reached).then_some(gap(worst) as f64 / 1e6) });
    }
    let on = worst.host.map_or_else(String::new, |host| format!(" on host `{host}`"));
    let (trial, number) = (format!("trial `{}`{on}", trial.plan.name), look.number);
    let planned_at = rfc3339(store.path(), "a look", planned_us)?;
    let what = match (worst.ended_us, last_us) {
        (Some(ended), _) => {
            let ended = rfc3339(store.path(), "end of the trial", ended)?;
            format!("{trial} ended at {ended}, before its look {number} of {planned_at}")
        }
        (None, Some(last)) => {
            let last = rfc3339(store.path(), "a reading", last)?;
            format!(
                "look {number} of {trial} is of the data until {planned_at}, and the last reading before it was at {last}"
            )
        }
        (None, None) => {
            format!(
                "look {number} of {trial} is of the data until {planned_at}, and there are no readings before it"
            )
        }
    };
    Err(JudgementError::LookGap { what, ended: worst.ended_us.is_some() })
}

/// How far the readings of a host go before a look.
struct HostReach<'a> {
    /// `None` where there is one host.
    host: Option<&'a str>,
    last_us: Option<i64>,
    usual_us: f64,
    ended_us: Option<i64>,
}

impl<'a> HostReach<'a> {
    /// Of the ticks of a host: those of a boot are distinguished by the clock that nobody sets.
    fn of(host: Option<&'a str>, mut ticks: Vec<Tick>, ended_us: Option<i64>) -> Self {
        let last_us = ticks.iter().map(|tick| tick.wall_us).max();
        ticks.sort_unstable_by_key(|tick| (tick.host_id, tick.boottime_us));
        let distances: Vec<f64> = ticks
            .windows(2)
            .filter(|pair| pair[0].host_id == pair[1].host_id)
            .map(|pair| (pair[1].boottime_us - pair[0].boottime_us) as f64)
            .collect();
        Self { host, last_us, usual_us: median(&distances).unwrap_or(0.0), ended_us }
    }

    fn reaches(&self, gap_us: f64, share_us: f64) -> bool {
        self.last_us.is_some()
            && self.ended_us.is_none()
            && gap_us <= share_us.max(longest_distance(self.usual_us, 0.0))
    }
}

/// The last reading until then, in microseconds since 1970.
pub(super) fn last_tick(store: &Store, trial_id: i64, until_us: i64) -> Result<Option<i64>, JudgementError> {
    Ok(store.ticks_until(trial_id, until_us)?.iter().map(|tick| tick.wall_us).max())
}
