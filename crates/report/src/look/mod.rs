//! A look at a running trial as a document: a [`LookReport`] and its forms.

mod document;
mod terminal;

pub(crate) use terminal::NO_WORK;

pub use document::{LOOK_SCHEMA_VERSION, LookReport, LookedArm};

use heaptrial_analysis::{Decision, LookStanding};
use heaptrial_judgement::look::{Look, Peek};
use heaptrial_store::LookRecord;

use crate::document::{Finding, FindingKind, Report, Severity};
use crate::summary::{in_words, names, soon_at_control};
use crate::{ReportError, units};

impl LookReport {
    /// Of a look that is taken now.
    pub fn of(look: &Look) -> Result<Self, ReportError> {
        let report = Report::of(&look.judgement)?;
        let arms: Vec<LookedArm> = report
            .arms
            .iter()
            .zip(&look.found.arms)
            .map(|(arm, looked)| LookedArm::new(arm, looked))
            .collect();
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
        let arms = report.arms.iter().map(LookedArm::peeked).collect();
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

    /// What is recorded of it.
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
        Decision::NoDifference => {
            let bloats = |arm: &LookedArm| match arm.verdict.as_deref() {
                Some("bloating") => Some(format!("{} is bloating", arm.name)),
                Some("some_bloat") => Some(format!("some services of {} bloat", arm.name)),
                _ => None,
            };
            let others = arms.iter().filter(|arm| report.control().is_none_or(|own| own.name != arm.name));
            let but: Vec<String> = others.filter_map(bloats).collect();
            let but =
                if but.is_empty() { String::new() } else { format!(" at this age, but {}", told(&but)) };
            format!("decided: every arm needs the same as {control}, within 10%{but}")
        }
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

/// What speaks against an arm that needs less, as far as it does against the report's recommendation of it.
fn objections(report: &Report, arm: &LookedArm) -> Vec<String> {
    let about = |finding: &&Finding| finding.arms.is_empty() || finding.arms.contains(&arm.name);
    let grave = |finding: &&Finding| finding.severity == Severity::Grave;
    let mut told: Vec<String> = report
        .findings
        .iter()
        .filter(about)
        .filter(|finding| grave(finding) || finding.kind == FindingKind::LimitReached)
        .filter_map(|finding| match finding.kind {
            FindingKind::WorkBelowControl => Some("it does less work"),
            FindingKind::FlagLost => Some("its services lost a flag"),
            FindingKind::FailsMoreOften => Some("its services fail more often"),
            FindingKind::RestartedMoreOften => Some("its services were restarted more often"),
            FindingKind::ComparedYoung => Some("it is compared at a young age"),
            FindingKind::AgeAndTimeDisagree => Some("at an equal time it is not as at an equal age"),
            FindingKind::NeverConcurrent => Some("it never ran at the same time"),
            FindingKind::LimitReached => Some("some of its services reached their memory limit"),
            FindingKind::Swapped => Some("memory in swap is not in these figures"),
            kind => in_words(kind).map(|(what, _)| what),
        })
        .map(str::to_owned)
        .collect();
    match arm.verdict.as_deref() {
        Some("bloating") => told.push("it is bloating".to_owned()),
        Some("some_bloat") => told.push("some of its services bloat".to_owned()),
        _ => {
            let own = report.arms.iter().find(|own| own.name == arm.name);
            told.extend(
                own.zip(report.control()).and_then(|(own, control)| soon_at_control(report, own, control)),
            );
        }
    }
    if let Some(control) = report.control() {
        let of_it =
            report.findings.iter().filter(grave).filter(|finding| finding.arms.contains(&control.name));
        let what = of_it.filter_map(|finding| in_words(finding.kind)).map(|(what, _)| what);
        told.extend(what.map(|what| format!("the control {what}")));
    }
    told.dedup();
    told
}

/// `3 days`, `1 day`; below a day as any length of time.
fn in_days(seconds: f64) -> String {
    let days = seconds / 86_400.0;
    if days < 1.0 { units::duration(seconds) } else { crate::verdict::plural_days(days.ceil()) }
}
