//! Whether services use more memory than is expected of them. Gates of rollouts and looks of watches judge by this.

use std::collections::BTreeMap;

use heaptrial_model::units;
use heaptrial_stats::{mean, student_quantile};
use serde::{Deserialize, Serialize};

use super::{Findings, Reason, Subject};
use crate::rollout::expected::{Expected, Stratum};

/// How often a gate over all services may stop though everything is as in the trial.
const FALSE_STOPS: f64 = 0.01;
/// Readings older than this do not count: the agent reads once a minute.
const STALE_SECONDS: f64 = 300.0;
/// From so many services on, their mean is held to a narrower limit than each of them.
const ENOUGH_FOR_A_MEAN: usize = 4;
/// Memory within this many times what is expected is nothing to act on, however well the trial's services agree.
const HARMLESS: f64 = 1.1;
/// Without a ratio: memory of one service may be this many times that of before.
const MOST_OF_BEFORE: f64 = 1.25;

/// Memory of a service as it is, and what is expected of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    pub service: String,
    /// What it has in common with others that are expected to do alike.
    pub stratum: String,
    pub bytes: f64,
    pub age_seconds: f64,
    pub expected: Expected,
}

/// A service that uses more than its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Above<'l> {
    pub level: &'l Level,
    pub limit_bytes: f64,
}

/// Services of a stratum, together over what is expected of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Together<'l> {
    pub stratum: &'l str,
    pub levels: Vec<&'l Level>,
    /// Geometric mean of memory over what is expected.
    pub ratio: f64,
    /// What that may be at most; `None` where they are too few.
    pub limit: Option<f64>,
}

impl Level {
    /// Memory of a service at an age, which used `before` bytes; `None` at ages of which the trial says nothing.
    pub fn of(
        service: &str,
        stratum: &Stratum,
        before: f64,
        (bytes, age_seconds): (f64, f64),
    ) -> Option<Self> {
        let expected = stratum.expected(before, age_seconds)?;
        let (service, stratum) = (service.to_owned(), stratum.name.clone());
        Some(Self { service, stratum, bytes, age_seconds, expected })
    }

    /// Memory over what is expected, on the log scale.
    fn excess(&self) -> f64 {
        (self.bytes / self.expected.bytes).ln()
    }
}

/// The highest mean excess of services on the log scale that chance explains but for a probability `error`.
///
/// One further service is within Student's t times `s √(1 + 1/n)` of a mean of *n* services with a standard deviation *s* (G. J. Hahn,
/// W. Q. Meeker, "Statistical Intervals", 1991, section 4.7); a mean of *m* within `s √(1/m + 1/n)`. What all services share is in no
/// mean the less.
fn limit(levels: &[&Level], error: f64) -> f64 {
    let count = levels.len() as f64;
    let errors: Option<Vec<_>> = levels.iter().map(|level| level.expected.error).collect();
    let Some(errors) = errors else { return MOST_OF_BEFORE.ln() * count.sqrt().recip().max(0.5) };
    let over = |of: &dyn Fn(usize) -> f64| mean(&(0..errors.len()).map(of).collect::<Vec<_>>());
    let trial = errors.iter().map(|error| f64::from(error.services)).fold(f64::INFINITY, f64::min);
    let own = over(&|index| errors[index].spread.powi(2)) * (1.0 / count + 1.0 / trial);
    let shared = over(&|index| errors[index].shared.powi(2));
    let t = student_quantile(trial - 1.0, 1.0 - error).unwrap_or(f64::INFINITY);
    (t * (own + shared).sqrt()).max(HARMLESS.ln())
}

/// Services that use more than their limit, and each stratum together, with `error` as the probability that any of them is above
/// where nothing is wrong: half of it for single services, half for strata.
pub fn judge(levels: &[Level], error: f64) -> (Vec<Above<'_>>, Vec<Together<'_>>) {
    let mut strata: BTreeMap<&str, Vec<&Level>> = BTreeMap::new();
    for level in levels {
        strata.entry(&level.stratum).or_default().push(level);
    }
    let half = error / 2.0;
    let above = levels.iter().filter_map(|level| {
        let limit = limit(&[level], half / levels.len() as f64);
        let limit_bytes = limit.exp() * level.expected.bytes;
        (level.excess() > limit).then_some(Above { level, limit_bytes })
    });
    let of_each = half / strata.len() as f64;
    let together = strata.into_iter().map(|(stratum, own)| Together {
        stratum,
        ratio: mean(&own.iter().map(|level| level.excess()).collect::<Vec<_>>()).exp(),
        limit: (own.len() >= ENOUGH_FOR_A_MEAN).then(|| limit(&own, of_each).exp()),
        levels: own,
    });
    (above.collect(), together.collect())
}

impl Together<'_> {
    pub fn is_above(&self) -> bool {
        self.limit.is_some_and(|limit| self.ratio > limit)
    }
}

/// The levels of all services; what is missing is added to the findings.
pub(super) fn levels(subjects: &[Subject<'_>], findings: &mut Findings) -> Vec<Level> {
    let mut levels = Vec::new();
    let mut older = 0;
    for subject in subjects {
        let Some(level) = fresh_level(subject) else {
            findings.missing(
                subject.service,
                "no readings of its memory yet; is heaptrial-agent.service active?",
            );
            continue;
        };
        let Some(before) = subject.before.and_then(|before| before.bytes) else {
            findings.missing(subject.service, "its memory before is not known");
            continue;
        };
        match Level::of(subject.service.as_str(), subject.stratum, before, level) {
            Some(level) => levels.push(level),
            // It passed its own gate.
            None if !subject.is_new && subject.stratum.is_younger_than(level.1) => older += 1,
            None => {
                let age = units::duration(level.1);
                findings.missing(subject.service, format!("the trial says nothing of memory at age {age}"));
            }
        }
    }
    if older > 0 {
        let services = units::counted(older, "service");
        findings.evidence.push(format!("{services} of earlier waves are older than the trial's services"));
    }
    levels
}

/// Memory as it is now, with its age.
fn fresh_level(subject: &Subject<'_>) -> Option<(f64, f64)> {
    let seen = subject.observed?;
    let fresh = seen.last_reading_seconds.is_some_and(|age| age <= STALE_SECONDS);
    seen.level.filter(|_| fresh)
}

/// Adds services that use more than their limit.
pub(super) fn single(levels: &[Level], findings: &mut Findings) {
    for Above { level, limit_bytes } in judge(levels, FALSE_STOPS).0 {
        findings.against.push(Reason {
            service: level.service.parse().ok(),
            what: format!(
                "uses {} at age {}; {} is expected by what it used before, and the limit is {}",
                units::memory(level.bytes),
                units::duration(level.age_seconds),
                units::memory(level.expected.bytes),
                units::memory(limit_bytes)
            ),
        });
    }
}

/// Adds each stratum as evidence, and what is above the limit of so many.
pub(super) fn together(levels: &[Level], findings: &mut Findings) {
    for Together { stratum, levels, ratio, limit } in judge(levels, FALSE_STOPS).1 {
        let highest = levels.iter().map(|level| level.excess().exp()).fold(0.0, f64::max);
        findings.evidence.push(format!(
            "memory of {stratum} is {ratio:.2} of what is expected (geometric mean), the highest {highest:.2}"
        ));
        if let Some(limit) = limit.filter(|limit| ratio > *limit) {
            let services = units::counted(levels.len(), "service");
            let what = format!(
                "memory of {services} of {stratum} is {ratio:.2} of what is expected (geometric mean); the limit is {limit:.2}"
            );
            findings.against.push(Reason { service: None, what });
        }
    }
}
