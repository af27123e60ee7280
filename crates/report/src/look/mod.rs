//! A look at a running trial as a document: a [`LookReport`] and its forms.

mod document;
mod forms;

pub use document::{LOOK_SCHEMA_VERSION, LookReport, LookedArm};

use heaptrial_evaluate::analysis::{Decision, LookStanding};
use heaptrial_evaluate::judgement::look::{Look, Peek};
use heaptrial_store::LookRecord;

use crate::document::Report;
use crate::finding_text::objection;
use crate::text::{days, names};
use crate::{ReportError, units};

const DAY_SECONDS: f64 = 86_400.0;

impl LookReport {
    /// Of a look that is taken now.
    pub fn of(look: &Look) -> Result<Self, ReportError> {
        let report = Report::of(&look.judgement)?;
        let arms = report.arms.iter().zip(&look.found.arms);
        let arms: Vec<LookedArm> = arms.map(|(arm, looked)| LookedArm::of(arm, Some(looked))).collect();
        let now = look.planned_wall_us.max(look.taken_us);
        let wait_seconds = look.next_wall_us.map(|next| (next - now).max(0) as f64 / 1e6);
        let mut result = result(&report, &arms, look.found.decision, wait_seconds);
        if look.ended_before_next && look.found.decision == Decision::Inconclusive {
            result = "inconclusive: the trial ended before its next look".to_owned();
        }
        let time = |microseconds: i64| look.judgement.time("a look", microseconds);
        Ok(Self {
            number: Some(look.number),
            planned_seconds: Some(look.planned_us as f64 / 1e6),
            data_until: time(look.reach.last_us.unwrap_or(look.planned_wall_us))?,
            accepted_gap_seconds: look.reach.gap_seconds,
            alpha: Some(look.alpha),
            alpha_spent: Some(look.alpha_spent),
            confidence_level: Some(1.0 - look.alpha),
            decision: Some(look.found.decision),
            result,
            next_look_at: look.next_wall_us.map(time).transpose()?,
            findings: report.findings.clone(),
            ..bare(&report, look.looks, time(look.taken_us)?, arms)
        })
    }

    /// Of what there is of a trial at `now_us` (microseconds since 1970): nothing that decides.
    pub fn of_peek(peek: &Peek, now_us: i64) -> Result<Self, ReportError> {
        let report = Report::of(&peek.judgement)?;
        let arms = report.arms.iter().map(|arm| LookedArm::of(arm, None)).collect();
        let time = |microseconds: i64| peek.judgement.time("a peek", microseconds);
        Ok(Self {
            data_until: time(peek.last_us.unwrap_or(now_us))?,
            ..bare(&report, peek.looks, time(now_us)?, arms)
        })
    }

    /// Of a look as it was recorded.
    pub fn stored(look: &LookRecord) -> Result<Self, ReportError> {
        serde_json::from_value(look.outcome.clone())
            .map_err(|source| ReportError::StoredLook { number: look.number, source })
    }

    pub fn record(&self) -> Result<serde_json::Value, ReportError> {
        Ok(serde_json::to_value(self)?)
    }
}

/// A document without what only a planned look has.
fn bare(report: &Report, looks: u32, at: String, arms: Vec<LookedArm>) -> LookReport {
    LookReport {
        schema_version: LOOK_SCHEMA_VERSION,
        trial: report.name.clone(),
        number: None,
        looks,
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
    }
}

/// `decided: mimalloc-2.0.9 needs 0.26 of glibc (0.25 to 0.28)`.
fn result(report: &Report, arms: &[LookedArm], decision: Decision, wait_seconds: Option<f64>) -> String {
    let control = report.control().map_or("the control", |control| control.name.as_str());
    let needs = |arm: &&LookedArm| {
        let shown = arm.ratio.as_ref().map_or_else(|| "an unknown share".to_owned(), ToString::to_string);
        let (ratio, interval) = shown.split_once(" (").unwrap_or((&shown, ""));
        let interval = if interval.is_empty() { String::new() } else { format!(" ({interval}") };
        let assumed = if arm.assumes_normality { ", assuming normality" } else { "" };
        let blocking = arm.objections.iter().filter(|known| known.blocks);
        let blocking: Vec<String> = blocking.map(objection).collect();
        let but = if blocking.is_empty() { String::new() } else { format!(", but: {}", blocking.join("; ")) };
        format!("{} needs {ratio} of {control}{interval}{assumed}{but}", arm.name)
    };
    match (decision, wait_seconds) {
        (Decision::NoDifference, _) => {
            let bloating = report.arms.iter().filter(|arm| !arm.control && arm.bloats());
            let bloating: Vec<&str> = bloating.map(|arm| arm.name.as_str()).collect();
            let but = match bloating.is_empty() {
                true => String::new(),
                false => format!(" at this age, but services bloat in {}", names(&bloating, bloating.len())),
            };
            format!("decided: every arm needs the same as {control}, within 10%{but}")
        }
        (Decision::Difference, _) => {
            let estimate = |arm: &LookedArm| arm.ratio.as_ref().map_or(f64::INFINITY, |ratio| ratio.estimate);
            let of = |standing: LookStanding| {
                let mut of: Vec<&LookedArm> = arms.iter().filter(|arm| arm.standing == standing).collect();
                of.sort_by(|a, b| estimate(a).total_cmp(&estimate(b)));
                of
            };
            let (mut less, more) = (of(LookStanding::Less), of(LookStanding::More));
            // The one to use first, then those that need less still and that something blocks.
            less.sort_by_key(|arm| arm.objections.iter().any(|known| known.blocks));
            if let Some(first) = less.first() {
                let worse = |arm: &&&LookedArm| estimate(arm) <= estimate(first);
                let parts: Vec<String> = less.iter().filter(worse).map(needs).collect();
                return format!("decided: {}", parts.join("; "));
            }
            let more: Vec<String> = more.iter().map(needs).collect();
            format!("decided: no arm is shown to need less than {control}; {}", names(&more, more.len()))
        }
        (Decision::Inconclusive, Some(seconds)) => {
            let wait = if seconds < DAY_SECONDS {
                units::duration(seconds)
            } else {
                days((seconds / DAY_SECONDS).ceil())
            };
            format!("inconclusive: {wait} more until the next look")
        }
        (Decision::Inconclusive, None) => format!(
            "inconclusive: this was the last look, and no arm is shown to differ from {control}, nor all to be within 10% of it; \
             plan the next trial with more services (heaptrial trial power)"
        ),
    }
}
