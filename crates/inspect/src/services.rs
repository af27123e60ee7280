//! Services of this host: unit, life, allocator, memory, relay. Nothing is changed.

mod next_start;
mod preload;
mod process;

use std::thread::available_parallelism;

use heaptrial_allocator::Identifier;
use heaptrial_host::systemd::{Systemd, SystemdError, Unit};
use heaptrial_host::{HostRoot, Process, ProcessTree};
use heaptrial_model::ServiceName;
use heaptrial_relay::Relay;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::{Deserialize, Serialize};

pub use next_start::NextStart;
pub use preload::{Preload, files_with_preload, host_preloads};
pub use process::MainProcess;

/// A service of this host as it is now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Service {
    pub unit: Unit,
    /// Its main process; `None` when there is none, or when it ended while it was looked at.
    pub process: Option<MainProcess>,
    /// Its relay, by its torrc, where it is a Tor instance.
    pub relay: Option<Relay>,
    /// Why the files of a Tor instance cannot be read.
    #[serde(default)]
    pub relay_unread: Option<String>,
}

impl Service {
    pub fn name(&self) -> &ServiceName {
        &self.unit.name
    }

    /// What a trial records of it beside its name.
    pub fn attributes(&self, stratum: Option<&str>) -> serde_json::Value {
        let relay = self.relay.as_ref();
        serde_json::json!({
            "stratum": stratum,
            "nickname": relay.and_then(|relay| relay.nickname.as_ref()),
            "fingerprint": relay.and_then(|relay| relay.fingerprint.as_ref()),
            "role": relay.map(|relay| &relay.role),
            "memory_max_bytes": self.unit.memory_max_bytes,
        })
    }

    fn of(root: &HostRoot, tree: &ProcessTree, identifier: &Identifier, unit: Unit) -> Self {
        let process =
            unit.status.main_pid.and_then(|pid| MainProcess::read(root, tree, identifier, &unit, pid).ok());
        let (relay, relay_unread) = relay_of(root, &unit);
        Self { unit, process, relay, relay_unread }
    }
}

/// Services by their names, in the order of the names; what is no service of this host is left out.
pub fn named(systemd: &Systemd, names: &[ServiceName]) -> Result<Vec<Service>, SystemdError> {
    let units = systemd.named(names)?.into_iter().flatten().collect();
    Ok(examine(&HostRoot::default(), units))
}

pub fn service(systemd: &Systemd, name: &ServiceName) -> Result<Service, SystemdError> {
    let root = HostRoot::default();
    let tree = ProcessTree::scan(&root).unwrap_or_default();
    Ok(Service::of(&root, &tree, &Identifier::default(), systemd.service(name)?))
}

/// More would not pay: most of the time is the kernel's, and each holds files open.
const MOST_THREADS: usize = 4;

/// Looks at the processes and files of some units, several at a time; in their order.
pub fn examine(root: &HostRoot, units: Vec<Unit>) -> Vec<Service> {
    let tree = ProcessTree::scan(root).unwrap_or_default();
    let threads = available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let identifier = Identifier::default();
    let look = |unit| Service::of(root, &tree, &identifier, unit);
    match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(|| units.into_par_iter().map(look).collect()),
        // No more threads may be started here.
        Err(_) => units.into_iter().map(look).collect(),
    }
}

/// The relay of a Tor instance by its files, or why they cannot be read.
fn relay_of(root: &HostRoot, unit: &Unit) -> (Option<Relay>, Option<String>) {
    let read = |command: &Vec<String>| Relay::of_command(root, command, Some(&unit.user));
    let from_unit = || unit.exec_start.iter().find_map(read);
    // Variables in ExecStart are put in only when it starts.
    let from_process = || {
        let arguments = Process::new(root, unit.status.main_pid?).cmdline().ok()?;
        read(&arguments.into_iter().map(|argument| argument.to_string_lossy().into_owned()).collect())
    };
    match from_unit().or_else(from_process) {
        Some(Ok(relay)) => (Some(relay), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn unit(name: &str) -> Unit {
        let unit = serde_json::json!({
            "name": name, "description": "", "template": null, "load_state": "loaded", "unit_file": null,
            "drop_ins": [], "service_type": "simple", "exec_start": [], "user": "", "environment": [],
            "environment_files": [], "unset_environment": [], "memory_max_bytes": null,
            "sandbox": heaptrial_host::systemd::Sandbox::default(), "needs_reload": false,
            "remain_after_exit": false, "refuse_manual_start": false, "refuse_manual_stop": false,
            "status": {
                "active_state": "active", "sub_state": "running", "main_pid": null, "control_group": "/x",
                "restarts": 0, "result": "success", "exec_main_code": 0, "exec_main_status": 0,
                "invocation_id": "",
            },
        });
        serde_json::from_value(unit).unwrap()
    }

    #[test]
    fn services_keep_the_order_of_their_units_and_one_without_a_process_says_so() {
        let own = std::process::id() as i32;
        let units = [Some(own), None, Some(i32::MAX)].into_iter().enumerate().map(|(number, pid)| {
            let mut unit = unit(&format!("s{number}.service"));
            unit.status.main_pid = pid;
            unit
        });
        let services = examine(&HostRoot::default(), units.collect());
        let names: Vec<&str> = services.iter().map(|service| service.name().as_str()).collect();
        assert_eq!(names, ["s0.service", "s1.service", "s2.service"]);
        let process = services[0].process.as_ref().unwrap();
        assert_eq!((process.life.pid, &*process.identity.as_ref().unwrap().family), (own, "glibc"));
        assert!(services[1..].iter().all(|service| service.process.is_none()));
    }

    #[test]
    fn a_tor_instance_is_known_by_its_command() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("etc/tor")).unwrap();
        std::fs::write(dir.path().join("etc/tor/r1"), "Nickname fast\nORPort 9001\n").unwrap();
        let root = HostRoot::at(dir.path());
        let mut tor = unit("tor@r1.service");
        tor.exec_start = vec![["/usr/bin/tor", "-f", "/etc/tor/r1"].map(str::to_owned).to_vec()];
        let (relay, unread) = relay_of(&root, &tor);
        assert_eq!((relay.unwrap().nickname.as_deref(), unread), (Some("fast"), None));
        tor.exec_start[0][2] = "/etc/tor/gone".to_owned();
        let (relay, unread) = relay_of(&root, &tor);
        assert!(relay.is_none() && unread.unwrap().contains("/etc/tor/gone"));
        assert_eq!(relay_of(&root, &unit("cron.service")), (None, None));
    }
}
