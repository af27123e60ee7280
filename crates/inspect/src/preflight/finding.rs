//! What a check has to say.

use std::fmt;

use heaptrial_model::ServiceName;
use serde::{Deserialize, Serialize};

/// What was checked. The words are stable: scripts may rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Whether the unit is there, runs, and may be restarted.
    UnitState,
    /// Whether it is a long-running service with a main process.
    ServiceType,
    /// Environment files, drop-ins and unset variables that undo the treatment's environment.
    Environment,
    /// An `LD_PRELOAD` that is there already, and `/etc/ld.so.preload`.
    PresentPreload,
    /// Settings of the allocator that are no part of the treatment.
    ForeignSetting,
    /// Whether a dynamic loader with `LD_PRELOAD` takes part: static programs, Go, other C libraries.
    Program,
    /// An allocator in the program itself, or one that it is linked against.
    OwnAllocator,
    /// Scripts, helpers and other programs that get the library too, or that keep it from the program.
    Wrapper,
    /// Setuid, setgid and file capabilities, for which the loader ignores `LD_PRELOAD`.
    SecureExecution,
    /// Whether the library needs a newer C library, another machine, or another loader.
    LibraryNeeds,
    /// Whether others than root could change the library, and whether the service can read it.
    LibraryPath,
    /// Whether the unit hides the library's path from the service.
    HiddenPath,
    /// Whether code in the library's path may be run.
    NoExec,
    /// MemoryDenyWriteExecute with a library that needs what it denies.
    MemoryDenyWriteExecute,
    Apparmor,
    SystemCalls,
    MapCount,
    AddressSpace,
    MemoryLimit,
    HeadRoom,
    Torrc,
    /// Whether unit files and drop-ins can be written: whose their folders are, and whether they are there already.
    UnitFiles,
}

impl Check {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnitState => "unit_state",
            Self::ServiceType => "service_type",
            Self::Environment => "environment",
            Self::PresentPreload => "present_preload",
            Self::ForeignSetting => "foreign_setting",
            Self::Program => "program",
            Self::OwnAllocator => "own_allocator",
            Self::Wrapper => "wrapper",
            Self::SecureExecution => "secure_execution",
            Self::LibraryNeeds => "library_needs",
            Self::LibraryPath => "library_path",
            Self::HiddenPath => "hidden_path",
            Self::NoExec => "no_exec",
            Self::MemoryDenyWriteExecute => "memory_deny_write_execute",
            Self::Apparmor => "apparmor",
            Self::SystemCalls => "system_calls",
            Self::MapCount => "map_count",
            Self::AddressSpace => "address_space",
            Self::MemoryLimit => "memory_limit",
            Self::HeadRoom => "head_room",
            Self::Torrc => "torrc",
            Self::UnitFiles => "unit_files",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
        self.add(Severity::Refuse, check, what.into(), why.into(), fix.into());
    }

    pub(crate) fn warn(
        &mut self,
        check: Check,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(Severity::Warn, check, what.into(), why.into(), fix.into());
    }

    pub(crate) fn add(&mut self, severity: Severity, check: Check, what: String, why: String, fix: String) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_same_in_tables_and_in_json() {
        for check in [Check::UnitState, Check::MemoryDenyWriteExecute, Check::Apparmor, Check::UnitFiles] {
            assert_eq!(format!("{check:?}").to_lowercase(), check.as_str().replace('_', ""));
        }
        assert!(Severity::Refuse < Severity::Warn);
    }
}
