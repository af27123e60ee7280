//! Times as scripts write them: with an offset, or local without one.

use std::fmt;
use std::str::FromStr;

use jiff::fmt::temporal::Pieces;
use jiff::tz::{Offset, TimeZone};

use super::Times;
use crate::ImportError;

/// How times without an offset are to be read: a fixed offset, or a zone of the tz database.
#[derive(Debug, Clone)]
pub struct Timezone {
    zone: TimeZone,
    name: String,
}

impl Timezone {
    pub fn utc() -> Self {
        Self { zone: TimeZone::UTC, name: "UTC".to_owned() }
    }

    pub(crate) fn fixed(seconds: i32) -> Option<Self> {
        let offset = Offset::from_seconds(seconds).ok()?;
        let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs() / 60);
        let name = format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        Some(Self { zone: offset.to_time_zone(), name })
    }
}

impl fmt::Display for Timezone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for Timezone {
    type Err = ImportError;

    /// `UTC`, `Z`, `-08:00`, `-0800`, `-08`, or a name such as `America/Los_Angeles`.
    fn from_str(text: &str) -> Result<Self, ImportError> {
        if text.eq_ignore_ascii_case("utc") || text.eq_ignore_ascii_case("z") {
            return Ok(Self::utc());
        }
        let error = || {
            ImportError::Refused(format!(
                "`{}` is not a timezone; expected an offset such as -08:00, UTC, or a name such as America/Los_Angeles",
                crate::problem::escape(text.as_bytes())
            ))
        };
        if text.starts_with(['+', '-']) {
            return offset_seconds(text).and_then(Self::fixed).ok_or_else(error);
        }
        let zone = TimeZone::get(text).map_err(|_| error())?;
        let name = zone.iana_name().unwrap_or(text).to_owned();
        Ok(Self { zone, name })
    }
}

/// `-08:00`, `-0800` or `-08`, in seconds east of Greenwich.
fn offset_seconds(text: &str) -> Option<i32> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits = text[1..].replace(':', "");
    let (hours, minutes) = digits.split_at_checked(2)?;
    let plain = matches!(minutes.len(), 0 | 2) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().unwrap_or(0));
    // Zones reach from -12 to +14 hours.
    (plain && hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

/// Why a field is not a time.
pub(crate) const NOT_A_TIME: &str = "expected a time from 2000 to 2199: 2026-01-05T10:47:43 with or without an offset such as -08:00, or seconds, milli-, micro- or nanoseconds since 1970";

/// Reads times in a timezone. Rows of one collection repeat their time, so the last one is kept.
#[derive(Debug)]
pub(crate) struct Clock<'a> {
    timezone: &'a Timezone,
    last_text: Vec<u8>,
    last_wall_us: i64,
    pub times: Times,
}

impl<'a> Clock<'a> {
    pub fn new(timezone: &'a Timezone) -> Self {
        Self { timezone, last_text: Vec::new(), last_wall_us: 0, times: Times::default() }
    }

    /// The time in microseconds since 1970.
    pub fn read(&mut self, text: &[u8]) -> Option<i64> {
        if text != self.last_text || text.is_empty() {
            self.last_wall_us = self.read_new(text.trim_ascii())?;
            self.last_text.clear();
            self.last_text.extend_from_slice(text);
        }
        Some(self.last_wall_us)
    }

    /// Reads a date and a time of day from two columns.
    pub fn read_parts(&mut self, date: &[u8], time: &[u8]) -> Option<i64> {
        let (date, time) = (date.trim_ascii(), time.trim_ascii());
        // Texts of this length are no times; joining them would only cost.
        if date.is_empty() || time.is_empty() || date.len() + time.len() > 64 {
            return None;
        }
        self.read(&[date, b"T", time].concat())
    }

    fn read_new(&mut self, text: &[u8]) -> Option<i64> {
        if let Some(wall_us) = since_1970(text) {
            self.times.offsets.insert(0);
            return Some(wall_us);
        }
        let pieces = Pieces::parse(std::str::from_utf8(text).ok()?).ok()?;
        let civil = pieces.date().to_datetime(pieces.time().unwrap_or_default());
        let time = match pieces.to_numeric_offset() {
            Some(offset) => {
                self.times.offsets.insert(offset.seconds());
                offset.to_timestamp(civil).ok()?
            }
            None => {
                self.times.local += 1;
                // Of a local time that occurred twice this is the first occurrence.
                self.timezone.zone.to_ambiguous_timestamp(civil).compatible().ok()?
            }
        };
        Some(time.as_microsecond()).filter(|wall_us| YEARS_US.contains(wall_us))
    }
}

