//! Numbers as scripts write them.

/// The largest count of KiB whose bytes fit into SQLite's signed integers.
const MAX_KIB: u64 = (i64::MAX / 1024) as u64;

/// Why a field is not an amount of memory.
const NOT_KIB: &str = "expected a whole number of KiB, 0 or more";

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
pub(crate) fn kib(field: &[u8]) -> Result<Option<u64>, &'static str> {
    if field.trim_ascii().is_empty() {
        return Ok(None);
    }
    whole(field).filter(|number| *number <= MAX_KIB).map(|number| Some(number * 1024)).ok_or(NOT_KIB)
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
        assert_eq!(kib(b"1.53"), Err(NOT_KIB));
    }
}
