//! The looks that a field trial's plan fixed in advance.

use heaptrial_stats::{ALPHA, look_alphas};
use heaptrial_store::{LookRecord, Store, TrialRecord};

use crate::judgement::JudgementError;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scheduled {
    pub(crate) number: u32,
    /// Since the last service had its treatment.
    pub(crate) planned_us: i64,
    pub(crate) alpha: f64,
}

/// The looks of a trial; none where its parameters hold no plan. A plan without looks has one, at its end.
pub(crate) fn schedule(store: &Store, trial: &TrialRecord) -> Result<Vec<Scheduled>, JudgementError> {
    let Some(plan) = &trial.drawn else { return Ok(Vec::new()) };
    let times = plan.looks_or_end();
    let Some(end) = times.last().map(|end| end.0.as_secs_f64()) else { return Ok(Vec::new()) };
    let fractions: Vec<f64> = times.iter().map(|time| time.0.as_secs_f64() / end).collect();
    let alphas = look_alphas(&fractions, ALPHA).ok_or_else(|| {
        JudgementError::Failed(format!(
            "{}: the plan of trial `{}` cannot be used: its looks do not ascend from above 0",
            store.path().display(),
            trial.plan.name
        ))
    })?;
    let looks = times.iter().zip(alphas).zip(1..);
    Ok(looks
        .map(|((time, alpha), number)| Scheduled { number, planned_us: time.0.as_micros() as i64, alpha })
        .collect())
}

/// A look that a plan fixed in advance, taken or not.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedLook {
    pub number: u32,
    /// When, in microseconds since the last service had its treatment.
    pub planned_us: i64,
    pub alpha: f64,
    /// What was recorded of it; `None` where it was not taken.
    pub taken: Option<LookRecord>,
}

pub(crate) fn planned(store: &Store, trial: &TrialRecord) -> Result<Vec<PlannedLook>, JudgementError> {
    let schedule = schedule(store, trial)?;
    if schedule.is_empty() {
        return Ok(Vec::new());
    }
    let mut taken = store.looks(trial.id)?;
    let looks = schedule.into_iter().map(|look| {
        let place = taken.iter().position(|taken| taken.number == look.number);
        PlannedLook {
            number: look.number,
            planned_us: look.planned_us,
            alpha: look.alpha,
            taken: place.map(|place| taken.swap_remove(place)),
        }
    });
    Ok(looks.collect())
}
