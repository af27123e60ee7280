//! Throw-away hosts with services, and a machine from which Ansible reaches them.
#![allow(dead_code)] // each program uses a part of it

use std::path::{Path, PathBuf};
use std::process::Command;

use heaptrial_testbed::{ChurnService, Container, Controller, Options, Testbed};

pub type Failure = Box<dyn std::error::Error>;

/// The hosts and what controls them.
pub struct Fleet {
    pub control: Controller,
    pub hosts: Vec<Container>,
    /// Heaptrial's program on this machine.
    pub program: PathBuf,
}

/// A host that is to be.
pub struct Host<'a> {
    pub name: &'a str,
    /// Its system; `None` is the usual one.
    pub suite: Option<&'a str>,
    pub options: Options,
    pub services: usize,
    pub live_bytes: u64,
}

impl Fleet {
    /// Without hosts. `build` has the programs, and `trial` is the description that is on the controlling machine.
    pub fn new(build: &Path, trial: &str) -> Result<Self, Failure> {
        let control = Controller::new()?;
        std::fs::write(control.path().join("fleet.toml"), trial)?;
        Ok(Self { control, hosts: Vec::new(), program: build.join("heaptrial") })
    }

    /// Boots a host whose services run, and gives it to Ansible.
    pub fn add(&mut self, build: &Path, host: Host<'_>) -> Result<&Container, Failure> {
        let base = Testbed::prepare_with(host.suite, &[])?;
        let booted = Container::boot(&base, host.options)?;
        booted.try_ok(&["hostname", host.name])?;
        let program = build.join("examples/churn_service");
        let churn = ChurnService { live_bytes: host.live_bytes, ..ChurnService::new(program, host.services) };
        let units = booted.install_churn_service(&churn)?;
        booted.try_ok(&[&["systemctl".to_owned(), "start".to_owned()][..], &units].concat())?;
        self.control.reach(host.name, &booted)?;
        self.hosts.push(booted);
        Ok(&self.hosts[self.hosts.len() - 1])
    }

    /// A playbook of the collection, with variables.
    pub fn playbook(&self, playbook: &str, variables: &[&str]) -> Command {
        let mut command = self.control.command("ansible-playbook");
        command.arg(format!("heaptrial.fleet.{playbook}"));
        command.args(["-e", &format!("heaptrial_local_program={}", self.program.display())]);
        variables.iter().for_each(|variable| {
            command.args(["-e", variable]);
        });
        command
    }

    /// Heaptrial on the machine that controls the hosts.
    pub fn here(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments.split(' ')).current_dir(self.control.path()).env("HOME", self.control.path());
        command
    }
}
