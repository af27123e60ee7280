//! Ansible, and the hosts that it reaches.

use std::path::Path;
use std::process::{Command, Output};

use heaptrial_testbed::Network;

use super::bed::Bed;
use super::{stderr, stdout};

/// Ansible on the machine that controls hosts, which it reaches over a network of their own, by the sshd of each.
pub struct Control {
    folder: tempfile::TempDir,
    network: Network,
}

impl Control {
    /// Of these hosts, with the description of trial `fleet`.
    pub fn new(trial: &str, hosts: &[(&str, &Bed)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let collections = path.join("collections/ansible_collections/heaptrial");
        std::fs::create_dir_all(&collections).unwrap();
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ansible").canonicalize().unwrap();
        std::os::unix::fs::symlink(own, collections.join("fleet")).unwrap();
        let key = path.join("key");
        let made =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
        assert!(made.unwrap().success());
        let public = std::fs::read_to_string(path.join("key.pub")).unwrap();
        let mut inventory = String::new();
        let mut network = Network::new().unwrap();
        for (name, bed) in hosts {
            bed.container.ok(&["mkdir", "-p", "-m", "700", "/root/.ssh"]);
            bed.container.write("/root/.ssh/authorized_keys", &public, 0o600).unwrap();
            bed.container.ok(&["systemctl", "start", "ssh.service"]);
            let address = network.join(&bed.container).unwrap();
            let options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null";
            inventory += &format!(
                "{name} ansible_host={address} ansible_user=root ansible_ssh_private_key_file={} ansible_ssh_common_args=\"{options}\" \
                 ansible_python_interpreter=/usr/bin/python3\n",
                key.display()
            );
        }
        std::fs::write(path.join("hosts"), inventory).unwrap();
        std::fs::write(path.join("fleet.toml"), trial).unwrap();
        Self { folder, network }
    }

    /// Reaches a host again that was switched off meanwhile, as an address that stays would.
    pub fn reach_again(&mut self, name: &str, bed: &Bed) {
        bed.container.ok(&["systemctl", "start", "ssh.service"]);
        let address = self.network.join(&bed.container).unwrap();
        let path = self.path().join("hosts");
        let inventory = std::fs::read_to_string(&path).unwrap();
        let own = |line: &str| {
            let words = line.split(' ').map(|word| match word.starts_with("ansible_host=") {
                true => format!("ansible_host={address}"),
                false => word.to_owned(),
            });
            words.collect::<Vec<_>>().join(" ")
        };
        let is_own = |line: &&str| line.split(' ').next() == Some(name);
        let lines = inventory.lines().map(|line| if is_own(&line) { own(line) } else { line.to_owned() });
        std::fs::write(path, lines.map(|line| line + "\n").collect::<String>()).unwrap();
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a playbook; gives what it said.
    pub fn play(&self, playbook: &str, further: &[&str]) -> Output {
        self.command(playbook, further).output().unwrap()
    }

    /// The command that runs a playbook.
    pub fn command(&self, playbook: &str, further: &[&str]) -> Command {
        let mut command = self.network.command("ansible-playbook");
        let path = self.path();
        command
            .current_dir(path)
            .env("HOME", path)
            .env("ANSIBLE_NOCOLOR", "1")
            .env("ANSIBLE_RETRY_FILES_ENABLED", "0");
        // No connection outlives its playbook.
        command.env("ANSIBLE_SSH_ARGS", "-o ControlMaster=no");
        command.env("ANSIBLE_COLLECTIONS_PATH", path.join("collections"));
        command.args(["-i", "hosts", &format!("heaptrial.fleet.{playbook}"), "-e", "heaptrial_trial=fleet"]);
        command.args([
            "-e",
            &format!("heaptrial_local={}", path.display()),
            "-e",
            "heaptrial_program=/ht/heaptrial",
        ]);
        command.args(["-e", &format!("heaptrial_local_program={}", env!("CARGO_BIN_EXE_heaptrial"))]);
        command.args(further);
        command
    }

    /// Runs it, expects that no host failed, and gives how many tasks changed something on each host.
    #[track_caller]
    pub fn plays(&self, playbook: &str, further: &[&str]) -> Vec<u32> {
        let output = self.play(playbook, further);
        let said = stdout(&output);
        assert!(output.status.success(), "{playbook}\n{said}\n{}", stderr(&output));
        recap(&said, "changed=")
    }
}

/// A number of the recap, by host.
fn recap(said: &str, key: &str) -> Vec<u32> {
    let lines = said.lines().skip_while(|line| !line.starts_with("PLAY RECAP"));
    let numbers = lines.filter_map(|line| line.split_once(key)?.1.split_whitespace().next()?.parse().ok());
    numbers.collect()
}
