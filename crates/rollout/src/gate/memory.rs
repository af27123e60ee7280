//! Whether services use the memory that is expected of them.

use std::collections::BTreeMap;

use heaptrial_model::units;
use heaptrial_stats::geometric_mean;
use serde::{Deserialize, Serialize};

use super::{Findings, Grounds, Reason, Subject};

/// How often a gate over all services may stop though everything is as in the trial.
const FALSE_STOPS: f64 = 0.01;
/// From so many services on, their mean is held to a narrower limit than each of them.
const ENOUGH_FOR_A_MEAN: usize = 4;
/// Memory within this many times what is expected is nothing to stop for, however well the trial's services agree.
const HARMLESS: f64 = 1.1;
/// Without a forecast: memory above this many times that of before stops.
const MOST_OF_BEFORE: f64 = 1.25;
/// Without a forecast: beyond this many times the age of before, older or younger, memory is compared at another age.
const OTHER_AGE: f64 = 2.0;

/// Services are held to what is expected of those like them: of unlike ones a mean tells nothing.
pub(super) fn judge(subjects: &[Subject<'_>], grounds: &Grounds, findings: &mut Findings) -> Vec<Alike> {
    let mut by_stratum: BTreeMap<&str, Vec<&Subject<'_>>> = BTreeMap::new();
    for subject in subjects {
        by_stratum.entry(subject.stratum).or_default().push(subject);
    }
    let confidence = 1.0 - FALSE_STOPS / subjects.len() as f64;
    other_ages(subjects, grounds, findings);
    let mut older = 0;
    let mut all = Vec::new();
    for (stratum, own) in by_stratum {
        let (mut alike, told) = alike(&own, confidence, grounds, findings);
        alike.stratum = stratum.to_owned();
        older += told;
        together(&alike, findings);
        all.push(alike);
    }
    if older > 0 {
        let services = units::counted(older, "service");
        findings
            .evidence
            .push(format!("{services} of earlier waves are older than what the trial can tell of"));
    }
    all
}

/// Tells that memory of before is no measure of memory at another age: what grows with age is seen in neither.
fn other_ages(subjects: &[Subject<'_>], grounds: &Grounds, findings: &mut Findings) {
    let ages: Vec<(f64, f64)> = subjects
        .iter()
        .filter(|subject| subject.forecast.is_none())
        .filter_map(|subject| Some((subject.before?.age_seconds?, fresh_level(subject, grounds)?.1)))
        .filter(|(before, now)| *now > OTHER_AGE * before || *before > OTHER_AGE * now)
        .collect();
    if let Some((before, now)) = ages.first() {
        findings.evidence.push(format!(
            "memory of {} is compared with that at another age, such as {} now with {} before: how it goes with age is not known without a \
             forecast",
            units::counted(ages.len(), "service"),
            units::duration(*now),
            units::duration(*before)
        ));
    }
}

/// Memory as it is now, with its age.
fn fresh_level(subject: &Subject<'_>, grounds: &Grounds) -> Option<(f64, f64)> {
    let seen = subject.observed?;
    let fresh = seen.last_reading_seconds.is_some_and(|age| age <= grounds.stale_seconds);
    seen.level.filter(|_| fresh)
}

/// Services that are alike, beside what is expected of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Alike {
    /// What they have in common.
    stratum: String,
    /// Memory over what is expected.
    ratios: Vec<f64>,
    /// The narrowest limit for one of them, as such a ratio.
    narrowest: Option<f64>,
    by_forecast: bool,
}

impl Alike {
    /// Takes in those of another host, if they are like these and held to the same.
    pub(super) fn take(&mut self, other: &Self) -> bool {
        let is_like = other.stratum == self.stratum && other.by_forecast == self.by_forecast;
        if is_like {
            self.ratios.extend(&other.ratios);
            let limits = self.narrowest.into_iter().chain(other.narrowest);
            self.narrowest = limits.min_by(f64::total_cmp);
        }
        is_like
    }
}

/// Each service by itself; also tells how many are older than their forecast.
fn alike(
    subjects: &[&Subject<'_>],
    confidence: f64,
    grounds: &Grounds,
    findings: &mut Findings,
) -> (Alike, usize) {
    let mut found = Alike::default();
    let mut older = 0;
    for subject in subjects {
        let Some((bytes, age)) = fresh_level(subject, grounds) else {
            findings.missing(
                subject.service,
                "no readings of its memory yet; is heaptrial-agent.service active?",
            );
            continue;
        };
        let (expected, limit, whose) =
            match (subject.forecast, subject.before.and_then(|before| before.bytes)) {
                (Some(forecast), _) => match forecast.at(age, confidence) {
                    Some(expected) => {
                        let limit = expected.high_bytes.max(HARMLESS * expected.median_bytes);
                        let whose = format!("the trial's services{} used", of(subject.stratum));
                        (expected.median_bytes, limit, whose)
                    }
                    None if subject.is_new || age < forecast.last_age() => {
                        let age = units::duration(age);
                        let what = format!("the trial tells nothing of memory at age {age}");
                        findings.missing(subject.service, what);
                        continue;
                    }
                    None => {
                        older += 1;
                        continue;
                    }
                },
                (None, Some(before)) => (before, MOST_OF_BEFORE * before, "before it used".to_owned()),
                (None, None) => {
                    findings.missing(subject.service, "neither a forecast nor its memory before is known");
                    continue;
                }
            };
        if bytes > limit {
            findings.against(
                subject.service,
                format!(
                    "uses {} at age {}; {whose} {}, and the limit for one service is {}",
                    units::memory(bytes),
                    units::duration(age),
                    units::memory(expected),
                    units::memory(limit)
                ),
            );
        }
        found.by_forecast = subject.forecast.is_some();
        found.ratios.push(bytes / expected);
        found.narrowest = Some(found.narrowest.unwrap_or(f64::INFINITY).min(limit / expected));
    }
    (found, older)
}

/// All that are alike together.
pub(super) fn together(alike: &Alike, findings: &mut Findings) {
    let (Some(mean), Some(narrowest)) = (geometric_mean(&alike.ratios), alike.narrowest) else { return };
    let highest = alike.ratios.iter().copied().fold(0.0, f64::max);
    let what = if alike.by_forecast { "the trial's forecast" } else { "that of before" };
    let of = of(&alike.stratum);
    findings
        .evidence
        .push(format!("memory{of} is {mean:.2} of {what} (geometric mean), the highest {highest:.2}"));
    if alike.ratios.len() >= ENOUGH_FOR_A_MEAN {
        // A mean of n spreads over 1/sqrt(n) of what one does, but for the error of the forecast itself.
        let share = (alike.ratios.len() as f64).sqrt().recip().max(0.5);
        let limit = narrowest.powf(share).max(HARMLESS);
        if mean > limit {
            let services = units::counted(alike.ratios.len(), "service");
            let what = format!(
                "memory of {services}{of} is {mean:.2} of {what} (geometric mean); the limit for so many is {limit:.2}"
            );
            findings.against.push(Reason { service: None, what });
        }
    }
}

fn of(stratum: &str) -> String {
    if stratum.is_empty() { String::new() } else { format!(" of {stratum}") }
}
