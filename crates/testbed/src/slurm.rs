//! A cluster with a real Slurm: a host with the controller, which is the login node as well, and nodes.

use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::cgroup::wait_for;
use crate::{Base, Container, Network, Options, Testbed, TestbedError};

/// What hosts of a cluster have besides: Slurm, and what builds an allocator.
const PACKAGES: [&str; 7] = ["gcc", "git", "libc6-dev", "munge", "slurm-client", "slurmctld", "slurmd"];
/// The user who runs something, and whose folder all hosts share.
const USER: (&str, u32) = ("ana", 1000);
const CONTROLLER: &str = "ctl";
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A cluster. Every host sees the shared folder as `/shared`, and each has a home of its own in `/home/ana`.
#[derive(Debug)]
pub struct SlurmCluster {
    /// The host with the controller, from which is submitted.
    pub controller: Container,
    /// Hosts that run tasks, each with one processor by Slurm's word: `n1`, `n2`, ...
    pub nodes: Vec<Container>,
    _network: Network,
}

impl SlurmCluster {
    /// The base of its hosts for a test; `None`, after skipping it, if this machine cannot boot containers.
    pub fn base_for_test() -> Option<Base> {
        Testbed::for_test_with(None, &PACKAGES)
    }

    /// Boots one with so many nodes. `options` are those of every host; `shared` becomes the user's.
    pub fn boot(base: &Base, nodes: usize, shared: &Path, options: &Options) -> Result<Self, TestbedError> {
        chown(shared, Some(USER.1), Some(USER.1)).map_err(TestbedError::file("cannot give away", shared))?;
        let mut network = Network::new()?;
        let names: Vec<String> = std::iter::once(CONTROLLER.to_owned())
            .chain((1..=nodes).map(|number| format!("n{number}")))
            .collect();
        let mut hosts = Vec::new();
        let mut table = "127.0.0.1 localhost\n".to_owned();
        for name in &names {
            let host = Container::boot(base, options.clone().share(shared, "/shared"))?;
            table.push_str(&format!("{} {name}\n", network.join(&host)?));
            hosts.push(host);
        }
        let configuration = configuration(nodes);
        for (host, name) in hosts.iter().zip(&names) {
            host.write("/etc/hostname", format!("{name}\n"), 0o644)?;
            host.try_ok(&["hostname", name])?;
            host.write("/etc/hosts", &table, 0o644)?;
            host.write("/etc/slurm/slurm.conf", &configuration, 0o644)?;
            let (user, id) = (USER.0, USER.1.to_string());
            host.try_ok(&["useradd", "--create-home", "--uid", &id, "--shell", "/bin/sh", user])?;
            host.try_ok(&["systemctl", "restart", "munge"])?;
            let daemon = if name == CONTROLLER { "slurmctld" } else { "slurmd" };
            host.try_ok(&["systemctl", "start", daemon])?;
        }
        let nodes = hosts.split_off(1);
        let controller = hosts.remove(0);
        let cluster = Self { controller, nodes, _network: network };
        let all = cluster.nodes.len();
        wait_for("nodes that are idle", STARTS_WITHIN, || {
            let said = cluster.controller.try_ok(&["sinfo", "--noheader", "--Node", "--format=%T"]);
            let said = said.map_err(|error| error.to_string())?;
            if said.lines().filter(|line| *line == "idle").count() == all { Ok(()) } else { Err(said) }
        })?;
        Ok(cluster)
    }

    /// A command on the login node, in a folder of the user and as the user.
    pub fn command(&self, folder: &str, program: &str) -> Command {
        let mut command = self.controller.command("setpriv");
        let id = USER.1.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "env"]);
        command.args(["-C", folder, &format!("HOME=/home/{}", USER.0), program]);
        command
    }

    /// Tasks in the queue and those that ended of late, one a line: id, state, node, times started again.
    pub fn queue(&self) -> Vec<String> {
        let form = "--Format=JobArrayID,State,NodeList,RestartCnt";
        let said = self.controller.ok(&["squeue", "--noheader", "--array", "--states=all", form]);
        said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }
}

/// No control groups: processes are followed by their parents, so that it runs wherever a container does. A node that does not
/// answer is given up after some seconds.
fn configuration(nodes: usize) -> String {
    format!(
        "ClusterName=testbed\n\
         SlurmctldHost={CONTROLLER}\n\
         SlurmUser=slurm\n\
         AuthType=auth/munge\n\
         StateSaveLocation=/var/lib/slurm/slurmctld\n\
         SlurmdSpoolDir=/var/lib/slurm/slurmd\n\
         SlurmctldPidFile=/run/slurmctld.pid\n\
         SlurmdPidFile=/run/slurmd.pid\n\
         SlurmctldLogFile=/var/log/slurm/slurmctld.log\n\
         SlurmdLogFile=/var/log/slurm/slurmd.log\n\
         ProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\n\
         SelectType=select/cons_tres\n\
         SelectTypeParameters=CR_CPU_Memory\n\
         SchedulerType=sched/backfill\n\
         SlurmdTimeout=10\n\
         KillWait=5\n\
         ReturnToService=2\n\
         JobAcctGatherType=jobacct_gather/none\n\
         AccountingStorageType=accounting_storage/none\n\
         NodeName=n[1-{nodes}] CPUs=1 RealMemory=1024 State=UNKNOWN\n\
         PartitionName=main Nodes=n[1-{nodes}] Default=YES MaxTime=INFINITE State=UP\n"
    )
}
