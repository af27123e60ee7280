//! Parts of sentences: numbers, lists and dates, each in one notation everywhere.

use heaptrial_evaluate::analysis::{Estimate, Severity};

use crate::units;

/// `0.47 (0.44 to 0.51)`: an estimate with its interval, where it has one.
pub(crate) fn estimate(estimate: &Estimate, show: impl Fn(f64) -> String) -> String {
    with_interval(estimate, "", show)
}

/// `0.47 (95% CI 0.44 to 0.51)`: the same in a sentence, where no column says what the interval is.
pub(crate) fn estimate_in_sentence(estimate: &Estimate, level: f64, show: impl Fn(f64) -> String) -> String {
    with_interval(estimate, &format!("{} CI ", units::share(level)), show)
}

fn with_interval(estimate: &Estimate, level: &str, show: impl Fn(f64) -> String) -> String {
    match estimate.interval() {
        Some((low, high)) => format!("{} ({level}{} to {})", show(estimate.value), show(low), show(high)),
        None => show(estimate.value),
    }
}

/// Why an estimate over so many services of an arm has no interval.
pub(crate) fn no_interval(services: u32) -> &'static str {
    if services == 1 { "one service per arm: no interval" } else { "too few services for an interval" }
}

/// `2026-01-02T03:04:05.678Z` as `2026-01-02 03:04 UTC`.
pub(crate) fn date_and_time(rfc3339: &str) -> String {
    match (rfc3339.get(..10), rfc3339.get(11..16)) {
        (Some(date), Some(time)) => format!("{date} {time} UTC"),
        _ => rfc3339.to_owned(),
    }
}

/// A time in seconds since 1970, by strftime.
pub(crate) fn stamp(seconds: f64, format: &str) -> String {
    let time = jiff::Timestamp::from_second(seconds as i64);
    time.map_or_else(|_| String::new(), |time| time.strftime(format).to_string())
}

/// `a, b and c`; of more than `limit` the first ones and how many more.
pub(crate) fn names(names: &[impl AsRef<str>], limit: usize) -> String {
    let mut shown: Vec<String> = names.iter().take(limit).map(|name| name.as_ref().to_owned()).collect();
    if names.len() > limit {
        shown.push(format!("{} more", units::count((names.len() - limit) as u64)));
    }
    match shown.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// As a sentence: a capital letter at the start, a full stop at the end.
pub(crate) fn sentence(text: &str) -> String {
    capitalised(&ended(text.trim_start()))
}

/// With a full stop at the end.
pub(crate) fn ended(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() || text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// With a capital letter at the start.
pub(crate) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}

/// The word for a severity.
pub(crate) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Grave => "grave",
        Severity::Caution => "caution",
        Severity::Note => "note",
    }
}
