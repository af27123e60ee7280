//! Verdicts in words, with the numbers behind them.

use heaptrial_analysis::{Estimate, Growth, LimitKind, Settings, Shape, Verdict};

use crate::summary::number;
use crate::units::{self, Pace};

/// Fewer readings than these are named as the reason why a straight line and one that bends are not told apart.
const FEW_READINGS: u32 = 12;
/// What to do where no limit of memory is known.
pub(crate) const NO_LIMIT: &str = "no memory limit is known: give --memory-limit";

#[derive(Debug, Clone, Copy)]
pub(crate) struct RunsOut<'a> {
    pub(crate) limit: Option<LimitKind>,
    /// Time of the last reading, RFC 3339, from which days count.
    pub(crate) last_reading_at: Option<&'a str>,
}

/// Why an arm has its verdict: a sentence that begins with "it".
pub(crate) fn reason(
    verdict: &Verdict,
    growth: Option<&Growth>,
    settings: &Settings,
    runs_out: RunsOut<'_>,
) -> String {
    let margin = units::margin(settings.stable_margin_per_day);
    let level = units::share(settings.confidence_level);
    let grows = growth.map_or_else(|| "its growth is not known".to_owned(), |growth| pace(growth, &level));
    let shape = growth.map_or_else(String::new, shape);
    match verdict {
        Verdict::Stable => format!("{grows}: the interval lies inside ±{margin} a day."),
        Verdict::Growing { days_until_full: Some(days), .. } => {
            format!("{grows}{shape}. {}", runs_out.sentence(days))
        }
        Verdict::Growing { days_until_full: None, .. } => format!("{grows}{shape}."),
        Verdict::Bloating { days_until_full, .. } => {
            format!("{grows}{shape}. {}", runs_out.sentence(days_until_full))
        }
        Verdict::SomeBloat { services, of, days_until_full, limit } => {
            let first = days_until_full.map_or_else(String::new, |days| {
                let days = plural_days(days.ceil().max(1.0));
                match limit {
                    Some(LimitKind::Doubling) => {
                        format!(": the first of them doubles in {days} ({NO_LIMIT})")
                    }
                    _ => format!(": memory runs out, the first of them in {days}"),
                }
            });
            format!("{grows}, but {services} of its {of} services bloat{first}.")
        }
        Verdict::Inconclusive { days_needed, why } => {
            let more = match days_needed {
                Some(days) if days.is_finite() => {
                    format!(" It takes about {} more at least.", plural_days(days.ceil().max(1.0)))
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

impl RunsOut<'_> {
    fn sentence(self, days: &Estimate) -> String {
        if days.value <= 0.0 {
            let full = if matches!(self.limit, Some(LimitKind::Host | LimitKind::WholeHost)) {
                " (the host's memory is full)"
            } else {
                ""
            };
            if self.limit == Some(LimitKind::OwnLimit) {
                return "A service of it has reached its own memory limit.".to_owned();
            }
            return format!("It is above its limit already{full}.");
        }
        let after = self.last_reading_at.and_then(|time| time.get(..10));
        let after = after.map_or_else(String::new, |date| format!(" from the last reading ({date})"));
        let days = format!("{}{after}", days_text(days));
        match self.limit {
            Some(LimitKind::Service) => {
                format!(
                    "If it goes on so, a typical service of it reaches its memory limit in {days}; larger ones are there before."
                )
            }
            Some(LimitKind::OwnLimit) => {
                format!(
                    "If it goes on so, the service that is nearest to its own memory limit reaches it in {days}, at the pace of a typical one."
                )
            }
            Some(LimitKind::Host) => {
                format!("If only this arm's services grew, the host's memory would run out in {days}.")
            }
            Some(LimitKind::WholeHost) => {
                format!(
                    "If only this arm's services grew, and nothing but the trial's services used memory, the host's would run out in {days}: \
                     sooner, by what else runs there."
                )
            }
            Some(LimitKind::Doubling) => format!("If it goes on so, it doubles in {days} ({NO_LIMIT})."),
            None => format!("If it goes on so, memory runs out in {days}."),
        }
    }
}

/// The same in a few words: `doubles in 9.7 days (8.2 to 12)`.
pub(crate) fn runs_out_briefly(days: &Estimate, limit: Option<LimitKind>) -> String {
    if days.value <= 0.0 {
        let own = limit == Some(LimitKind::OwnLimit);
        return if own { "a service has reached its memory limit" } else { "is above its limit already" }
            .to_owned();
    }
    let days = days_text(days);
    match limit {
        Some(LimitKind::Service) => format!("a typical service reaches its memory limit in {days}"),
        Some(LimitKind::OwnLimit) => format!("the service nearest to its memory limit reaches it in {days}"),
        Some(LimitKind::Host) => format!("fills the host in {days} if only this arm's services grew"),
        Some(LimitKind::WholeHost) => {
            format!("fills the host in {days} at the latest, if only this arm's services grew")
        }
        Some(LimitKind::Doubling) => format!("doubles in {days}"),
        None => format!("memory runs out in {days}"),
    }
}

fn shape(growth: &Growth) -> String {
    if let Some(rise) = growth.rise_to_come_bytes {
        return format!(
            ", and it slows down: at most {} more are to come if it goes on slowing down",
            units::memory(rise)
        );
    }
    let text = match growth.shape {
        Shape::Saturating => ", and it slows down",
        // Looked at over all of a life after its warm-up, of which growth may be only the last days.
        Shape::Linear => ", and over its life it hardly slows down, if at all",
        Shape::Unclear if growth.readings < FEW_READINGS => {
            "; whether it slows down cannot be told from so few readings"
        }
        Shape::Unclear => "; whether it slows down cannot be told from these readings",
    };
    text.to_owned()
}

/// `it grows by 1.2% a day (95% interval 0.9 to 1.4), +14.1 MiB a day, over the last 3.0 days, 6 readings`.
fn pace(growth: &Growth, level: &str) -> String {
    let bytes = units::growth(growth.bytes_per_day.value / 24.0, Pace::Day);
    let bytes = bytes.trim_end_matches("/d");
    let share = growth.share_per_day;
    let verb = if share.value < 0.0 { "it shrinks by" } else { "it grows by" };
    let interval = share.interval().map_or_else(String::new, |(low, high)| {
        format!(" ({level} interval {} to {})", units::signed_percent(low), units::signed_percent(high))
    });
    let share = units::percent(share.value.abs());
    format!("{verb} {share} a day{interval}, {bytes} a day, {}", measured_over(growth))
}

/// `over the last 3.0 days, 6 readings`: what the growth of a service rests on.
pub(crate) fn measured_over(growth: &Growth) -> String {
    let readings = number(u64::from(growth.readings), "reading");
    let length = match growth.days {
        days if days < 0.95 => units::duration((days * 86_400.0).max(0.0)),
        days => format!("{days:.1} days"),
    };
    format!("over the last {length}, {readings}")
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
