//! Figures as people read them. Memory is shown in MiB (1,048,576 bytes) and GiB (1,024 MiB)
//! everywhere: what `systemctl status` and `top` call M and G.

/// What the units of memory mean, for the foot of a report.
pub const LEGEND: &str =
    "1 MiB is 1,048,576 bytes and 1 GiB is 1,024 MiB: what systemctl status and top call M and G.";

pub const MIB: f64 = 1_048_576.0;
pub const GIB: f64 = 1024.0 * MIB;
/// In seconds.
pub const HOUR: f64 = 3600.0;
pub const DAY: f64 = 24.0 * HOUR;

/// Memory with three significant digits, such as `4.21 MiB`, `97.1 MiB` or `6.19 GiB`; what would be `0.00 MiB` is shown in KiB.
pub fn memory(bytes: f64) -> String {
    let magnitude = bytes.abs();
    // Below, two digits behind the point would show nothing.
    if magnitude > 0.0 && magnitude < 0.01 * MIB {
        return format!("{} KiB", three_digits(bytes / 1024.0));
    }
    // From here on rounding would show four digits of MiB.
    if magnitude >= 999.5 * MIB {
        format!("{} GiB", three_digits(bytes / GIB))
    } else {
        format!("{} MiB", three_digits(bytes / MIB))
    }
}

/// The time over which growth is shown: one that a run of the length really saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Minute,
    Hour,
    Day,
}

impl Pace {
    /// For services that live this long.
    pub fn for_length(seconds: f64) -> Self {
        match seconds {
            seconds if seconds < HOUR => Self::Minute,
            seconds if seconds < DAY => Self::Hour,
            _ => Self::Day,
        }
    }

    fn hours_and_unit(self) -> (f64, &'static str) {
        match self {
            Self::Minute => (1.0 / 60.0, "min"),
            Self::Hour => (1.0, "h"),
            Self::Day => (24.0, "d"),
        }
    }
}

/// A growth with its sign, such as `+1.20 MiB/h`.
pub fn growth(bytes_per_hour: f64, pace: Pace) -> String {
    let (hours, unit) = pace.hours_and_unit();
    let bytes = bytes_per_hour.abs() * hours;
    // Less than two digits behind the point show is none.
    let zero = bytes < 0.005 * MIB;
    let text = if zero { "0.00 MiB".to_owned() } else { memory(bytes) };
    let sign = match bytes_per_hour {
        _ if zero => "±",
        rate if rate < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{text}/{unit}")
}

/// A ratio such as `0.62`, `0.0023` or `5,040`: small ones keep two significant digits, and large ones no digits behind the point.
pub fn ratio(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        _ if magnitude >= 999_999.5 => format!("{value:.0e}"),
        _ if magnitude >= 999.5 => {
            format!("{}{}", if value < 0.0 { "-" } else { "" }, count(magnitude.round() as u64))
        }
        _ if magnitude >= 99.95 => format!("{value:.0}"),
        _ if magnitude == 0.0 || magnitude >= 0.0995 => format!("{value:.2}"),
        _ if magnitude < 1e-9 => format!("{value:.0e}"),
        _ => {
            let digits = (1.0 - magnitude.log10().floor()) as usize;
            format!("{value:.digits$}")
        }
    }
}

/// A share that somebody chose, such as a margin, with all of its digits up to a millionth: `0.15%`, `1%`.
pub fn margin(value: f64) -> String {
    let text = format!("{:.4}", value * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A duration such as `4.5 s`, `45 s`, `5 min`, `5 min 12 s`, `3 h 20 min` or `2 d 4 h`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "?".to_owned();
    }
    if seconds < 9.95 {
        return format!("{} s", trim_zeros(format!("{seconds:.1}")));
    }
    let whole = seconds.round() as u64;
    let (days, hours, minutes, rest) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    let parts = match (days, hours, minutes, rest) {
        (0, 0, 0, s) => [(s, "s"), (0, "")],
        (0, 0, m, s) => [(m, "min"), (s, "s")],
        (0, h, m, _) => [(h, "h"), (m, "min")],
        (d, h, _, _) => [(d, "d"), (h, "h")],
    };
    let shown = parts.iter().enumerate().filter(|(index, (number, _))| *index == 0 || *number > 0);
    shown.map(|(_, (number, unit))| format!("{number} {unit}")).collect::<Vec<_>>().join(" ")
}

/// CPU time such as `9.4 s` or `110 s`.
pub fn cpu(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.995 => format!("{seconds:.2} s"),
        seconds if seconds < 99.95 => format!("{seconds:.1} s"),
        _ => format!("{seconds:.0} s"),
    }
}

/// A count with separators, such as `1,200,000`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 service`, `200 services`.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(number as u64), if number == 1 { "" } else { "s" })
}

