//! What a service did for its users, as the load or the service itself reports it.

use std::fmt;
use std::str::FromStr;

use crate::InvalidText;
use crate::word::words;

words! {
    /// What the numbers of a measure are.
    pub enum WorkKind: "kind of a measure" {
        /// What was done a second: more is better.
        Rate = "rate",
        /// What it took, such as a latency: less is better.
        Less = "less",
        /// A count since the start of a life: what it rises by a second is compared, and more is better.
        Count = "count",
    }
}

/// A measure of work: `tps`, `less:latency_ms`, `count:requests`. Without a kind it is a rate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkMeasure {
    pub kind: WorkKind,
    /// What is measured, with its unit where it has one.
    pub name: String,
}

/// Observations of work are called so, followed by the kind and the name.
const PREFIX: &str = "work";

/// Observations of what a load reported since it began of requests that failed, and of all that were tried.
pub const REQUESTS_FAILED_AND_TRIED: [&str; 2] = ["load_requests_failed", "load_requests_tried"];

impl WorkMeasure {
    /// The name of the observations that hold its numbers.
    pub fn observation(&self) -> String {
        format!("{PREFIX}:{}:{}", self.kind.as_str(), self.name)
    }

    /// The measure whose numbers are in observations of a name.
    pub fn of_observation(name: &str) -> Option<Self> {
        let (kind, name) = name.strip_prefix(PREFIX)?.strip_prefix(':')?.split_once(':')?;
        Some(Self { kind: kind.parse().ok()?, name: name.to_owned() })
    }
}

impl FromStr for WorkMeasure {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let (kind, name) = match text.split_once(':') {
            Some((word, name)) => (word.parse().ok(), name),
            None => (Some(WorkKind::Rate), text),
        };
        let fits = (1..=60).contains(&name.chars().count()) && name.trim() == name;
        let plain = name.chars().all(|c| !c.is_control() && !matches!(c, '=' | ':' | '#'));
        match kind {
            Some(kind) if fits && plain => Ok(Self { kind, name: name.to_owned() }),
            _ => Err(InvalidText(format!(
                "`{text}` is not a measure of work; expected a NAME for what is done a second, less:NAME where less is better, or \
                 count:NAME for a count since the start; a name has up to 60 printable characters without `=`, `:` and `#`"
            ))),
        }
    }
}

impl fmt::Display for WorkMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            WorkKind::Rate => f.write_str(&self.name),
            kind => write!(f, "{}:{}", kind.as_str(), self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_is_read_and_told_the_same() {
        for (text, kind, name) in [
            ("tps", WorkKind::Rate, "tps"),
            ("less:p99 ms", WorkKind::Less, "p99 ms"),
            ("count:requests", WorkKind::Count, "requests"),
        ] {
            let measure: WorkMeasure = text.parse().unwrap();
            assert_eq!(measure, WorkMeasure { kind, name: name.to_owned() });
            assert_eq!(measure.to_string(), text);
            assert_eq!(WorkMeasure::of_observation(&measure.observation()), Some(measure));
        }
        assert_eq!("rate:tps".parse::<WorkMeasure>().unwrap().to_string(), "tps");
        for text in ["", "less:", "more:tps", "a=b", " tps", "less:a:b", &"x".repeat(61)] {
            assert!(text.parse::<WorkMeasure>().is_err(), "{text}");
        }
        assert_eq!(WorkMeasure::of_observation("tor_read_bytes"), None);
    }
}
