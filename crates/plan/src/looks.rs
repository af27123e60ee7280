//! When a trial is looked at.

use std::time::Duration;

use heaptrial_model::HumanDuration;
use heaptrial_model::units::DAY;
use heaptrial_stats::{ALPHA, look_alphas};

/// Looks where none are named: at a third, at two thirds and at the end. In a trial of days they are whole days and at
/// least one day apart, so that a short trial has fewer.
pub fn default_looks(duration: HumanDuration) -> Vec<HumanDuration> {
    let end = duration.0;
    let day = Duration::from_secs_f64(DAY);
    let days = end >= day;
    let unit = if days { day } else { Duration::from_secs(1) };
    let mut looks: Vec<Duration> = Vec::new();
    for third in 1..3 {
        let part = end * third / 3;
        let part = if part < unit && !days { part } else { rounded(part, unit) };
        let apart = |from: Duration, to: Duration| to > from && (!days || to - from >= unit);
        if apart(looks.last().copied().unwrap_or_default(), part) && apart(part, end) {
            looks.push(part);
        }
    }
    looks.push(end);
    looks.into_iter().map(|look| HumanDuration(whole_milliseconds(look))).collect()
}

/// What the last of these looks may err with over all arms: the rest of 5% is for those before it (`docs/statistics.md`).
pub fn last_look_alpha(looks: &[HumanDuration]) -> f64 {
    let end = looks.last().map_or(0.0, |end| end.0.as_secs_f64());
    let fractions: Vec<f64> = looks.iter().map(|look| look.0.as_secs_f64() / end).collect();
    look_alphas(&fractions, ALPHA).and_then(|alphas| alphas.last().copied()).unwrap_or(ALPHA)
}

/// The looks named, with the end as the last one.
pub(crate) fn with_end(looks: &[HumanDuration], duration: HumanDuration) -> Vec<HumanDuration> {
    if looks.is_empty() {
        return default_looks(duration);
    }
    let mut looks = looks.to_vec();
    if looks.last() != Some(&duration) {
        looks.push(duration);
    }
    looks
}

fn rounded(duration: Duration, unit: Duration) -> Duration {
    let units = (duration.as_secs_f64() / unit.as_secs_f64()).round();
    unit * units as u32
}

/// As exact as durations are written.
fn whole_milliseconds(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirds_are_rounded_to_days_and_never_closer_than_one() {
        for (duration, looks) in [
            ("10d", "3d 7d 10d"),
            ("3d", "1d 2d 3d"),
            ("2d", "1d 2d"),
            ("1d12h", "1d12h"),
            ("1d", "1d"),
            ("30d", "10d 20d 30d"),
            ("6h", "2h 4h 6h"),
            ("4m", "1m20s 2m40s 4m"),
            ("1s", "333ms 666ms 1s"),
        ] {
            let found: Vec<String> =
                default_looks(duration.parse().unwrap()).iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), looks, "{duration}");
        }
    }

    #[test]
    fn the_last_look_has_what_those_before_leave() {
        for (duration, percent) in [("1d", 5.0), ("2d", 4.44), ("9d", 3.36)] {
            let alpha = last_look_alpha(&default_looks(duration.parse().unwrap()));
            assert!((100.0 * alpha - percent).abs() < 0.005, "{duration}: {alpha}");
        }
        assert_eq!(last_look_alpha(&[]), 0.05);
    }

    #[test]
    fn the_end_is_the_last_look() {
        let durations = |texts: &[&str]| -> Vec<HumanDuration> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let end = "10d".parse().unwrap();
        assert_eq!(with_end(&durations(&["4d"]), end), durations(&["4d", "10d"]));
        assert_eq!(with_end(&durations(&["4d", "10d"]), end), durations(&["4d", "10d"]));
    }
}
