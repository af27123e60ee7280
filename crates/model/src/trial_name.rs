//! Names that become file names, parts of unit names, and patterns of units.

use std::str::FromStr;

use serde::Serialize;

use crate::ServiceName;
use crate::trial::with_unit_type;
use crate::word::text_type;

/// The name of a trial on a fleet, safe as the name of a file and as a part of a unit's name.
///
/// Letters, digits and `- _ .`, 1 to 64 of them, not starting with `-` or `.`; not `host`, which the agent calls services that
/// are in no trial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TrialName(String);

/// Why a text is not the name of a trial on a fleet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` cannot name a trial, a run or their files; expected 1 to 64 of the characters a-z A-Z 0-9 - _ ., not starting with `-` or `.`, and not `host`"
)]
pub struct TrialNameError(String);

/// Which services: a unit's name, or one in which `*`, `?` and `[...]` stand for others (glob(7)). As for systemctl(1) a
/// name without a unit's type means a service, and a backslash stands for itself: names that systemd-escape(1) made are
/// written as they are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ServicePattern(String);

/// Why a text is not a pattern of services.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a pattern of services; expected a unit's name such as tor@relay1.service, with *, ? or [...] for others, such as tor@*"
)]
pub struct ServicePatternError(String);

text_type!(TrialName);
text_type!(ServicePattern);

impl ServicePattern {
    /// The pattern of all services.
    pub fn all() -> Self {
        Self("*".to_owned())
    }

    /// The pattern that names one service.
    pub fn of(service: &ServiceName) -> Self {
        Self(service.as_str().to_owned())
    }

    /// The one unit that it names; `None` where it has wildcards.
    pub fn unit(&self) -> Option<ServiceName> {
        let exact = !self.0.contains(['*', '?', '[']);
        // Without wildcards it has the characters of a name.
        exact.then(|| ServiceName::of_unit(&self.0).ok()).flatten()
    }

    /// The pattern of full names: `tor@*` is `tor@*.service`.
    pub fn of_full_names(&self) -> String {
        with_unit_type(&self.0)
    }
}

impl FromStr for TrialName {
    type Err = TrialNameError;

    fn from_str(text: &str) -> Result<Self, TrialNameError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let valid =
            (1..=64).contains(&text.len()) && text.chars().all(allowed) && !text.starts_with(['-', '.']);
        if valid && text != "host" { Ok(Self(text.to_owned())) } else { Err(TrialNameError(text.to_owned())) }
    }
}

impl FromStr for ServicePattern {
    type Err = ServicePatternError;

    fn from_str(text: &str) -> Result<Self, ServicePatternError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.@\\*?[]!^".contains(c);
        let valid = !text.is_empty() && text.chars().all(allowed) && !text.starts_with(['-', '.']);
        let fits = with_unit_type(text).len() <= 255;
        // One without wildcards is a name, in which not all characters of a pattern may stand.
        let pattern = Self(text.to_owned());
        let named = pattern.0.contains(['*', '?', '[']) || pattern.unit().is_some();
        if valid && fits && named { Ok(pattern) } else { Err(ServicePatternError(text.to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_trials_are_safe_as_file_names() {
        for good in ["five-way", "a", "2025_tor.v2", &"x".repeat(64)] {
            assert_eq!(good.parse::<TrialName>().unwrap().to_string(), good);
        }
        for bad in ["host", "", ".", "..", "-x", "a/b", "a b", "ü", "a@b", "a\n", &"x".repeat(65)] {
            assert!(bad.parse::<TrialName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn patterns_are_names_with_wildcards() {
        for (good, full, exact) in [
            ("tor@*", "tor@*.service", false),
            ("tor@relay?.service", "tor@relay?.service", false),
            ("web-[12]", "web-[12].service", false),
            ("tor@a.service", "tor@a.service", true),
            ("php8.2-fpm", "php8.2-fpm.service", true),
            (r"foo@a\x2db", r"foo@a\x2db.service", true),
            ("x.timer", "x.timer", true),
        ] {
            let pattern: ServicePattern = good.parse().unwrap();
            assert_eq!(pattern.of_full_names(), full);
            assert_eq!(pattern.unit().map(|unit| unit.to_string()), exact.then(|| full.to_owned()));
        }
        for bad in ["", "-H", "tor@*;reboot", "a b", "/etc/passwd", "{a,b}", "a]", "a!", &"x".repeat(250)] {
            assert!(bad.parse::<ServicePattern>().is_err(), "{bad}");
        }
    }
}
