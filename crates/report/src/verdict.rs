//! Verdicts in words, with the numbers behind them.

use heaptrial_analysis::{Estimate, Growth, LimitKind, Settings, Shape, Verdict};

use crate::units::{self, Pace};

/// Why an arm has its verdict: a sentence that begins with "it".
pub(crate) fn reason(verdict: &Verdict, growth: Option<&Growth>, settings: &Settings) -> String {
    let margin = units::share(settings.stable_margin_per_day);
    let level = units::share(settings.confidence_level);
    let grows = growth.map_or_else(|| "its growth is not known".to_owned(), |growth| pace(growth, &level));
    let shape = match growth.map(|growth| growth.shape) {
        Some(Shape::Saturating) => ", and it slows down",
        Some(Shape::Linear) => ", without slowing down",
        _ => "",
    };
    match verdict {
        Verdict::Stable => format!("{grows}: the interval lies inside ±{margin} a day."),
        Verdict::Growing { days_until_full: Some(days) } => {
            format!("{grows}{shape}. If it goes on so, memory runs out in {}.", days_text(days))
        }
        Verdict::Growing { days_until_full: None } => format!("{grows}{shape}."),
        Verdict::Bloating { days_until_full, limit } => {
            let days = days_text(days_until_full);
            let what = match limit {
                LimitKind::Service => format!("a service reaches its memory limit in {days}"),
                LimitKind::Host => format!("the host's memory runs out in {days}"),
                LimitKind::Doubling => format!("memory doubles in {days} (no limit of memory is known)"),
            };
            format!("{grows}{shape}, and {what}.")
        }
        Verdict::Inconclusive { days_needed, why } => {
            let more = match days_needed {
                Some(days) if days.is_finite() => {
                    format!(" About {} more would decide.", plural_days(days.ceil().max(1.0)))
                }
                _ => String::new(),
            };
            let why = why.trim().trim_end_matches('.');
            match growth {
                Some(_) => format!("{grows}: {why}.{more}"),
                None => format!("{why}.{more}"),
            }
        }
    }
}

/// `it grows by 1.2% a day (95% interval 0.9 to 1.4), +14.1 MiB a day`.
fn pace(growth: &Growth, level: &str) -> String {
    let bytes = units::growth(growth.bytes_per_day.value / 24.0, Pace::Day);
    let bytes = bytes.trim_end_matches("/d");
    let share = growth.share_per_day;
    let verb = if share.value < 0.0 { "it shrinks by" } else { "it grows by" };
    let interval = share.interval().map_or_else(String::new, |(low, high)| {
        format!(" ({level} interval {} to {})", units::signed_percent(low), units::signed_percent(high))
    });
    format!("{verb} {} a day{interval}, {bytes} a day", units::percent(share.value.abs()))
}

/// `12 days (10 to 15)`.
pub(crate) fn days_text(days: &Estimate) -> String {
    let number = |days: f64| {
        if days < 9.95 { format!("{days:.1}") } else { units::count(days.round() as u64) }
    };
    let about =
        if days.value < 1.0 { "less than a day".to_owned() } else { format!("{} days", number(days.value)) };
    match days.interval() {
        Some((low, high)) if days.value >= 1.0 && number(low) != number(high) => {
            format!("{about} ({} to {})", number(low), number(high))
        }
        _ => about,
    }
}

/// `1 day` or `12 days`.
pub(crate) fn plural_days(days: f64) -> String {
    if days == 1.0 { "1 day".to_owned() } else { format!("{} days", units::count(days as u64)) }
}
