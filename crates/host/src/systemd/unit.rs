//! A unit as systemd has it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use heaptrial_model::ServiceName;
use serde::{Deserialize, Serialize};

use crate::Scope;

/// A service unit as loaded. Names of properties: org.freedesktop.systemd1(5), systemd.exec(5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Its full name, such as `tor@relay1.service`; of several names the one that systemd shows (Id).
    pub name: ServiceName,
    #[serde(default, skip_serializing_if = "Scope::is_system")]
    pub scope: Scope,
    pub description: String,
    /// The template and the instance (unescaped), such as `tor@.service` and `relay1`.
    pub template: Option<(String, String)>,
    pub load_state: String,
    pub unit_file: Option<PathBuf>,
    pub drop_ins: Vec<PathBuf>,
    pub service_type: String,
    /// What runs at start, program and arguments, one for each ExecStart.
    pub exec_start: Vec<Vec<String>>,
    /// Its user; empty is root, or the user whose service manager it is.
    pub user: String,
    pub environment: Vec<(String, String)>,
    /// Files of further ones, `-` of optional ones left out (EnvironmentFiles).
    pub environment_files: Vec<PathBuf>,
    pub unset_environment: Vec<String>,
    pub memory_max_bytes: Option<u64>,
    pub sandbox: Sandbox,
    pub remain_after_exit: bool,
    pub refuse_manual_start: bool,
    pub refuse_manual_stop: bool,
    /// Whether the files on disk differ from what is loaded (NeedDaemonReload; does not see a new drop-in folder).
    pub needs_reload: bool,
    pub status: UnitStatus,
}

/// What changes about a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitStatus {
    pub active_state: String,
    pub sub_state: String,
    pub main_pid: Option<i32>,
    /// Path in the hierarchy of control groups, such as `/system.slice/system-tor.slice/tor@relay1.service`.
    pub control_group: String,
    /// Restarts by systemd itself since the last start by hand (NRestarts).
    pub restarts: u32,
    pub result: String,
    /// How the last main process ended: `CLD_EXITED` 1, `CLD_KILLED` 2, `CLD_DUMPED` 3 (ExecMainCode); 0 while it runs.
    pub exec_main_code: i32,
    pub exec_main_status: i32,
    pub invocation_id: String,
    /// Number of its job that is queued or runs: between its two halves a restart leaves its unit inactive.
    #[serde(skip)]
    pub job: Option<u32>,
}

impl UnitStatus {
    pub fn is_running(&self) -> bool {
        self.active_state == "active" && self.main_pid.is_some()
    }

    /// Whether it is stopped, and nothing is about to start it: by a person, or because it was through with its work.
    pub fn is_stopped(&self) -> bool {
        self.active_state == "inactive" && self.job.is_none()
    }
}

impl Unit {
    /// The variables of its Environment=, each once; those of its EnvironmentFile and systemd's own are not among them.
    pub fn variables(&self) -> Vec<(String, String)> {
        let (set, unset) = (self.environment.clone(), self.unset_environment.clone());
        UnitEnvironment { drop_ins: Vec::new(), set, unset }.variables()
    }
}

/// What the processes of a service get from its unit and drop-ins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitEnvironment {
    pub drop_ins: Vec<PathBuf>,
    pub set: Vec<(String, String)>,
    pub unset: Vec<String>,
}

impl UnitEnvironment {
    /// The variables, each once; those of the unit's EnvironmentFile and systemd's own are not among them.
    pub fn variables(&self) -> Vec<(String, String)> {
        let names: BTreeSet<&str> = self.set.iter().map(|(name, _)| name.as_str()).collect();
        names.into_iter().filter_map(|name| Some((name.to_owned(), self.value(name)?.to_owned()))).collect()
    }

    /// The value that a variable has, where the last one counts.
    pub fn value(&self, name: &str) -> Option<&str> {
        let found = self.set.iter().rev().find(|(variable, _)| variable == name);
        found.map(|(_, value)| value.as_str()).filter(|_| !self.unset.iter().any(|unset| unset == name))
    }
}

/// What decides whether a service sees a path of the host at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    pub root_directory: Option<PathBuf>,
    pub root_image: Option<PathBuf>,
    /// What is mounted elsewhere for it (BindPaths, BindReadOnlyPaths).
    pub bind_paths: Vec<BindPath>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindPath {
    pub source: PathBuf,
    pub target: PathBuf,
}
