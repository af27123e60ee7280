//! How far data reach before the time of a look.

use heaptrial_stats::median;
use heaptrial_store::{PartRecord, Store, TrialRecord};

use super::schedule::Scheduled;
use crate::JudgementError;
use crate::rows::rfc3339;

/// Readings that may be missing right before a look,
const INTERVALS: f64 = 5.0;
/// or this share of the time since the trial's start, whichever is longer: an agent that is restarted then is no reason
/// to refuse.
const SHARE: f64 = 0.01;

/// What to do about a look at data that do not reach its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gaps {
    /// It is not taken.
    Refused,
    /// It is taken, and says so.
    Accepted,
}

/// The data of a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// The last reading before its time, in microseconds since 1970.
    pub last_us: Option<i64>,
    /// By how many seconds that is too early, if it was accepted.
    pub gap_seconds: Option<f64>,
}

/// Finds out whether data reach the time of a look.
pub(super) fn of(
    store: &Store,
    trial: &TrialRecord,
    look: Scheduled,
    gaps: Gaps,
) -> Result<Reach, JudgementError> {
    let planned_us = trial.plan.started_wall_us.saturating_add(look.planned_us);
    let ended = trial.ended_wall_us.filter(|ended| *ended < planned_us);
    let ticks = ticks_until(store, trial.id, ended.unwrap_or(planned_us))?;
    let last_us = ticks.last().copied();
    let distances: Vec<f64> = ticks.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let longest = (INTERVALS * median(&distances).unwrap_or(0.0)).max(SHARE * look.planned_us as f64);
    // Without any reading it is as long as the trial.
    let gap = planned_us.saturating_sub(last_us.unwrap_or(trial.plan.started_wall_us)) as f64;
    let behind = behind(store, trial, planned_us)?;
    let (host, gap, ended, last_us) = match behind {
        // Of several hosts the one that lags most: a look is of all of them, and taken once.
        Some(part) => {
            let last_us = part.last.map(|tick| tick.wall_us);
            let gap = planned_us.saturating_sub(last_us.unwrap_or(trial.plan.started_wall_us)) as f64;
            let ended = part.ended_wall_us.filter(|ended| *ended < planned_us);
            (Some(part.host), gap, ended, last_us)
        }
        None => (None, gap, ended, last_us),
    };
    let reached = last_us.is_some() && gap <= longest && ended.is_none();
    if reached || gaps == Gaps::Accepted {
        return Ok(Reach { last_us, gap_seconds: (!reached).then_some(gap / 1e6) });
    }
    let on = host.map_or_else(String::new, |host| format!("` on host `{host}"));
    let (trial_name, number) = (format!("{}{on}", trial.plan.name), look.number);
    let planned_at = rfc3339(store.path(), "a look", planned_us)?;
    Err(match ended {
        Some(ended) => JudgementError::LookAfterEnd {
            trial: trial_name,
            number,
            planned_at,
            ended_at: rfc3339(store.path(), "end of the trial", ended)?,
        },
        None => JudgementError::LookGap {
            trial: trial_name,
            number,
            planned_at,
            last_at: last_us.map(|at| rfc3339(store.path(), "a reading", at)).transpose()?,
        },
    })
}

/// The host of a gathered trial whose readings end first before a time; `None` where all reach it, or there is one host.
fn behind(store: &Store, trial: &TrialRecord, until_us: i64) -> Result<Option<PartRecord>, JudgementError> {
    let reach = |part: &PartRecord| {
        let last = part.last.map_or(i64::MIN, |tick| tick.wall_us);
        part.ended_wall_us.map_or(last, |ended| last.min(ended))
    };
    let worst = store.parts(trial.id)?.into_iter().min_by_key(reach);
    Ok(worst.filter(|part| reach(part) < until_us))
}

/// The last reading until then, in microseconds since 1970.
pub(super) fn last_tick(store: &Store, trial_id: i64, until_us: i64) -> Result<Option<i64>, JudgementError> {
    Ok(ticks_until(store, trial_id, until_us)?.last().copied())
}

/// When the agent read services until then, in order of time.
fn ticks_until(store: &Store, trial_id: i64, until_us: i64) -> Result<Vec<i64>, JudgementError> {
    let ticks = store.recent_ticks(trial_id, u32::MAX)?;
    let mut times: Vec<i64> = ticks.iter().map(|tick| tick.wall_us).filter(|at| *at <= until_us).collect();
    // The wall clock may have been set.
    times.sort_unstable();
    Ok(times)
}
