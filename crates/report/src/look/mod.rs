//! A look at a running trial: a [`LookReport`] from the rows of a database.

mod document;
mod reach;
mod terminal;

pub(crate) use terminal::NO_WORK;

pub use document::{LOOK_SCHEMA_VERSION, LookReport, LookedArm};
pub use reach::Gaps;

use heaptrial_analysis::{Analysis, Decision, LookStanding, Settings, look};
use heaptrial_store::{LookRecord, Store, TrialRecord};

use crate::build::{self, rfc3339};
use crate::document::{FindingKind, Kind, Report, Severity};
use crate::fleet::FleetRows;
use crate::looks::{self, Scheduled};
use crate::summary::{names, odd};
use crate::units;
use crate::{Options, ReportError, field};

/// What can be done about looks now.
#[derive(Debug, Clone, PartialEq)]
pub enum LookState {
    /// These looks are due and were not taken yet, by number.
    Due(Vec<u32>),
    /// All that are due were taken: the last one as stored, and in how many seconds the next one is due.
    Taken {
        /// The last look.
        last: Box<LookReport>,
        /// Seconds until the next one; `None` after the last, and where the trial ended before it.
        next_seconds: Option<f64>,
        /// The next look, where the trial ended before it.
        ended_before: Option<u32>,
    },
    /// None was taken, and the trial ended before the first one.
    Ended {
        /// Number of the first one.
        number: u32,
        /// When the trial ended, RFC 3339 in UTC.
        at: String,
    },
    /// None is due yet.
    NotDue {
        /// Number of the first one.
        number: u32,
        /// When it is due, RFC 3339 in UTC.
        at: String,
        /// In how many seconds.
        seconds: f64,
    },
    /// The plan of the trial has no looks.
    NoLooks,
}

