//! A life: one process lifetime of a service.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What distinguishes one life from any other on a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LifeKey {
    pub boot_id: String,
    pub pid: i32,
    /// Start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_ticks: u64,
}

/// What stands between several reasons why a life does not count.
const BETWEEN_REASONS: &str = "; ";

/// Why a life does not count, with a reason that came to those that were known: all of them in order, each once.
pub fn with_reason(known: Option<String>, why: &str) -> String {
    let Some(known) = known else { return why.to_owned() };
    let between = |text: &str| format!("{BETWEEN_REASONS}{text}{BETWEEN_REASONS}");
    match between(&known).contains(&between(why)) {
        true => known,
        false => known + BETWEEN_REASONS + why,
    }
}

/// How the start of a life is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LifeStart {
    /// Read from the kernel, exact to a clock tick.
    #[default]
    Observed,
    /// Inferred from readings between which the process must have been started anew.
    Inferred {
        /// The start lies at most this far from the recorded time, in microseconds.
        uncertainty_us: i64,
    },
    /// Before the first reading: the age is a lower bound (left-censored).
    Unknown,
}

/// How a life ended, as meant or otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Heaptrial ended it as planned, at the end of the run.
    Planned,
    /// The run was interrupted while it lived.
    Interrupted,
    /// It exited by itself before its time, with this exit code.
    Exited(i32),
    /// A signal that Heaptrial did not send killed it.
    Signaled(i32),
    /// The main process ended but processes that it started live on (it forked away).
    ForkedAway,
    /// The service manager stopped it, outside of any plan, or it ended by itself with success; which
    /// of them is not known.
    Stopped,
}

impl Ending {
    /// Whether the life lasted as long as it was meant to.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Planned)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Planned => f.write_str("ended as planned"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Exited(code) => write!(f, "exited early with code {code}"),
            Self::Signaled(number) => write!(f, "killed by {}", signal_name(*number)),
            Self::ForkedAway => f.write_str("forked away: its main process ended and left others running"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        31 => "SIGSYS",
        _ => return format!("signal {number}"),
    };
    format!("{name} (signal {number})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_once_in_order() {
        let all = |reasons: &[&str]| reasons.iter().fold(None, |known, why| Some(with_reason(known, why)));
        assert_eq!(all(&["a", "b", "a", "c", "b"]).unwrap(), "a; b; c");
        // A part of another reason is one of its own; one of two parts is one.
        assert_eq!(all(&["it crashed", "it", "x; y", "x; y"]).unwrap(), "it crashed; it; x; y");
    }
}
