//! A look at a running trial: an analysis at a time fixed in advance, which spends error probability.

mod begun;
mod reach;
mod schedule;

pub use begun::Begun;
pub use reach::{Gaps, Reach};
pub use schedule::PlannedLook;
pub(crate) use schedule::planned;

use crate::analysis::{LookStanding, analyse, look};
use heaptrial_store::{LookRecord, Store, TrialRecord};
use serde::Deserialize;
use serde_json::Value;

use crate::judgement::rows::{find_trial, rfc3339};
use crate::judgement::{Judgement, JudgementError, Options, Rows};
use schedule::{Scheduled, schedule};

/// What can be done about looks now.
#[derive(Debug, Clone, PartialEq)]
pub enum LookState {
    /// These looks are due and were not taken yet, by number.
    Due(Vec<u32>),
    /// All that are due were taken: the last one as recorded, and in how many seconds the next one is due.
    Taken {
        last: Box<LookRecord>,
        /// Seconds until the next one; `None` after the last, and where the trial ended before it.
        next_seconds: Option<f64>,
        /// The next look, where the trial ended before it.
        ended_before: Option<u32>,
    },
    /// These services have not had their treatment yet, from when on looks count.
    Open(Vec<String>),
    /// None was taken, and the trial ended before the first one.
    Ended {
        number: u32,
        /// When the trial ended, RFC 3339 in UTC.
        at: String,
    },
    NotDue {
        number: u32,
        /// When it is due, RFC 3339 in UTC.
        at: String,
        seconds: f64,
    },
    NoLooks,
}

/// A look that is taken now and not recorded yet.
#[derive(Debug)]
pub struct Look {
    /// The trial until the look's time, with the look's own confidence.
    pub judgement: Judgement,
    pub found: crate::analysis::Look,
    pub number: u32,
    pub looks: u32,
    /// When it was planned, in microseconds since the last service had its treatment ([`Begun`]).
    pub planned_us: i64,
    /// The same in microseconds since 1970.
    pub planned_wall_us: i64,
    /// What it spends of the error probability.
    pub alpha: f64,
    /// That and what all looks before it spent.
    pub alpha_spent: f64,
    pub reach: Reach,
    /// When it is taken, in microseconds since 1970.
    pub taken_us: i64,
    /// When the next one is planned, in microseconds since 1970; `None` after the last one.
    pub next_wall_us: Option<i64>,
    pub ended_before_next: bool,
}

/// What there is of a trial now, without anything that decides.
#[derive(Debug)]
pub struct Peek {
    pub judgement: Judgement,
    pub looks: u32,
    /// The last reading, in microseconds since 1970.
    pub last_us: Option<i64>,
}

/// What looks of a trial are due at `now_us` (microseconds since 1970). After the end of a trial no further one comes due,
/// but where gaps are accepted all are; then services that have not had their treatment yet are waited for no longer, either.
pub fn state(store: &Store, trial_id: i64, now_us: i64, gaps: Gaps) -> Result<LookState, JudgementError> {
    let trial = trial(store, trial_id)?;
    let schedule = schedule(store, &trial)?;
    if schedule.is_empty() {
        return Ok(LookState::NoLooks);
    }
    let mut taken = store.looks(trial_id)?;
    let begun = Begun::read(store, &trial)?;
    if !begun.open.is_empty() && trial.ended_wall_us.is_none() && gaps == Gaps::Refused {
        return Ok(LookState::Open(begun.open));
    }
    let elapsed = match (trial.ended_wall_us, gaps) {
        (Some(_), Gaps::Accepted) => i64::MAX,
        (Some(ended), Gaps::Refused) => ended.min(now_us) - begun.at_us,
        (None, _) => now_us - begun.at_us,
    };
    let due = schedule.iter().filter(|look| look.planned_us <= elapsed);
    let open: Vec<u32> = due
        .map(|look| look.number)
        .filter(|number| taken.iter().all(|taken| taken.number != *number))
        .collect();
    if !open.is_empty() {
        return Ok(LookState::Due(open));
    }
    let next = schedule.iter().find(|look| look.planned_us > elapsed);
    let until = |look: &Scheduled| (look.planned_us - elapsed) as f64 / 1e6;
    match (taken.pop(), next) {
        (Some(last), _) => Ok(LookState::Taken {
            last: Box::new(last),
            next_seconds: next.filter(|_| trial.ended_wall_us.is_none()).map(until),
            ended_before: next.filter(|_| trial.ended_wall_us.is_some()).map(|look| look.number),
        }),
        (None, Some(next)) if trial.ended_wall_us.is_some() => Ok(LookState::Ended {
            number: next.number,
            at: rfc3339(store.path(), "end of the trial", trial.ended_wall_us.unwrap_or(now_us))?,
        }),
        (None, Some(next)) => Ok(LookState::NotDue {
            number: next.number,
            at: rfc3339(store.path(), "a look", begun.at_us.saturating_add(next.planned_us))?,
            seconds: until(next),
        }),
        (None, None) => Ok(LookState::NoLooks),
    }
}

