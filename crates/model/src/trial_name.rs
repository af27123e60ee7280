//! Names that become file names, parts of unit names, and patterns of units.

use crate::ServiceName;
use crate::trial::with_unit_type;
use crate::word::text_type;

text_type! {
    /// The name of a trial on a fleet, safe as the name of a file and as a part of a unit's name.
    ///
    /// Letters, digits and `- _ .`, 1 to 64 of them, not starting with `-` or `.`; not `host`, which the agent calls services
    /// that are in no trial.
    pub struct TrialName, valid by is_trial_name, else
        "`{0}` cannot name a trial, a run or their files; expected 1 to 64 of the characters a-z A-Z 0-9 - _ ., not starting with `-` or `.`, and not `host`"
}

text_type! {
    /// Which services: a unit's name, or one in which `*`, `?` and `[...]` stand for others (glob(7)). As for systemctl(1) a
    /// name without a unit's type means a service, and a backslash stands for itself: names that systemd-escape(1) made
    /// are written as they are.
    pub struct ServicePattern, valid by is_pattern, else
        "`{0}` is not a pattern of services; expected a unit's name such as tor@relay1.service, with *, ? or [...] for others, such as tor@*"
}

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

fn is_trial_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fits = (1..=64).contains(&text.len()) && text.chars().all(allowed);
    fits && !text.starts_with(['-', '.']) && text != "host"
}

fn is_pattern(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.@\\*?[]!^".contains(c);
    let valid = !text.is_empty() && text.chars().all(allowed) && !text.starts_with(['-', '.']);
    // One without wildcards is a name, in which not all characters of a pattern may stand.
    let named = text.contains(['*', '?', '[']) || ServiceName::of_unit(text).is_ok();
    valid && with_unit_type(text).len() <= 255 && named
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
