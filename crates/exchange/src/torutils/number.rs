//! Numbers as scripts write them.

use std::fmt;
use std::str::FromStr;

/// The largest count of KiB whose bytes fit into SQLite's signed integers.
const MAX_KIB: u64 = (i64::MAX / 1024) as u64;

/// Why a field is not an amount of memory.
const NOT_KIB: &str = "expected a whole number of KiB, 0 or more";
const NOT_WHOLE_KIB: &str = "expected a whole number of KiB; for figures in MiB or GiB, which have decimals, give --unit MiB or --unit GiB";

/// A whole number without a sign. Numbers in exponent form, as `awk` writes large ones, are taken if they are whole.
pub(crate) fn whole(field: &[u8]) -> Option<u64> {
    let digits = field.trim_ascii();
    if digits.is_empty() {
        return None;
    }
    let mut number: u64 = 0;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return from_float(digits);
        }
        number = number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
    }
    Some(number)
}

/// Bytes from KiB; `Ok(None)` for an empty field.
fn kib(field: &[u8]) -> Result<Option<u64>, &'static str> {
    if field.trim_ascii().is_empty() {
        return Ok(None);
    }
    match whole(field) {
        Some(number) if number <= MAX_KIB => Ok(Some(number * 1024)),
        None if float(field.trim_ascii()).is_some_and(|number| number > 0.0 && number.fract() != 0.0) => {
            Err(NOT_WHOLE_KIB)
        }
        _ => Err(NOT_KIB),
    }
}

/// A unit in which files have memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryUnit {
    Bytes,
    /// 1024 bytes, which scripts call kB.
    Kib,
    Mib,
    /// 1024 MiB.
    Gib,
}

/// All of them, by what a command line calls them.
const UNITS: [(MemoryUnit, &str); 4] =
    [(MemoryUnit::Bytes, "B"), (MemoryUnit::Kib, "KiB"), (MemoryUnit::Mib, "MiB"), (MemoryUnit::Gib, "GiB")];

/// Why a text is no unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no unit of memory; expected B, KiB, MiB or GiB")]
pub struct MemoryUnitError(String);

impl FromStr for MemoryUnit {
    type Err = MemoryUnitError;

    fn from_str(text: &str) -> Result<Self, MemoryUnitError> {
        let known = UNITS.into_iter().find(|(_, word)| word.eq_ignore_ascii_case(text));
        known.map(|(unit, _)| unit).ok_or_else(|| MemoryUnitError(text.to_owned()))
    }
}

impl fmt::Display for MemoryUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(UNITS.into_iter().find(|(unit, _)| unit == self).map_or("", |(_, word)| word))
    }
}

impl MemoryUnit {
    /// How many bytes it is.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Bytes => 1,
            Self::Kib => 1 << 10,
            Self::Mib => 1 << 20,
            Self::Gib => 1 << 30,
        }
    }

    /// Bytes from a field in this unit, cut to whole KiB (the unit of the kernel's figures); `Ok(None)` for an empty field. MiB and
    /// GiB may have decimals.
    pub(crate) fn read(self, field: &[u8]) -> Result<Option<u64>, &'static str> {
        match self {
            Self::Bytes if field.trim_ascii().is_empty() => Ok(None),
            Self::Bytes => match whole(field).filter(|number| *number <= MAX_KIB * 1024) {
                Some(number) => Ok(Some(number / 1024 * 1024)),
                None => Err("expected a whole number of bytes, 0 or more"),
            },
            Self::Kib => kib(field),
            Self::Mib => decimal(field, 1024.0).map_err(|()| "expected a number of MiB from 0 up"),
            Self::Gib => decimal(field, 1_048_576.0).map_err(|()| "expected a number of GiB from 0 up"),
        }
    }
}

fn decimal(field: &[u8], kib: f64) -> Result<Option<u64>, ()> {
    let field = field.trim_ascii();
    if field.is_empty() {
        return Ok(None);
    }
    match float(field) {
        Some(number) if (0.0..1e9).contains(&number) => Ok(Some((number * kib) as u64 * 1024)),
        _ => Err(()),
    }
}

fn float(text: &[u8]) -> Option<f64> {
    // Words such as `inf` and `nan` are numbers to Rust.
    let plain = text.iter().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(byte));
    if !plain || text.len() > 40 {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn from_float(text: &[u8]) -> Option<u64> {
    let number = float(text)?;
    // Up to 2^53 every whole number is a float.
    ((0.0..=9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0 && !text.starts_with(b"-"))
        .then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        assert_eq!(whole(b"6142996"), Some(6_142_996));
        assert_eq!(whole(b" 7 "), Some(7));
        assert_eq!(whole(b"1.5e+06"), Some(1_500_000));
        assert_eq!(whole(b"12.0"), Some(12));
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        for bad in [
            "",
            "-1",
            "-0",
            "1.5",
            "1e99",
            "inf",
            "nan",
            "0x10",
            "1 2",
            "18446744073709551616",
            "\u{663}",
            "\0",
        ] {
            assert_eq!(whole(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn memory_does_not_overflow_the_database() {
        assert_eq!(kib(b""), Ok(None));
        assert_eq!(kib(b"9007199254740991"), Ok(Some(9_007_199_254_740_991 * 1024)));
        assert_eq!(kib(b"9007199254740992"), Err(NOT_KIB));
        assert_eq!(kib(b"-5"), Err(NOT_KIB));
        assert_eq!(kib(b"1.53"), Err(NOT_WHOLE_KIB));
    }

    #[test]
    fn decimals_and_bytes_are_cut_to_kib() {
        let gib = |field| MemoryUnit::Gib.read(field);
        assert_eq!(gib(b"5.03"), Ok(Some(5_274_337 * 1024)));
        assert_eq!(gib(b""), Ok(None));
        assert!(gib(b"-1").is_err() && gib(b"NaN").is_err() && gib(b"1e300").is_err());
        assert_eq!(MemoryUnit::Mib.read(b"1.5"), Ok(Some(1536 * 1024)));
        assert_eq!(MemoryUnit::Bytes.read(b"5000"), Ok(Some(4 * 1024)));
        assert!(MemoryUnit::Bytes.read(b"18446744073709551615").is_err());
    }
}
