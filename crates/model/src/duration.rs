//! Durations as people write them: `90s`, `5m`, `1h30m`, `0.5s`, `10d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::InvalidText;

/// A duration that is written as numbers with units (`d`, `h`, `m`, `s`, `ms`), in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(pub Duration);

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("ms", 1), ("m", 60_000), ("s", 1_000)];

impl HumanDuration {
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for HumanDuration {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let error = || {
            let expected = "numbers with units, such as 90s, 5m, 1h30m or 10d";
            InvalidText(format!("`{text}` is not a duration; write it as {expected}"))
        };
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(error());
        }
        let mut total_ms: u64 = 0;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
            let (number, after) = rest.split_at(end);
            let (unit, scale) =
                UNITS.into_iter().find(|(unit, _)| after.starts_with(unit)).ok_or_else(error)?;
            rest = &after[unit.len()..];
            let part = milliseconds(number, scale).ok_or_else(error)?;
            total_ms = total_ms.checked_add(part).ok_or_else(error)?;
        }
        Ok(Self(Duration::from_millis(total_ms)))
    }
}

/// A number such as `2` or `0.5` times `scale`, where that is a whole number.
fn milliseconds(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let of_fraction = fraction.parse::<u64>().ok()?.checked_mul(scale)?;
    let places = 10u64.checked_pow(fraction.len().try_into().ok()?)?;
    if of_fraction % places != 0 {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(of_fraction / places)
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_millis() as u64;
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, scale) in [UNITS[0], UNITS[1], UNITS[3], UNITS[4], UNITS[2]] {
            if rest >= scale {
                write!(f, "{}{unit}", rest / scale)?;
                rest %= scale;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_add_up() {
        for (text, milliseconds) in [
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("10d", 864_000_000),
            ("250ms", 250),
            ("0.5s", 500),
            ("1.5h", 5_400_000),
        ] {
            assert_eq!(text.parse::<HumanDuration>().unwrap().0.as_millis(), milliseconds);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "5", "5x", "-3s", "99999999999999999999d", ".5s", "0.5ms", "0.0001s"] {
            assert!(text.parse::<HumanDuration>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(milliseconds in 0u64..10_000_000_000) {
            let duration = HumanDuration(Duration::from_millis(milliseconds));
            prop_assert_eq!(duration.to_string().parse::<HumanDuration>().unwrap(), duration);
        }
    }
}