/// A share such as `97%`, `0.4%` or `<0.1%`; `100%` only where nothing is missing.
pub fn share(value: f64) -> String {
    let percent = value * 100.0;
    if (99.5..100.0).contains(&percent) {
        return if percent > 99.9 {
            ">99.9%".to_owned()
        } else {
            format!("{:.1}%", (percent * 10.0).floor() / 10.0)
        };
    }
    if percent.abs() < 0.05 {
        return if percent > 0.0 { "<0.1%" } else { "0%" }.to_owned();
    }
    if percent.abs() >= 9.95 {
        format!("{percent:.0}%")
    } else {
        format!("{}%", trim_zeros(format!("{percent:.1}")))
    }
}

/// A share with two digits, for growth: `2.1%`, `0.35%`, `12%`.
pub fn percent(value: f64) -> String {
    let percent = value * 100.0;
    let magnitude = percent.abs();
    let text = if magnitude < 0.005 {
        "0.00".to_owned()
    } else if magnitude >= 9.95 {
        format!("{percent:.0}")
    } else if magnitude >= 0.995 {
        format!("{percent:.1}")
    } else {
        format!("{percent:.2}")
    };
    format!("{text}%")
}

/// A share with its sign: `+2.1%`, `−0.35%` or `±0.00%`.
pub fn signed_percent(value: f64) -> String {
    let text = percent(value.abs());
    let zero = text.chars().all(|c| !c.is_ascii_digit() || c == '0');
    let sign = match value {
        _ if zero => "±",
        value if value < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{text}")
}

/// A p-value with two or three digits: `0.012`, `<0.001`.
pub fn p_value(value: f64) -> String {
    match value {
        value if value < 0.001 => "<0.001".to_owned(),
        value if value < 0.0995 => format!("{value:.3}"),
        _ => format!("{value:.2}"),
    }
}

fn three_digits(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if magnitude >= 99.95 {
        format!("{value:.0}")
    } else if magnitude >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

fn trim_zeros(text: String) -> String {
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_three_digits_and_its_unit() {
        for (bytes, text) in [
            (0.0, "0 MiB"),
            (300.0, "0.29 KiB"),
            (4096.0, "4.00 KiB"),
            (0.01 * MIB, "0.01 MiB"),
            (4.206 * MIB, "4.21 MiB"),
            (97.06 * MIB, "97.1 MiB"),
            (321.4 * MIB, "321 MiB"),
            (999.6 * MIB, "0.98 GiB"),
            (6.187 * GIB, "6.19 GiB"),
        ] {
            assert_eq!(memory(bytes), text);
        }
    }

    #[test]
    fn growth_has_a_sign_and_no_negative_zero() {
        assert_eq!(growth(1.2 * MIB, Pace::Hour), "+1.20 MiB/h");
        assert_eq!(growth(-0.25 * GIB, Pace::for_length(864_000.0)), "−6.00 GiB/d");
        assert_eq!(growth(72.0 * MIB, Pace::for_length(300.0)), "+1.20 MiB/min");
        assert_eq!(growth(-10.0, Pace::Hour), "±0.00 MiB/h");
    }

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        assert_eq!(
            (share(-0.0001), percent(-0.00001), signed_percent(-0.00001)),
            ("0%".into(), "0.00%".into(), "±0.00%".into())
        );
        assert_eq!((share(0.0001), share(-0.2), share(-0.0)), ("<0.1%".into(), "-20%".into(), "0%".into()));
    }

    #[test]
    fn durations_name_two_units_at_most() {
        for (seconds, text) in [
            (0.0, "0 s"),
            (4.5, "4.5 s"),
            (45.2, "45 s"),
            (59.7, "1 min"),
            (300.0, "5 min"),
            (312.0, "5 min 12 s"),
            (12_000.0, "3 h 20 min"),
            (187_200.0, "2 d 4 h"),
            (f64::NAN, "?"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn counts_and_shares() {
        assert_eq!((count(0), count(999), count(1_200_000)), ("0".into(), "999".into(), "1,200,000".into()));
        assert_eq!(
            [share(0.972), share(0.004), share(0.05), share(0.0004), share(-0.0)],
            ["97%", "0.4%", "5%", "<0.1%", "0%"]
        );
        assert_eq!(
            [share(0.9977), share(0.99996), share(1.0), share(0.994)],
            ["99.7%", ">99.9%", "100%", "99%"]
        );
        assert_eq!(
            [signed_percent(0.021), signed_percent(-0.0035), signed_percent(0.12), signed_percent(0.00001)],
            ["+2.1%", "−0.35%", "+12%", "±0.00%"]
        );
        assert_eq!([p_value(0.0001), p_value(0.0123), p_value(0.5)], ["<0.001", "0.012", "0.50"]);
        assert_eq!((ratio(0.618), ratio(4.0), ratio(0.0123)), ("0.62".into(), "4.00".into(), "0.012".into()));
        let ratios = [0.0996, 0.05, 0.00981, 0.0002, 0.0, 99.94, 343_018.03, 5040.53, -0.004].map(ratio);
        assert_eq!(
            ratios,
            ["0.10", "0.050", "0.0098", "0.00020", "0.00", "99.94", "343,018", "5,041", "-0.0040"]
        );
        assert_eq!([0.0015, 0.01, 0.0025, 0.0004].map(margin), ["0.15%", "1%", "0.25%", "0.04%"]);
    }
}
