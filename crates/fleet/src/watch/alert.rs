//! What a watch alerts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Something that whoever runs the services should know: one alert a kind, with the services that it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    pub kind: AlertKind,
    /// By service; what is about none has another word there, such as `host` or the path of a file.
    pub found: BTreeMap<String, Found>,
}

/// What was found of one service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The alert has changed when this has; figures that move with each reading are not in it.
    pub state: String,
    pub text: String,
}

/// Something that was found at a check or a look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub kind: AlertKind,
    pub service: String,
    pub found: Found,
}

impl Finding {
    pub(crate) fn new(
        kind: AlertKind,
        service: impl Into<String>,
        state: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self { kind, service: service.into(), found: Found { state: state.into(), text: text.into() } }
    }
}

/// What an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    Level,
    Growth,
    Memory,
    Identity,
    /// A file of the allocator or the C library is another one on disk: the next start will run it.
    File,
    DropIn,
    NewService,
    Failures,
    Stopped,
    Work,
    NoData,
}

impl Alert {
    /// One alert a kind.
    pub(crate) fn all(findings: impl IntoIterator<Item = Finding>) -> BTreeMap<AlertKind, Self> {
        let mut alerts: BTreeMap<AlertKind, Self> = BTreeMap::new();
        for Finding { kind, service, found } in findings {
            let alert = alerts.entry(kind).or_insert_with(|| Self { kind, found: BTreeMap::new() });
            alert.found.entry(service).or_insert(found);
        }
        alerts
    }

    /// The services that it is about, sorted.
    pub fn services(&self) -> Vec<&str> {
        self.found.keys().map(String::as_str).collect()
    }

    /// What was found, each text once with the services that it is true of.
    pub fn text(&self) -> String {
        let mut by_text: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (service, found) in &self.found {
            by_text.entry(&found.text).or_default().push(service);
        }
        let lines = by_text.into_iter().map(|(text, services)| format!("{}: {text}", services.join(", ")));
        lines.collect::<Vec<_>>().join("; ")
    }

    /// Whether it is about the same as before.
    pub(crate) fn is_same(&self, before: &Self) -> bool {
        let states = |alert: &Self| -> Vec<(String, String)> {
            alert.found.iter().map(|(service, found)| (service.clone(), found.state.clone())).collect()
        };
        states(self) == states(before)
    }
}

impl AlertKind {
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
            Self::NoData => "no_data",
        }
    }

    pub fn severity(self) -> &'static str {
        match self {
            Self::Level
            | Self::Growth
            | Self::Memory
            | Self::Identity
            | Self::DropIn
            | Self::Failures
            | Self::Stopped => "error",
            Self::File | Self::NewService | Self::Work | Self::NoData => "warning",
        }
    }
}
