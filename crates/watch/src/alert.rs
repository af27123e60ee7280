//! What a watch tells of.

use serde::{Deserialize, Serialize};

/// Something that whoever runs the services should know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// The same as long as it is about the same, such as `identity:tor@a.service`.
    pub key: String,
    pub kind: AlertKind,
    /// It is told anew when this changes; figures that move with each reading are not in it.
    pub state: String,
    /// The service that it is about; `None` where it is about all or several.
    pub service: Option<String>,
    /// The services that it is about where they are several of one cause, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// What was found, with figures.
    pub text: String,
    pub advice: String,
}

/// What an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    Level,
    Growth,
    /// Memory runs out, or is nearly used up.
    Memory,
    /// A process runs something else than was proved.
    Identity,
    /// A file of the allocator or the C library is another one on disk: the next start will run it.
    File,
    /// The files of a treatment are gone, changed or not in force.
    DropIn,
    /// A service that is like those of the trial and has no treatment.
    NewService,
    /// More crashes or kills than in the trial.
    Failures,
    /// A service does not run.
    Stopped,
    /// A service does far less work than before.
    Work,
    /// A relay lost flags of the consensus though it ran on.
    Flags,
    NoData,
    /// A trial or rollout of this host changed or put back what is watched.
    Transaction,
}

/// How urgent an alert is, as a priority of syslog(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    /// 4: something may go wrong, or is not known.
    Warning,
}

impl Alert {
    /// All services that it names.
    pub fn about(&self) -> impl Iterator<Item = &String> {
        self.service.iter().chain(&self.services)
    }
}

impl AlertKind {
    pub const ALL: [Self; 13] = [
        Self::Level,
        Self::Growth,
        Self::Memory,
        Self::Identity,
        Self::File,
        Self::DropIn,
        Self::NewService,
        Self::Failures,
        Self::Stopped,
        Self::Work,
        Self::Flags,
        Self::NoData,
        Self::Transaction,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Level => "level",
            Self::Growth => "growth",
            Self::Memory => "memory",
            Self::Identity => "identity",
            Self::File => "file",
            Self::DropIn => "drop_in",
            Self::NewService => "new_service",
            Self::Failures => "failures",
            Self::Stopped => "stopped",
            Self::Work => "work",
            Self::Flags => "flags",
            Self::NoData => "no_data",
            Self::Transaction => "transaction",
        }
    }

    pub fn severity(self) -> Severity {
        match self {
            Self::Level
            | Self::Growth
            | Self::Memory
            | Self::Identity
            | Self::DropIn
            | Self::Failures
            | Self::Stopped => Severity::Error,
            Self::File | Self::NewService | Self::Work | Self::Flags | Self::NoData | Self::Transaction => {
                Severity::Warning
            }
        }
    }
}

impl Severity {
    /// The prefix by which the journal knows it (sd-daemon(3)).
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Error => "<3>",
            Self::Warning => "<4>",
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}
