//! Numbers as tools write them.

/// With commas between thousands, or with one for the decimal point; `None` where a comma may be either, or is neither: `1,203` is
/// 1203 where a tool writes thousands so, and 1.203 where the locale does.
pub(super) fn with_commas(text: &str) -> Option<f64> {
    let text = text.trim_end_matches(',');
    let (whole, fraction) =
        text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let groups: Vec<&str> = whole.split(',').collect();
    let of_thousands =
        groups[0].len() <= 3 && groups[0] != "0" && groups[1..].iter().all(|group| group.len() == 3);
    match (groups.as_slice(), fraction) {
        ([_], _) => text.parse().ok(),
        ([_, _], None) if of_thousands => None,
        _ if of_thousands => text.replace(',', "").parse().ok(),
        ([whole, decimals], None) => format!("{whole}.{decimals}").parse().ok(),
        _ => None,
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
            assert_eq!(with_commas(text), value, "{text}");
        }
    }
}
