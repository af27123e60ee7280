//! Whether services use the memory that is expected of them.

use heaptrial_model::units;
use heaptrial_stats::geometric_mean;

use super::{Findings, Grounds, Reason, Subject};

/// How often a gate over all services may stop though everything is as in the trial.
const FALSE_STOPS: f64 = 0.01;
/// From so many services on, their mean is held to a narrower limit than each of them.
const ENOUGH_FOR_A_MEAN: usize = 4;
/// Memory within this many times what is expected is nothing to stop for, however well the trial's services agree.
const HARMLESS: f64 = 1.1;
/// Without a forecast: memory above this many times that of before stops.
const MOST_OF_BEFORE: f64 = 1.25;

pub(super) fn judge(subjects: &[Subject<'_>], grounds: &Grounds<'_>, findings: &mut Findings) {
    let mut ratios = Vec::new();
    let mut narrowest: f64 = f64::INFINITY;
    let mut older = 0;
    for subject in subjects {
        let level = subject.observed.and_then(|seen| {
            let fresh = seen.last_reading_seconds.is_some_and(|age| age <= grounds.stale_seconds);
            seen.level.filter(|_| fresh)
        });
        let Some((bytes, age)) = level else {
            findings.missing(
                subject.service,
                "no readings of its memory yet; is heaptrial-agent.service active?",
            );
            continue;
        };
        let (expected, limit, whose) =
            match (grounds.forecast, subject.before.and_then(|before| before.bytes)) {
                (Some(forecast), _) => {
                    let confidence = 1.0 - FALSE_STOPS / subjects.len() as f64;
                    match forecast.at(age, confidence) {
                        Some(expected) => {
                            let limit = expected.high_bytes.max(HARMLESS * expected.median_bytes);
                            (expected.median_bytes, limit, "the trial's services used")
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
                    }
                }
                (None, Some(before)) => (before, MOST_OF_BEFORE * before, "before it used"),
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
        ratios.push(bytes / expected);
        narrowest = narrowest.min(limit / expected);
    }
    if older > 0 {
        let services = units::counted(older, "service");
        findings
            .evidence
            .push(format!("{services} of earlier waves are older than what the trial can tell of"));
    }
    let Some(mean) = geometric_mean(&ratios) else { return };
    let highest = ratios.iter().copied().fold(0.0, f64::max);
    let what = if grounds.forecast.is_some() { "the trial's forecast" } else { "that of before" };
    findings
        .evidence
        .push(format!("memory is {mean:.2} of {what} (geometric mean), the highest {highest:.2}"));
    if ratios.len() >= ENOUGH_FOR_A_MEAN {
        // A mean of n spreads over 1/sqrt(n) of what one does, but for the error of the forecast itself.
        let share = (ratios.len() as f64).sqrt().recip().max(0.5);
        let limit = narrowest.powf(share).max(HARMLESS);
        if mean > limit {
            let services = units::counted(ratios.len(), "service");
            let what = format!(
                "memory of {services} is {mean:.2} of {what} (geometric mean); the limit for so many is {limit:.2}"
            );
            findings.against.push(Reason { service: None, what });
        }
    }
}
