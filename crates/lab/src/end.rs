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
        Self { signal: EndSignal::Term, grace: Duration::from_secs(5) }
    }
}

/// The signals that programs give a meaning of ending to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndSignal {
    Term,
    Int,
    Quit,
    Hup,
    Usr1,
    Usr2,
    Winch,
    Abrt,
    Kill,
}

impl EndSignal {
    const ALL: [(Self, &'static str, Signal); 9] = [
        (Self::Term, "TERM", Signal::TERM),
        (Self::Int, "INT", Signal::INT),
        (Self::Quit, "QUIT", Signal::QUIT),
        (Self::Hup, "HUP", Signal::HUP),
        (Self::Usr1, "USR1", Signal::USR1),
        (Self::Usr2, "USR2", Signal::USR2),
        (Self::Winch, "WINCH", Signal::WINCH),
        (Self::Abrt, "ABRT", Signal::ABORT),
        (Self::Kill, "KILL", Signal::KILL),
    ];

    pub(crate) fn signal(self) -> Signal {
        Self::ALL[self as usize].2
    }
}

impl fmt::Display for EndSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize].1)
    }
}

impl FromStr for EndSignal {
    type Err = String;

    /// A name, with or without `SIG`.
    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let found = Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(signal, ..)| *signal);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|(_, name, _)| name).join(", ");
            format!("`{text}` is not a signal; expected one of {names}")
        })
    }
}