/// What looks of a trial are due at `now_us` (microseconds since 1970). After the end of a trial no further one comes due,
/// but where gaps are accepted all are.
pub fn look_state(store: &Store, trial_id: i64, now_us: i64, gaps: Gaps) -> Result<LookState, ReportError> {
    let trial = trial(store, trial_id)?;
    let schedule = looks::schedule(store, &trial)?;
    let taken = store.looks(trial_id)?;
    let elapsed = match (trial.ended_wall_us, gaps) {
        (Some(_), Gaps::Accepted) => i64::MAX,
        (Some(ended), Gaps::Refused) => ended.min(now_us) - trial.plan.started_wall_us,
        (None, _) => now_us - trial.plan.started_wall_us,
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
    match (taken.last(), next) {
        (Some(last), _) => Ok(LookState::Taken {
            last: Box::new(stored(store, last)?),
            next_seconds: next.filter(|_| trial.ended_wall_us.is_none()).map(until),
            ended_before: next.filter(|_| trial.ended_wall_us.is_some()).map(|look| look.number),
        }),
        (None, Some(next)) if trial.ended_wall_us.is_some() => Ok(LookState::Ended {
            number: next.number,
            at: rfc3339(store, "end of the trial", trial.ended_wall_us.unwrap_or(now_us))?,
        }),
        (None, Some(next)) => Ok(LookState::NotDue {
            number: next.number,
            at: rfc3339(store, "a look", trial.plan.started_wall_us.saturating_add(next.planned_us))?,
            seconds: until(next),
        }),
        (None, None) => Ok(LookState::NoLooks),
    }
}

/// The number of a look that was taken already; its stored report.
pub fn stored_look(store: &Store, trial_id: i64, number: u32) -> Result<Option<LookReport>, ReportError> {
    let taken = store.looks(trial_id)?;
    taken.iter().find(|look| look.number == number).map(|look| stored(store, look)).transpose()
}

fn stored(store: &Store, look: &LookRecord) -> Result<LookReport, ReportError> {
    serde_json::from_value(look.outcome.clone()).map_err(|error| ReportError::StoredLook {
        path: store.path().to_owned(),
        number: look.number,
        why: error.to_string(),
    })
}

/// Takes a planned look on the data up to its time, so that a late look gives what a punctual one would have given,
/// and records it. One that was taken already is given as it is stored. Refused where readings end long before that time,
/// unless such gaps are accepted.
pub fn take_look(
    store: &mut Store,
    trial_id: i64,
    number: u32,
    now_us: i64,
    gaps: Gaps,
    options: &Options,
) -> Result<LookReport, ReportError> {
    if let Some(taken) = stored_look(store, trial_id, number)? {
        return Ok(taken);
    }
    let trial = trial(store, trial_id)?;
    let schedule = looks::schedule(store, &trial)?;
    let Some(planned) = schedule.iter().find(|look| look.number == number).copied() else {
        return Err(ReportError::NoLook { trial: trial.plan.name, number, looks: schedule.len() });
    };
    let before = stored_look(store, trial_id, number.saturating_sub(1))?;
    let standing: Vec<LookStanding> =
        before.iter().flat_map(|look| &look.arms).map(|arm| arm.standing).collect();
    let last = planned.number as usize == schedule.len();
    let until_us = trial.plan.started_wall_us.saturating_add(planned.planned_us);
    let reach = reach::of(store, &trial, planned, gaps)?;
    let kind = build::kind_of(store, &trial)?;
    let rows = FleetRows::read(store, &trial, kind)?.until(until_us);
    let fleet = rows.fleet(store, &trial, kind, options)?;
    let found = look(&fleet, &options.settings, planned.alpha, last, &standing);
    let report = field::from_fleet(store, &trial, kind, &rows, (&fleet, &found.analysis))?;
    let arms: Vec<LookedArm> =
        report.arms.iter().zip(&found.arms).map(|(arm, looked)| LookedArm::new(arm, looked)).collect();
    let next = schedule.iter().find(|look| look.number == planned.number + 1);
    let ends = |look: &&Scheduled| {
        let at = trial.plan.started_wall_us.saturating_add(look.planned_us);
        trial.ended_wall_us.is_some_and(|ended| ended < at)
    };
    let ended_before_next = next.is_some_and(|look| ends(&look));
    let next = next.filter(|look| !ends(look));
    let now = until_us.max(now_us) - trial.plan.started_wall_us;
    let wait_seconds = next.map(|next| ((next.planned_us - now).max(0)) as f64 / 1e6);
    let spent = schedule.iter().filter(|look| look.number <= number).map(|look| look.alpha).sum();
    let mut result = result(&report, &arms, found.decision, wait_seconds);
    if ended_before_next && found.decision == Decision::Inconclusive {
        result = "inconclusive: the trial ended before its next look".to_owned();
    }
    let document = LookReport {
        number: Some(planned.number),
        planned_seconds: Some(planned.planned_us as f64 / 1e6),
        data_until: rfc3339(store, "a look", reach.last_us.unwrap_or(until_us))?,
        accepted_gap_seconds: reach.gap_seconds,
        alpha: Some(planned.alpha),
        alpha_spent: Some(spent),
        confidence_level: Some(1.0 - planned.alpha),
        decision: Some(found.decision),
        result,
        next_look_at: next
            .map(|next| rfc3339(store, "a look", trial.plan.started_wall_us.saturating_add(next.planned_us)))
            .transpose()?,
        findings: odd::findings(&report).to_vec(),
        ..bare(store, &report, schedule.len(), now_us, arms)?
    };
    store.add_look(
        trial_id,
        &LookRecord {
            number: planned.number,
            planned_us: planned.planned_us,
            taken_wall_us: now_us,
            alpha: planned.alpha,
            outcome: serde_json::to_value(&document)?,
        },
    )?;
    Ok(document)
}

/// What there is now, without anything that decides: no ratios, intervals, tests or verdicts. It spends nothing and is
/// not recorded.
pub fn peek(store: &Store, trial_id: i64, now_us: i64, options: &Options) -> Result<LookReport, ReportError> {
    let trial = trial(store, trial_id)?;
    let kind = build::kind_of(store, &trial)?;
    let rows = FleetRows::read(store, &trial, kind)?;
    let fleet = rows.fleet(store, &trial, kind, options)?;
    let analysis: Analysis = heaptrial_analysis::analyse(&fleet, &Settings { ..options.settings });
    let report = field::from_fleet(store, &trial, kind, &rows, (&fleet, &analysis))?;
    let arms = report.arms.iter().map(LookedArm::peeked).collect();
    let looks = looks::schedule(store, &trial)?.len();
    let last_us = reach::last_tick(store, trial_id, rows.until_us.min(now_us))?;
    Ok(LookReport {
        data_until: rfc3339(store, "a peek", last_us.unwrap_or(now_us))?,
        ..bare(store, &report, looks, now_us, arms)?
    })
}

fn trial(store: &Store, trial_id: i64) -> Result<TrialRecord, ReportError> {
    let trial = build::find_trial(store, trial_id)?;
    match build::kind_of(store, &trial)? {
        Kind::Field => Ok(trial),
        kind => Err(ReportError::NotAField { trial: trial.plan.name, kind: kind.describe() }),
    }
}

/// A document without what only a planned look has.
fn bare(
    store: &Store,
    report: &Report,
    looks: usize,
    now_us: i64,
    arms: Vec<LookedArm>,
) -> Result<LookReport, ReportError> {
    let at = rfc3339(store, "now", now_us)?;
    Ok(LookReport {
        schema_version: LOOK_SCHEMA_VERSION,
        trial: report.name.clone(),
        number: None,
        looks: looks as u32,
        started_at: report.started_at.clone(),
        planned_seconds: None,
        data_until: at.clone(),
        accepted_gap_seconds: None,
        taken_at: at,
        metric: report.analysis.metric,
        matched_age_seconds: report.analysis.matched_age_seconds,
        alpha: None,
        alpha_spent: None,
        confidence_level: None,
        arms,
        decision: None,
        result: "a peek decides nothing".to_owned(),
        next_look_at: None,
        findings: Vec::new(),
    })
}

/// `decided: mimalloc-2.0.9 needs 0.26 of glibc (0.25 to 0.28)`.
fn result(report: &Report, arms: &[LookedArm], decision: Decision, wait_seconds: Option<f64>) -> String {
    let control = report.control().map_or("the control", |control| control.name.as_str());
    let needs = |arm: &LookedArm| {
        let Some(ratio) = &arm.ratio else { return format!("{} has no figure now", arm.name) };
        let interval = ratio.low.zip(ratio.high).map_or_else(String::new, |(low, high)| {
            format!(" ({} to {})", units::ratio(low), units::ratio(high))
        });
        let assumed = if arm.assumes_normality { ", assuming normality" } else { "" };
        format!("{} needs {} of {control}{interval}{assumed}", arm.name, units::ratio(ratio.estimate))
    };
    let told = |objections: &[String]| names(objections, objections.len());
    match decision {
        Decision::NoDifference => format!("decided: every arm needs the same as {control}, within 10%"),
        Decision::Difference => {
            let estimate = |arm: &LookedArm| arm.ratio.as_ref().map_or(f64::INFINITY, |ratio| ratio.estimate);
            let of = |standing: LookStanding| {
                let mut of: Vec<&LookedArm> = arms.iter().filter(|arm| arm.standing == standing).collect();
                of.sort_by(|a, b| estimate(a).total_cmp(&estimate(b)));
                of
            };
            let (less, more) = (of(LookStanding::Less), of(LookStanding::More));
            let clean = less.iter().position(|arm| objections(report, arm).is_empty());
            if let Some(place) = clean {
                let passed: Vec<String> = less[..place]
                    .iter()
                    .map(|arm| format!("; {}, but {}", needs(arm), told(&objections(report, arm))))
                    .collect();
                return format!("decided: {}{}", needs(less[place]), passed.concat());
            }
            if let Some(first) = less.first() {
                return format!("decided: {}, but {}", needs(first), told(&objections(report, first)));
            }
            let more: Vec<String> = more.iter().map(|arm| needs(arm)).collect();
            format!("decided: no arm is shown to need less than {control}; {}", names(&more, more.len()))
        }
        Decision::Inconclusive => match wait_seconds {
            Some(seconds) => format!("inconclusive: {} more until the next look", in_days(seconds)),
            None => format!(
                "inconclusive: this was the last look, and no arm is shown to differ from {control}, nor all to be within \
                 10% of it; plan the next trial with more services (heaptrial trial power)"
            ),
        },
    }
}

/// What speaks against an arm that needs less.
fn objections(report: &Report, arm: &LookedArm) -> Vec<String> {
    let grave = odd::findings(report)
        .iter()
        .filter(|finding| finding.severity == Severity::Grave && finding.arms.first() == Some(&arm.name));
    let mut told: Vec<String> = grave
        .filter_map(|finding| match finding.kind {
            FindingKind::WorkBelowControl => Some("it does less work"),
            FindingKind::FlagLost => Some("its services lost a flag"),
            FindingKind::FailsMoreOften => Some("its services fail more often"),
            FindingKind::RestartedMoreOften => Some("its services were restarted more often"),
            FindingKind::ComparedYoung => Some("it is compared at a young age"),
            FindingKind::NeverConcurrent => Some("it never ran at the same time"),
            _ => None,
        })
        .map(str::to_owned)
        .collect();
    if arm.verdict.as_deref() == Some("bloating") {
        told.push("it is bloating".to_owned());
    }
    told.dedup();
    told
}

/// `3 days`, `1 day`; below a day as any length of time.
fn in_days(seconds: f64) -> String {
    let days = seconds / 86_400.0;
    if days < 1.0 { units::duration(seconds) } else { crate::verdict::plural_days(days.ceil()) }
}