/// The time of a planned look, in microseconds since 1970; `None` where there is no look of this number.
pub fn planned_at(store: &Store, trial: &TrialRecord, number: u32) -> Result<Option<i64>, JudgementError> {
    let schedule = schedule(store, trial)?;
    let found = schedule.iter().find(|look| look.number == number);
    let Some(look) = found else { return Ok(None) };
    Ok(Some(Begun::read(store, trial)?.at_us.saturating_add(look.planned_us)))
}

pub fn recorded(store: &Store, trial_id: i64, number: u32) -> Result<Option<LookRecord>, JudgementError> {
    Ok(store.looks(trial_id)?.into_iter().find(|look| look.number == number))
}

/// Takes a planned look on the data up to its time, so that a late look gives what a punctual one would have given.
/// Refused where readings end long before that time, unless such gaps are accepted. [`Look::record`] spends its error.
pub fn take(
    store: &Store,
    trial_id: i64,
    number: u32,
    now_us: i64,
    gaps: Gaps,
    options: &Options,
) -> Result<Look, JudgementError> {
    let trial = trial(store, trial_id)?;
    let schedule = schedule(store, &trial)?;
    let Some(planned) = schedule.iter().find(|look| look.number == number).copied() else {
        return Err(JudgementError::Failed(format!(
            "trial `{}` has no look {number}; its plan has {}",
            trial.plan.name,
            schedule.len()
        )));
    };
    let standing = match recorded(store, trial_id, number.saturating_sub(1))? {
        Some(before) => standings(store, &before)?,
        None => Vec::new(),
    };
    let at = Begun::read(store, &trial)?.at_us;
    let until_us = at.saturating_add(planned.planned_us);
    let reach = reach::of(store, &trial, planned, until_us, gaps)?;
    let rows = Rows::read(store, trial_id)?.until(until_us);
    let fleet = rows.fleet(store, options)?;
    let last = planned.number as usize == schedule.len();
    let found = look(&fleet, &options.settings, planned.alpha, last, &standing);
    let next = schedule.iter().find(|look| look.number == planned.number + 1);
    let next = next.map(|look| at.saturating_add(look.planned_us));
    let ends = |next: &i64| trial.ended_wall_us.is_some_and(|ended| ended < *next);
    let ended_before_next = next.is_some_and(|next| ends(&next));
    let judgement = Judgement::with(store, rows, fleet, found.analysis.clone(), None, options)?;
    Ok(Look {
        judgement,
        found,
        number,
        looks: schedule.len() as u32,
        planned_us: planned.planned_us,
        planned_wall_us: until_us,
        alpha: planned.alpha,
        alpha_spent: schedule.iter().filter(|look| look.number <= number).map(|look| look.alpha).sum(),
        reach,
        taken_us: now_us,
        next_wall_us: next.filter(|next| !ends(next)),
        ended_before_next,
    })
}

impl Look {
    /// Records it with what it shows, which is what the trial has spent its error for.
    pub fn record(&self, store: &mut Store, outcome: Value) -> Result<(), JudgementError> {
        let record = LookRecord {
            number: self.number,
            planned_us: self.planned_us,
            taken_wall_us: self.taken_us,
            alpha: self.alpha,
            outcome,
        };
        Ok(store.add_look(self.judgement.rows.trial.id, &record)?)
    }
}

/// What there is now. It spends nothing and is not recorded.
pub fn peek(store: &Store, trial_id: i64, now_us: i64, options: &Options) -> Result<Peek, JudgementError> {
    let trial = trial(store, trial_id)?;
    let rows = Rows::read(store, trial_id)?;
    let fleet = rows.fleet(store, options)?;
    let analysis = analyse(&fleet, &options.settings);
    let last_us = reach::last_tick(store, trial_id, rows.until_us.min(now_us))?;
    Ok(Peek {
        judgement: Judgement::with(store, rows, fleet, analysis, None, options)?,
        looks: schedule(store, &trial)?.len() as u32,
        last_us,
    })
}

fn trial(store: &Store, trial_id: i64) -> Result<TrialRecord, JudgementError> {
    let trial = find_trial(store, trial_id)?;
    match trial.plan.kind.treats_services() {
        true => Ok(trial),
        false => Err(JudgementError::Refused(format!(
            "`{}` is a {}; only a field trial has looks",
            trial.plan.name,
            trial.plan.kind.describe()
        ))),
    }
}

/// What of an arm of a recorded look the next one needs.
#[derive(Deserialize)]
struct RecordedArm {
    standing: LookStanding,
}

fn standings(store: &Store, look: &LookRecord) -> Result<Vec<LookStanding>, JudgementError> {
    let found = Vec::<RecordedArm>::deserialize(&look.outcome["arms"]).map_err(|error| {
        let (path, number) = (store.path().display(), look.number);
        JudgementError::Failed(format!("{path}: look {number} cannot be read as it is stored: {error}"))
    })?;
    Ok(found.iter().map(|arm| arm.standing).collect())
}
