//! How a service is asked to end.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

/// What ends a service: a signal to every process of it, and then time before they are killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndRequest {
    pub signal: EndSignal,
    /// How long its processes may take to end before they get SIGKILL.
    pub grace: Duration,
}

impl Default for EndRequest {
    fn default() -> Self {
        Self { signal: EndSignal(Signal::TERM), grace: Duration::from_secs(5) }
    }
}

/// A signal by which a service can be asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "i32", try_from = "i32")]
pub struct EndSignal(Signal);

/// Those that programs give a meaning of ending to.
const NAMED: [(&str, Signal); 9] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("HUP", Signal::HUP),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("WINCH", Signal::WINCH),
    ("ABRT", Signal::ABORT),
    ("KILL", Signal::KILL),
];

impl EndSignal {
    pub(crate) const INTERRUPT: Self = Self(Signal::INT);

    pub(crate) fn signal(self) -> Signal {
        self.0
    }
}

impl fmt::Display for EndSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMED.iter().find(|(_, signal)| *signal == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0.as_raw()),
        }
    }
}

impl From<EndSignal> for i32 {
    fn from(signal: EndSignal) -> Self {
        signal.0.as_raw()
    }
}

impl TryFrom<i32> for EndSignal {
    type Error = String;

    fn try_from(number: i32) -> Result<Self, String> {
        Signal::from_named_raw(number)
            .map(Self)
            .ok_or_else(|| format!("{number} is not the number of a signal"))
    }
}

impl FromStr for EndSignal {
    type Err = String;

    /// A name, with or without `SIG`, or a number.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.parse::<i32>() {
            return Self::try_from(number);
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let found = NAMED.iter().find(|(known, _)| *known == name).map(|(_, signal)| Self(*signal));
        found.ok_or_else(|| {
            let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is not a signal; expected a number or one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_a_name_or_a_number() {
        for (text, number, shown) in
            [("TERM", 15, "TERM"), ("sigquit", 3, "QUIT"), ("10", 10, "USR1"), ("18", 18, "18")]
        {
            let signal: EndSignal = text.parse().unwrap();
            assert_eq!((i32::from(signal), signal.to_string().as_str()), (number, shown));
            assert_eq!(signal.to_string().parse(), Ok(signal));
            let stored = serde_json::to_string(&signal).unwrap();
            assert_eq!(serde_json::from_str::<EndSignal>(&stored).unwrap(), signal);
        }
        for wrong in ["", "0", "-9", "99", "TERMINATE"] {
            assert!(wrong.parse::<EndSignal>().is_err(), "{wrong}");
        }
    }
}
