//! Verdicts, the figure first: `+1.10 GiB a day (95% CI +0.90 GiB to +1.30 GiB): growing`.

use heaptrial_evaluate::analysis::{Estimate, Growth, LimitKind, Verdict};

use crate::document::Arm;
use crate::text::{estimate, estimate_in_sentence, no_interval};
use crate::units;

/// An arm's verdict with the figures behind it; `None` without a verdict.
pub(crate) fn line(arm: &Arm, level: f64) -> Option<String> {
    let verdict = arm.result.verdict.as_ref()?;
    let growth = arm.result.growth.as_ref().map(|growth| pace(growth, level));
    let mut parts = vec![match growth {
        Some(growth) => format!("{growth}: {}", word(verdict)),
        None => word(verdict).to_owned(),
    }];
    parts.extend(arm.result.growth.as_ref().and_then(slowing_down).filter(|_| *verdict != Verdict::Stable));
    parts.extend(verdict.runs_out().map(|(left, limit)| runs_out(&left, limit)));
    match verdict {
        Verdict::SomeBloat { services, of, .. } => parts.push(format!("{services} of {of} services bloat")),
        Verdict::Inconclusive { days_needed, why } => {
            // That there is no interval is said with the figure.
            let growth = arm.result.growth.as_ref();
            if growth.is_none_or(|growth| growth.bytes_per_day.interval().is_some()) {
                parts.push(why.trim().trim_end_matches('.').to_owned());
            }
            let needed = days_needed.filter(|days| days.is_finite());
            parts.extend(needed.map(|days| {
                format!("about {} more may decide", units::counted(days.ceil().max(1.0) as usize, "day"))
            }));
        }
        Verdict::Stable | Verdict::Growing { .. } | Verdict::Bloating { .. } => {}
    }
    Some(parts.join("; "))
}

/// A verdict in a word or two.
pub(crate) fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::SomeBloat { .. } => "some bloat",
        other => other.as_str(),
    }
}

/// `+1.10 GiB a day (95% CI +0.90 GiB to +1.30 GiB)`, or `one service per arm: no interval; +1.10 GiB a day seen`.
fn pace(growth: &Growth, level: f64) -> String {
    let bytes = &growth.bytes_per_day;
    let text = estimate_in_sentence(bytes, level, signed_memory);
    match bytes.interval() {
        Some(_) => text.replacen(" (", " a day (", 1),
        None => format!("{}; {text} a day seen", no_interval(growth.services)),
    }
}

fn signed_memory(bytes: f64) -> String {
    let sign = if bytes < 0.0 { "−" } else { "+" };
    format!("{sign}{}", units::memory(bytes.abs()))
}

fn slowing_down(growth: &Growth) -> Option<String> {
    match growth.rise_to_come_bytes {
        Some(rise) => Some(format!("slowing down, at most {} more to come", units::memory(rise))),
        None => (growth.levels_off || growth.slows_down).then(|| "slowing down".to_owned()),
    }
}

/// When memory runs out if growth goes on as it is.
fn runs_out(left: &Estimate, limit: Option<LimitKind>) -> String {
    if left.value <= 0.0 {
        return "above its memory limit already".to_owned();
    }
    let left = estimate(left, |days| match days < 9.95 {
        true => format!("{days:.1}"),
        false => units::count(days.round() as u64),
    });
    match limit {
        Some(LimitKind::Service) => format!("a typical service reaches its memory limit in {left} days"),
        Some(LimitKind::OwnLimit) => {
            format!("the service nearest to its own memory limit reaches it in {left} days")
        }
        Some(LimitKind::Host) => format!("this arm alone fills the host's memory in {left} days"),
        Some(LimitKind::WholeHost) => {
            format!("this arm alone fills the host's memory in at most {left} days")
        }
        Some(LimitKind::Doubling) => {
            format!("doubles in {left} days (no memory limit is known: give --memory-limit)")
        }
        None => format!("memory runs out in {left} days"),
    }
}
