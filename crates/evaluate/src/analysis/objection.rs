//! What is uncertain about a recommendation of an arm in place of the control, and what blocks one.
//!
//! A finding about the data blocks a recommendation only if it could account for the difference: each says how large a
//! difference it could explain, where that is known.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::outcome::{
    Analysis, ArmResult, DAY, Estimate, Finding, FindingKind, Growth, Severity, Verdict, WorkStanding,
};

/// What is uncertain about an arm that needs less than the control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Objection {
    #[serde(flatten)]
    pub reason: Reason,
    /// The factor by which it could make the arm look smaller than it is; `None` where that is not known.
    pub explains: Option<f64>,
    /// Whether it blocks a recommendation. If not, it is a caveat.
    pub blocks: bool,
}

/// What an objection is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// The arm is shown to do less work than the control.
    LessWork,
    Bloats,
    /// Some of its services bloat.
    SomeBloat {
        services: u32,
        of: u32,
    },
    /// Nothing shows yet how it grows.
    GrowthUnknown,
    /// At its pace it needs as much as the control soon.
    ReachesControl {
        days: f64,
        bytes_per_day: f64,
    },
    /// Its verdict is worse over all services that were put into it.
    WorseAsAssigned,
    /// Something odd about the data of the arm, of the control or of all.
    Finding {
        kind: FindingKind,
        /// Whether it is about the control.
        of_control: bool,
        services: u32,
    },
}

/// What is uncertain about an arm compared with the control, what blocks a recommendation first.
pub fn objections(analysis: &Analysis, arm: usize, control: usize) -> Vec<Objection> {
    let (own, of_control) = (&analysis.arms[arm], &analysis.arms[control]);
    let mut found: Vec<Objection> = of_result(analysis, own, of_control).collect();
    let graver = |finding: &&Finding| finding.severity != Severity::Note;
    for finding in
        analysis.findings.iter().filter(graver).filter(|finding| finding.bears_on(arm, Some(control)))
    {
        let own_work = own.work.as_ref().is_some_and(|work| work.standing == WorkStanding::ClearlyLess);
        let said = match finding.kind {
            FindingKind::WorkBelowControl => own_work,
            FindingKind::SomeBloat => matches!(own.verdict, Some(Verdict::SomeBloat { .. })),
            _ => false,
        };
        if said {
            continue;
        }
        let explains = explains(analysis, finding, own, of_control);
        found.push(Objection {
            reason: Reason::Finding {
                kind: finding.kind,
                of_control: !finding.arms.is_empty() && !finding.arms.contains(&arm),
                services: finding.services.len() as u32,
            },
            blocks: match explains {
                Some(explains) => {
                    let is_enough = difference(own).is_none_or(|difference| difference <= explains);
                    finding.severity == Severity::Grave && is_enough
                }
                None => prohibits(finding, arm),
            },
            explains,
        });
    }
    found.sort_by_key(|objection| !objection.blocks);
    found.dedup();
    found
}

/// The factor by which an arm is shown to need less than the control.
fn difference(arm: &ArmResult) -> Option<f64> {
    arm.treated().ratio.as_ref()?.estimate.high.map(|high| 1.0 / high)
}

/// The factor that a finding could explain, where it is known: of unknown ages what the control's memory ranged over after its
/// first day, of unequal ages the growth in the time between.
fn explains(analysis: &Analysis, finding: &Finding, own: &ArmResult, control: &ArmResult) -> Option<f64> {
    match finding.kind {
        FindingKind::AgeUnknown if analysis.ages_are_lower_bounds => {
            let later: Vec<f64> =
                control.by_day.iter().filter(|day| day.day > 1).map(|day| day.median_bytes).collect();
            let most = later.iter().copied().max_by(f64::total_cmp)?;
            let least = later.iter().copied().min_by(f64::total_cmp).filter(|least| *least > 0.0)?;
            Some(most / least)
        }
        // Where it is grave, arms ran at other times, or are compared far below the age that they reached.
        FindingKind::UnequalAge if finding.severity == Severity::Caution => {
            let apart = (own.treated().age_seconds? - control.treated().age_seconds?).abs() / DAY;
            let share = |arm: &ArmResult| Some(arm.growth.as_ref()?.share_per_day.value.abs());
            Some((share(own)?.max(share(control)?) * apart).exp())
        }
        _ => None,
    }
}

