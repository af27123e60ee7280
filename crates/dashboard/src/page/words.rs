//! Times, names and addresses as pages show them.

use heaptrial_model::units;
use heaptrial_report::embedded::printable;
use jiff::Timestamp;
use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::data::{Stage, Trial};

/// What a segment of an address holds as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'@');

/// A segment for a name that browsers do not take for a step up or for nothing.
fn segment(name: &str) -> String {
    if matches!(name, "" | "." | "..") {
        "_".to_owned()
    } else {
        utf8_percent_encode(name, SEGMENT).to_string()
    }
}

/// The address of a trial. The row id distinguishes it from others of its name.
pub(super) fn trial_address(id: i64, name: &str) -> String {
    format!("/trial/{}?id={id}", segment(name))
}

pub(super) fn report_address(trial: &Trial) -> String {
    format!("/trial/{}/report?id={}", segment(trial.name()), trial.record.id)
}

/// The address of a service in a trial.
pub(super) fn service_address(name: &str, trial_id: i64) -> String {
    format!("/service/{}?id={trial_id}", segment(name))
}

/// A name that may be broken where its parts meet.
pub(super) fn name(text: &str) -> Markup {
    let text = printable(text);
    html! { @for part in text.split_inclusive(['_', '@', '?', '&', '/', '-', '.']) { (part) wbr; } }
}

pub(super) fn rfc3339(wall_us: i64) -> String {
    timestamp(wall_us).to_string()
}

pub(super) fn clock(wall_us: i64) -> String {
    timestamp(wall_us).strftime("%H:%M:%S").to_string()
}

pub(super) fn date(wall_us: i64) -> String {
    timestamp(wall_us).strftime("%Y-%m-%d %H:%M").to_string()
}

fn timestamp(wall_us: i64) -> Timestamp {
    Timestamp::from_millisecond(wall_us.div_euclid(1000)).unwrap_or_default()
}

/// How long ago, with the time itself beside it.
pub(super) fn ago(wall_us: i64, now_us: i64) -> Markup {
    let seconds = (now_us - wall_us) as f64 / 1e6;
    html! { time datetime=(rfc3339(wall_us)) title={ (date(wall_us)) " UTC" } { (distance(seconds)) } }
}

/// `3 min ago`, `in 2 d 4 h`, `just now`.
pub(super) fn distance(seconds: f64) -> String {
    match seconds {
        ago if ago >= 1.0 => format!("{} ago", rough(ago)),
        later if later <= -1.0 => format!("in {}", rough(-later)),
        _ => "just now".to_owned(),
    }
}

/// A duration as exact as a reader needs it: whole seconds up to 2 min, whole minutes up to an hour, two units above.
pub(super) fn rough(seconds: f64) -> String {
    let step = if (120.0..3600.0).contains(&seconds) { 60.0 } else { 1.0 };
    units::duration((seconds / step).round() * step)
}

/// A time and how long ago it is.
pub(super) fn date_and_ago(wall_us: i64, now_us: i64) -> Markup {
    let seconds = (now_us - wall_us) as f64 / 1e6;
    html! { time datetime=(rfc3339(wall_us)) { (date(wall_us)) } " (" (distance(seconds)) ")" }
}

/// What a trial is doing, as a badge.
pub(super) fn state(trial: &Trial) -> Markup {
    let (class, text) = match (trial.stage, trial.record.outcome.as_deref()) {
        _ if trial.record.plan.kind.is_import() => ("badge", "imported"),
        (Stage::Running, _) => ("badge running", "running"),
        (Stage::Silent, _) if trial.record.plan.kind.is_lab() => ("badge bad", "ended without a word"),
        (Stage::Silent, _) => ("badge bad", "running, but not read"),
        (Stage::Ended, Some("completed")) => ("badge good", "completed"),
        (Stage::Ended, Some(outcome @ ("interrupted" | "failed"))) => ("badge bad", outcome),
        (Stage::Ended, _) => ("badge", "ended"),
    };
    html! { span class=(class) { (text) } }
}

pub(super) fn counted(number: usize, noun: &str) -> String {
    let plural = match number {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", units::count(number as u64))
}

pub(super) fn memory(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "–".to_owned(), |bytes| units::memory(bytes as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_a_direction() {
        assert_eq!(distance(185.4), "3 min ago");
        assert_eq!(distance(75.0), "1 min 15 s ago");
        assert_eq!(distance(0.2), "just now");
        assert_eq!(distance(-7200.0), "in 2 h");
    }
}
