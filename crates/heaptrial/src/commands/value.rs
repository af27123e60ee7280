//! Values of options that have no type of their own.

use std::ops::RangeBounds;

use heaptrial_model::{HumanDuration, InvalidText};

use crate::exit::Failure;

/// Why a text is no value of an option; the command line names both.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    #[error("expected {0}")]
    Expected(&'static str),
    #[error(transparent)]
    Invalid(#[from] InvalidText),
}

/// A number within a range.
pub fn number(text: &str, range: impl RangeBounds<f64>, expected: &'static str) -> Result<f64, ValueError> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or(ValueError::Expected(expected))
}

/// A size as systemd writes it: K, M, G and T are powers of 1024. A number alone is refused, since it may be meant as MiB.
pub fn size(text: &str) -> Result<u64, ValueError> {
    let expected =
        ValueError::Expected("a size above 0 with its unit, such as 512M or 8G (a number of bytes is 4096B)");
    if !text.trim_end().ends_with(|last: char| last.is_ascii_alphabetic()) {
        return Err(expected);
    }
    let bytes = parse_size::Config::new().with_binary().parse_size(text);
    bytes.ok().filter(|bytes| *bytes > 0).ok_or(expected)
}

/// A size as an option takes it, in the largest unit that leaves nothing over.
pub fn size_word(bytes: u64) -> String {
    let fits = |(shift, _): &(u32, char)| bytes != 0 && bytes.trailing_zeros() >= *shift;
    let (shift, unit) =
        [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')].into_iter().find(fits).unwrap_or((0, 'B'));
    format!("{}{unit}", bytes >> shift)
}

/// A time, the beginning of a date (UTC), or how long before `before_us`; in microseconds since 1970.
pub fn time(text: &str, option: &str, before_us: i64) -> Result<i64, Failure> {
    if let Ok(back) = text.parse::<HumanDuration>() {
        return Ok(before_us.saturating_sub(i64::try_from(back.0.as_micros()).unwrap_or(i64::MAX)));
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(time.as_microsecond());
    }
    // Of a date with a time the library would take the date alone.
    let date = jiff::civil::Date::strptime("%Y-%m-%d", text).ok();
    let begin = date.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok());
    begin.map(|begin| begin.timestamp().as_microsecond()).ok_or_else(|| {
        Failure::usage(format!(
            "{option} {text}: expected a time with its offset such as 2026-01-31T12:00:00Z, a date, or how long back, such as 14d"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_and_is_written_as_it_is_read() {
        for (bytes, word) in [(512 << 20, "512M"), (3 << 29, "1536M"), (1 << 40, "1T"), (5000, "5000B")] {
            assert_eq!(size_word(bytes), word);
            assert_eq!(size(word).unwrap(), bytes);
        }
        assert_eq!((size("1.5GiB").unwrap(), size("8 gb").unwrap()), (3 << 29, 8 << 30));
        for text in ["512", "1e9", "0M", "M", "", "512X", "-1M", "64 "] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_has_its_offset() {
        let of = |text| time(text, "--until", 0).ok();
        let noon = of("2026-11-20T12:00:00Z").unwrap();
        assert_eq!(of("2026-11-20T13:00:00+01:00"), Some(noon));
        assert_eq!(of("2026-11-20"), Some(noon - 12 * 3_600_000_000));
        assert_eq!(of("2h"), Some(-2 * 3_600_000_000));
        for text in ["2026-11-20T12:00:00", "2026-11-20 12:00", "20261120T12", "2026-11-31"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
