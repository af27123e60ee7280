//! What a check has to say.

use std::fmt;

use heaptrial_model::ServiceName;
use serde::{Deserialize, Serialize};

/// What was checked. The words are stable: scripts may rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    UnitState,
    ServiceType,
    Environment,
    PresentPreload,
    ForeignSetting,
    Program,
    OwnAllocator,
    SecureExecution,
    LibraryNeeds,
    LibraryPath,
    HiddenPath,
    Probe,
    SystemCalls,
    MemoryLimit,
    HeadRoom,
    Torrc,
    UnitFiles,
}

/// The same word as in JSON.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, c) in format!("{self:?}").char_indices() {
            match c.is_ascii_uppercase() && at > 0 {
                true => write!(f, "_{}", c.to_ascii_lowercase())?,
                false => write!(f, "{}", c.to_ascii_lowercase())?,
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The treatment would not take hold, would make the service fail, or would not be safe.
    Refuse,
    /// It may not take hold, or something else will be different too.
    Warn,
}

impl Severity {
    /// The word used in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Warn => "warn",
        }
    }
}

/// One thing that speaks against a treatment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub check: Check,
    pub severity: Severity,
    pub what: String,
    pub why: String,
    pub fix: String,
    /// Which service; `None` for the host.
    pub unit: Option<ServiceName>,
}

impl Finding {
    /// Whether the treatment must not be applied.
    pub fn refuses(&self) -> bool {
        self.severity == Severity::Refuse
    }
}

/// The findings about one service.
pub(crate) struct Findings {
    unit: ServiceName,
    list: Vec<Finding>,
}

impl Findings {
    pub(crate) fn new(unit: ServiceName) -> Self {
        Self { unit, list: Vec::new() }
    }

    pub(crate) fn refuse(
        &mut self,
        check: Check,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(Severity::Refuse, check, (what.into(), why.into(), fix.into()));
    }

    pub(crate) fn warn(
        &mut self,
        check: Check,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(Severity::Warn, check, (what.into(), why.into(), fix.into()));
    }

    fn add(&mut self, severity: Severity, check: Check, (what, why, fix): (String, String, String)) {
        let finding = Finding { check, severity, what, why, fix, unit: Some(self.unit.clone()) };
        if !self.list.contains(&finding) {
            self.list.push(finding);
        }
    }

    /// Refusals first, otherwise in the order in which they were found.
    pub(crate) fn into_sorted(mut self) -> Vec<Finding> {
        self.list.sort_by_key(|finding| finding.severity);
        self.list
    }
}