/// Grave findings after which nothing that was compared means what it says, or after which an arm is no improvement.
fn prohibits(finding: &Finding, arm: usize) -> bool {
    match finding.kind {
        // A control at its limit would need more, not less.
        FindingKind::MemoryRunsShort => finding.severity == Severity::Grave && finding.arms.contains(&arm),
        FindingKind::DataMissing
        | FindingKind::AgeUnknown
        | FindingKind::AssignedByHand
        | FindingKind::UnequalAge
        | FindingKind::NotCompared
        | FindingKind::MostlyAsAnotherArm
        | FindingKind::WorkBelowControl
        | FindingKind::FlagLost
        | FindingKind::Swapped
        | FindingKind::FailsMoreOften => finding.severity == Severity::Grave,
        _ => false,
    }
}

/// What the arm's own figures say against it.
fn of_result<'a>(
    analysis: &'a Analysis,
    own: &'a ArmResult,
    control: &'a ArmResult,
) -> impl Iterator<Item = Objection> + 'a {
    let less_work = own.work.as_ref().is_some_and(|work| work.standing == WorkStanding::ClearlyLess);
    let bloats = match own.verdict {
        Some(Verdict::Bloating { .. }) => Some(Reason::Bloats),
        Some(Verdict::SomeBloat { services, of, .. }) => Some(Reason::SomeBloat { services, of }),
        _ => reaches_control(analysis, own, control),
    };
    let worse = rank(own.verdict_as_assigned.as_ref()) > rank(own.verdict.as_ref());
    let reasons = [less_work.then_some(Reason::LessWork), bloats, worse.then_some(Reason::WorseAsAssigned)];
    reasons.into_iter().flatten().map(|reason| Objection { reason, explains: None, blocks: true })
}

fn rank(verdict: Option<&Verdict>) -> u8 {
    match verdict {
        Some(Verdict::Bloating { .. }) => 3,
        Some(Verdict::SomeBloat { .. }) => 2,
        Some(Verdict::Growing { .. }) => 1,
        Some(Verdict::Stable | Verdict::Inconclusive { .. }) | None => 0,
    }
}

/// That an arm is shown to grow, however short the time, and reaches the control within the time for which verdicts look ahead;
/// or that nothing shows how it grows.
fn reaches_control(analysis: &Analysis, own: &ArmResult, control: &ArmResult) -> Option<Reason> {
    // What grows between two restarts is lost at the next, and what is stable does not grow by more than its margin.
    if own.sawtooth.is_some() || own.verdict == Some(Verdict::Stable) || own.verdict.is_none() {
        return None;
    }
    let Some(growth) = &own.growth else { return Some(Reason::GrowthUnknown) };
    let level = own.treated().level_bytes?;
    let of_control = |rate: fn(&Growth) -> Estimate| {
        control.growth.as_ref().map_or(0.0, |growth| rate(growth).value.max(0.0))
    };
    let least = |rate: Estimate| rate.low.unwrap_or(rate.value);
    // A control goes on growing only where that is its verdict over a day or more. Else what it grows by is caches that fill on
    // the first days, or load, and the arm's go by the same share.
    let goes_on = control.growth.as_ref().is_some_and(|growth| growth.days >= 1.0)
        && matches!(control.verdict, Some(Verdict::Growing { .. } | Verdict::Bloating { .. }));
    let (share, bytes) =
        (of_control(|growth| growth.share_per_day), of_control(|growth| growth.bytes_per_day));
    let (shared, is_shown) = match goes_on {
        true => (bytes, least(growth.bytes_per_day) > bytes),
        false => (level * share, least(growth.share_per_day) > share),
    };
    let left = control.treated().level_bytes? - level;
    if growth.rise_to_come_bytes.is_some_and(|rise| rise < left) {
        return None;
    }
    let bytes_per_day = growth.bytes_per_day.value;
    let nearer = bytes_per_day - shared;
    let days = (nearer > 0.0).then(|| (left / nearer).max(0.0))?;
    (is_shown && days <= analysis.settings.horizon_days)
        .then_some(Reason::ReachesControl { days, bytes_per_day })
}
