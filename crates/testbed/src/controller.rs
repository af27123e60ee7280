//! A machine that controls hosts by Ansible.

use std::path::Path;
use std::process::Command;

use crate::error::succeed;
use crate::{Container, Network, TestbedError};

/// Its inventory, in its folder.
const INVENTORY: &str = "hosts";

/// The machine from which an operator runs Ansible: a folder with an inventory, a key and Heaptrial's collection, and a network
/// over which it reaches the sshd of every host. All of it is gone when this is dropped.
#[derive(Debug)]
pub struct Controller {
    folder: tempfile::TempDir,
    network: Network,
    public_key: String,
}

impl Controller {
    pub fn new() -> Result<Self, TestbedError> {
        let folder = tempfile::tempdir().map_err(TestbedError::file("cannot make", std::env::temp_dir()))?;
        let collections = folder.path().join("collections/ansible_collections/heaptrial");
        std::fs::create_dir_all(&collections).map_err(TestbedError::file("cannot make", &collections))?;
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ansible");
        let own = own.canonicalize().map_err(TestbedError::file("cannot find", &own))?;
        std::os::unix::fs::symlink(own, collections.join("fleet"))
            .map_err(TestbedError::file("cannot link", collections.join("fleet")))?;
        let key = folder.path().join("key");
        succeed(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key))?;
        let public = key.with_extension("pub");
        let public_key =
            std::fs::read_to_string(&public).map_err(TestbedError::file("cannot read", &public))?;
        Ok(Self { folder, network: Network::new()?, public_key })
    }

    /// Reaches a host under this name from now on; also one that it reached before and that was switched off meanwhile.
    pub fn reach(&mut self, name: &str, host: &Container) -> Result<(), TestbedError> {
        host.try_ok(&["mkdir", "-p", "-m", "700", "/root/.ssh"])?;
        host.write("/root/.ssh/authorized_keys", &self.public_key, 0o600)?;
        host.try_ok(&["systemctl", "start", "ssh.service"])?;
        let address = self.network.join(host)?;
        let key = self.path().join("key");
        let line = format!(
            "{name} ansible_host={address} ansible_user=root ansible_ssh_private_key_file={} ansible_ssh_common_args=\"-o \
             StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null\" ansible_python_interpreter=/usr/bin/python3\n",
            key.display()
        );
        let path = self.path().join(INVENTORY);
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let others = before.lines().filter(|line| line.split(' ').next() != Some(name));
        let inventory: String = others.map(|line| format!("{line}\n")).chain([line]).collect();
        std::fs::write(&path, inventory).map_err(TestbedError::file("cannot write", &path))
    }

    /// Its folder, in which commands run.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `ansible` or `ansible-playbook`, with the inventory.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.network.command(program);
        command
            .current_dir(self.path())
            .env("HOME", self.path())
            .env("ANSIBLE_COLLECTIONS_PATH", self.path().join("collections"))
            .env("ANSIBLE_LOCALHOST_WARNING_OFF", "1")
            .env("ANSIBLE_NOCOLOR", "1")
            .env("ANSIBLE_RETRY_FILES_ENABLED", "0")
            .args(["-i", INVENTORY]);
        command
    }
}
