//! Numbers as tools write them.

use std::ops::{Add, Mul};

/// A number that was told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Number {
    pub(crate) value: f64,
    /// What its last digit counts: it may be off by half of that.
    pub(crate) step: f64,
}

impl Number {
    /// With commas between thousands, or with one for the decimal point; `None` where a comma may be either, or is neither: `1,203` is
    /// 1203 where a tool writes thousands so, and 1.203 where the locale does.
    pub(super) fn with_commas(text: &str) -> Option<Self> {
        let text = text.trim_end_matches(',');
        let (whole, fraction) =
            text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
        let groups: Vec<&str> = whole.split(',').collect();
        let of_thousands =
            groups[0].len() <= 3 && groups[0] != "0" && groups[1..].iter().all(|group| group.len() == 3);
        match (groups.as_slice(), fraction) {
            ([_], _) => Self::plain(text),
            ([_, _], None) if of_thousands => None,
            _ if of_thousands => Self::plain(&text.replace(',', "")),
            ([whole, decimals], None) => Self::plain(&format!("{whole}.{decimals}")),
            _ => None,
        }
    }

    /// With a decimal point, or an exponent.
    pub(super) fn plain(text: &str) -> Option<Self> {
        let value = text.parse().ok()?;
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let last = exponent.parse::<i32>().unwrap_or(0).saturating_sub(decimals as i32);
        Some(Self { value, step: 10_f64.powi(last) })
    }
}

impl Mul<f64> for Number {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self { value: self.value * factor, step: self.step * factor }
    }
}

impl Add for Number {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { value: self.value + other.value, step: self.step + other.step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_is_of_thousands_or_decimal() {
        for (text, value) in [
            ("1,234", None),
            ("1,234.5", Some(1234.5)),
            ("1,234,567", Some(1_234_567.0)),
            ("12,345,678.9", Some(12_345_678.9)),
            ("1,5", Some(1.5)),
            ("0,125", Some(0.125)),
            ("1234,567", Some(1234.567)),
            ("12.5,", Some(12.5)),
            ("1.234,5", None),
            ("1,2,3", None),
        ] {
            assert_eq!(Number::with_commas(text).map(|number| number.value), value, "{text}");
        }
    }

    #[test]
    fn the_last_digit_tells_the_step() {
        for (text, step) in [
            ("16", 1.0),
            ("1.50", 0.01),
            ("0", 1.0),
            ("0.0004", 1e-4),
            ("1,234.5", 0.1),
            ("0,12", 0.01),
            ("2.5e-3", 1e-4),
        ] {
            let told = Number::with_commas(text).unwrap().step;
            assert!((told / step - 1.0).abs() < 1e-9, "{text}: {told}");
        }
    }
}
