//! Ansible, and the hosts that it reaches.

use std::path::Path;
use std::process::{Command, Output};

use heaptrial_testbed::Controller;

use super::bed::Bed;
use super::{stderr, stdout};

/// Ansible on the machine that controls hosts, which it reaches over a network of their own, by the sshd of each.
pub struct Control(Controller);

impl Control {
    /// Of these hosts, with the description of trial `fleet`.
    pub fn new(trial: &str, hosts: &[(&str, &Bed)]) -> Self {
        let mut control = Self(Controller::new().unwrap());
        hosts.iter().for_each(|(name, bed)| control.reach(name, bed));
        std::fs::write(control.path().join("fleet.toml"), trial).unwrap();
        control
    }

    /// Reaches a host, also one that was switched off meanwhile.
    pub fn reach(&mut self, name: &str, bed: &Bed) {
        self.0.reach(name, &bed.container).unwrap();
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs a playbook; gives what it said.
    pub fn play(&self, playbook: &str, further: &[&str]) -> Output {
        self.command(playbook, further).output().unwrap()
    }

    /// The command that runs a playbook.
    pub fn command(&self, playbook: &str, further: &[&str]) -> Command {
        let mut command = self.0.command("ansible-playbook");
        let path = self.path();
        // No connection outlives its playbook, so that each is to do what it can at once.
        command.env("ANSIBLE_SSH_ARGS", "-o ControlMaster=no").env("ANSIBLE_PIPELINING", "1");
        command.args([&format!("heaptrial.fleet.{playbook}"), "-e", "heaptrial_trial=fleet"]);
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