/// From 2000 to 2199: outside of these years a clock was not set.
const YEARS_US: std::ops::Range<i64> = 946_684_800_000_000..7_258_118_400_000_000;

fn since_1970(text: &[u8]) -> Option<i64> {
    let plain = text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let number: f64 = std::str::from_utf8(text).ok().filter(|_| plain)?.parse().ok()?;
    // In these years no number of seconds is a number of milliseconds as well, and so on.
    let mut times = [1e6, 1e3, 1.0, 1e-3].into_iter().map(|scale| (number * scale).round() as i64);
    times.find(|wall_us| YEARS_US.contains(wall_us))
}

/// Reads one time in a timezone; microseconds since 1970.
#[doc(hidden)]
pub fn read_time(text: &[u8], timezone: &Timezone) -> Option<i64> {
    Clock::new(timezone).read(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, zone: &str) -> Option<String> {
        let wall_us = read_time(text.as_bytes(), &zone.parse().unwrap())?;
        Some(jiff::Timestamp::from_microsecond(wall_us).unwrap().to_string())
    }

    #[test]
    fn offsets_and_zones() {
        for (text, zone, utc) in [
            ("2026-01-05T10:47:43-08:00", "UTC", "2026-01-05T18:47:43Z"),
            ("2026-01-05T10:47:43Z", "-08:00", "2026-01-05T10:47:43Z"),
            ("2026-01-05T10:47:43", "-08:00", "2026-01-05T18:47:43Z"),
            ("2026-01-05 10:47:43", "-08", "2026-01-05T18:47:43Z"),
            ("2026-01-05 10:47:43", "-0830", "2026-01-05T19:17:43Z"),
            ("2026-01-05T10:47:43", "America/Los_Angeles", "2026-01-05T18:47:43Z"),
            ("2026-07-05T10:47:43", "America/Los_Angeles", "2026-07-05T17:47:43Z"),
            ("2026-01-05T10:47:43.25", "utc", "2026-01-05T10:47:43.25Z"),
            ("2026-01-05T10:47", "utc", "2026-01-05T10:47:00Z"),
            ("2026-01-05T10:47:43-0800", "utc", "2026-01-05T18:47:43Z"),
            ("2026-01-05", "utc", "2026-01-05T00:00:00Z"),
            ("1767610063", "-08:00", "2026-01-05T10:47:43Z"),
            ("1767610063.25", "-08:00", "2026-01-05T10:47:43.25Z"),
            ("1767610063250", "-08:00", "2026-01-05T10:47:43.25Z"),
            ("1767610063250000", "-08:00", "2026-01-05T10:47:43.25Z"),
            ("1767610063250000000", "-08:00", "2026-01-05T10:47:43.25Z"),
            // Clocks are put back, so that it occurs twice, and forward, so that it does not occur.
            ("2026-11-01T01:30:00", "America/Los_Angeles", "2026-11-01T08:30:00Z"),
            ("2026-03-08T02:30:00", "America/Los_Angeles", "2026-03-08T10:30:00Z"),
        ] {
            assert_eq!(read(text, zone).as_deref(), Some(utc), "{text} in {zone}");
        }
    }

    #[test]
    fn what_is_no_time() {
        for text in [
            "",
            "2026-13-01T00:00:00",
            "2026-02-30T00:00:00",
            "10",
            "9999-12-31T23:59:59",
            "2026-01-05T10:47:43+99:00",
            "２０２６-01-05T10:47:43",
        ] {
            assert_eq!(read(text, "UTC"), None, "{text}");
        }
    }

    #[test]
    fn timezones_that_are_none() {
        for text in ["", "Mars/Base", "-25:00", "+1", "08:00", "../etc/passwd", "-08:0x"] {
            assert!(text.parse::<Timezone>().is_err(), "{text}");
        }
        assert_eq!("-08".parse::<Timezone>().unwrap().to_string(), "-08:00");
    }
}
