//! Where the figures of a service's memory come from.

use std::path::Path;
use std::process::{Command, Stdio};

use heaptrial_host::{CgroupPlace, CgroupVersion, HostRoot};
use serde_json::{Value, json};

/// What systemd is asked for where the user may make no control group: one of the user's own, for one supervisor.
const SCOPE: [&str; 8] =
    ["systemd-run", "--user", "--scope", "--quiet", "--collect", "-p", "Delegate=yes", "--"];
/// Whether memory is accounted for in the group that a process is in.
const HAS_MEMORY: &str =
    "grep -q memory \"/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/cgroup.controllers\"";

/// Where the figures of a service's anonymous memory come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accounting {
    /// A control group of the service's own, below this one.
    Cgroup(CgroupPlace),
    /// The same, below a scope that the user's systemd makes for each supervisor.
    Scope,
    /// Its processes: `RssAnon` of a single one, proportional figures of several.
    Processes {
        /// Why there is no control group.
        why: String,
    },
}

impl Accounting {
    /// Of what is not measured, such as a load.
    pub(crate) fn not_measured() -> Self {
        Self::Processes { why: "it is not measured".to_owned() }
    }

    /// The best that this process may use: it is tried.
    pub fn find() -> Self {
        let root = HostRoot::default();
        match CgroupPlace::find(&root) {
            Ok(place) => Self::Cgroup(place),
            Err(why) if CgroupVersion::of(&root) != CgroupVersion::V2 => Self::Processes { why },
            Err(why) => {
                let tried = Command::new(SCOPE[0])
                    .args(&SCOPE[1..])
                    .args(["sh", "-c", HAS_MEMORY])
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status();
                match tried {
                    Ok(status) if status.success() => Self::Scope,
                    _ => Self::Processes {
                        why: format!("{why}; and the user's systemd delegates no memory controller"),
                    },
                }
            }
        }
    }

    /// Why there is no control group, if there is none.
    pub fn why_none(&self) -> Option<&str> {
        match self {
            Self::Processes { why } => Some(why),
            Self::Cgroup(_) | Self::Scope => None,
        }
    }

    /// For the parameters of a run.
    pub(crate) fn describe(&self) -> Value {
        match self {
            Self::Cgroup(place) => json!({ "from": "cgroup", "version": place.version() }),
            Self::Scope => json!({ "from": "cgroup", "version": "v2", "delegated_by": "systemd" }),
            Self::Processes { why } => json!({ "from": "processes", "why": why }),
        }
    }

    /// A command that runs `program` where it can make a group.
    pub(crate) fn command(&self, program: &Path) -> Command {
        match self {
            Self::Scope => {
                let mut command = Command::new(SCOPE[0]);
                // A link to one's own program means another program to whoever follows it.
                let program = std::fs::read_link(program)
                    .ok()
                    .filter(|_| program.starts_with("/proc/self"))
                    .map_or_else(|| program.into(), |_| format!("/proc/{}/exe", std::process::id()).into());
                command.args(&SCOPE[1..]).arg::<std::path::PathBuf>(program);
                command
            }
            Self::Cgroup(_) | Self::Processes { .. } => Command::new(program),
        }
    }
}
