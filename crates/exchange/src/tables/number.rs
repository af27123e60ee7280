//! Numbers as scripts write them.

use std::str::FromStr;

/// What a column of memory counts. Prefixes are of 1024, as those of /proc are, whether or not they have an `i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Kib,
    Mib,
    Gib,
}

impl Unit {
    fn bytes(self) -> u64 {
        match self {
            Self::Bytes => 1,
            Self::Kib => 1 << 10,
            Self::Mib => 1 << 20,
            Self::Gib => 1 << 30,
        }
    }

    /// Why a field is not an amount in this unit.
    fn expected(self) -> &'static str {
        match self {
            Self::Bytes => "expected a whole number of bytes, 0 or more",
            Self::Kib => "expected a whole number of KiB, 0 or more",
            Self::Mib => "expected a number of MiB, 0 or more",
            Self::Gib => "expected a number of GiB, 0 or more",
        }
    }
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "bytes" => Ok(Self::Bytes),
            "kb" | "kib" => Ok(Self::Kib),
            "mb" | "mib" => Ok(Self::Mib),
            "gb" | "gib" => Ok(Self::Gib),
            _ => Err("expected bytes, KiB, MiB or GiB".to_owned()),
        }
    }
}

/// A whole number without a sign. Numbers in exponent form, as `awk` writes large ones, are taken if they are whole.
pub(crate) fn whole(field: &[u8]) -> Option<u64> {
    let digits = field.trim_ascii();
    if digits.is_empty() {
        return None;
    }
    let mut number: u64 = 0;
    for byte in digits {
        if !byte.is_ascii_digit() {
            // Up to 2^53 every whole number is a float.
            let number = float(digits).filter(|number| *number <= 9_007_199_254_740_992.0)?;
            return (number.fract() == 0.0).then_some(number as u64);
        }
        number = number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
    }
    Some(number)
}

/// Bytes; `Ok(None)` for an empty field. What SQLite's signed integers cannot hold is no amount.
pub(crate) fn amount(field: &[u8], unit: Unit) -> Result<Option<u64>, &'static str> {
    let field = field.trim_ascii();
    if field.is_empty() {
        return Ok(None);
    }
    let bytes = match unit {
        Unit::Bytes | Unit::Kib => whole(field).and_then(|number| number.checked_mul(unit.bytes())),
        Unit::Mib | Unit::Gib => float(field).map(|number| (number * unit.bytes() as f64) as u64),
    };
    bytes.filter(|bytes| *bytes < i64::MAX as u64).map(Some).ok_or(unit.expected())
}

/// A number without a sign; words such as `inf` and `nan` are numbers to Rust.
fn float(text: &[u8]) -> Option<f64> {
    let plain = text.iter().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(byte));
    if !plain || text.starts_with(b"-") || text.len() > 40 {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
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
        for bad in ["", "-1", "1.5", "1e99", "inf", "18446744073709551616", "\u{663}"] {
            assert_eq!(whole(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn memory_does_not_overflow_the_database() {
        assert_eq!(amount(b"", Unit::Kib), Ok(None));
        assert_eq!(amount(b"9007199254740991", Unit::Kib), Ok(Some(9_007_199_254_740_991 * 1024)));
        for bad in ["9007199254740992", "-5", "1.53"] {
            assert_eq!(amount(bad.as_bytes(), Unit::Kib), Err(Unit::Kib.expected()), "{bad}");
        }
        assert_eq!(amount(b"1e30", Unit::Gib), Err(Unit::Gib.expected()));
    }

    #[test]
    fn units_are_of_1024() {
        for (text, unit, bytes) in [
            ("1500", "bytes", 1_500),
            ("1500", "KB", 1_536_000),
            ("1.5", "MiB", 1_572_864),
            ("2", "gb", 1 << 31),
        ] {
            assert_eq!(amount(text.as_bytes(), unit.parse().unwrap()), Ok(Some(bytes)), "{text} {unit}");
        }
        assert!("pages".parse::<Unit>().is_err());
    }
}
