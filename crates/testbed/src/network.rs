//! A network of containers, apart from that of this machine.

use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cgroup::wait_for;
use crate::error::succeed;
use crate::{Container, TestbedError};

/// The network that its addresses are of; what is outside this namespace never sees them.
const NETWORK: [u8; 3] = [10, 77, 0];
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// A network namespace with a bridge. It and its interfaces are gone with the process that made it.
#[derive(Debug)]
pub struct Network {
    /// What keeps the namespace, and is killed with this process.
    holder: Child,
    joined: u8,
}

impl Network {
    /// Makes one, in which [`Network::command`] runs under the address 10.77.0.1.
    pub fn new() -> Result<Self, TestbedError> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]);
        let holder = command
            .stdin(Stdio::null())
            .spawn()
            .map_err(|source| TestbedError::Start { program: "setpriv".into(), source })?;
        let network = Self { holder, joined: 1 };
        let own = std::fs::read_link("/proc/self/ns/net").ok();
        let there = format!("/proc/{}/ns/net", network.holder.id());
        wait_for("a network namespace", STARTS_WITHIN, || {
            let is_other = std::fs::read_link(&there).ok().filter(|other| Some(other) != own.as_ref());
            is_other.map(drop).ok_or_else(String::new)
        })?;
        network.ip("link set lo up")?;
        network.ip("link add bridge0 type bridge")?;
        network.ip(&format!("address add {}/24 dev bridge0", address(1)))?;
        network.ip("link set bridge0 up")?;
        Ok(network)
    }

    /// Gives a container an interface in it; returns its address. After it was switched off it has to join again.
    pub fn join(&mut self, container: &Container) -> Result<Ipv4Addr, TestbedError> {
        let off = || TestbedError::Refused(format!("the container `{}` is switched off", container.name()));
        let leader = container.leader().ok_or_else(off)?;
        self.joined += 1;
        let (own, address) = (self.joined, address(self.joined));
        self.ip(&format!("link add port{own} type veth peer name eth0 netns {leader}"))?;
        self.ip(&format!("link set port{own} master bridge0"))?;
        self.ip(&format!("link set port{own} up"))?;
        container.try_ok(&["ip", "address", "add", &format!("{address}/24"), "dev", "eth0"])?;
        container.try_ok(&["ip", "link", "set", "eth0", "up"])?;
        Ok(address)
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--net", "--", program]);
        command
    }

    fn ip(&self, words: &str) -> Result<(), TestbedError> {
        succeed(self.command("ip").args(words.split(' '))).map(drop)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn address(number: u8) -> Ipv4Addr {
    let [a, b, c] = NETWORK;
    Ipv4Addr::new(a, b, c, number)
}
