//! A throw-away host with services, and the binary under test on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use heaptrial_testbed::{Base, ChurnService, Container, Options, Snapshot, Testbed};
use serde_json::Value;

use super::{json, stderr, stdout, wait_for};

/// Where the build's folder is seen inside a container.
const BUILD: &str = "/ht";
/// What a trial may change on a host, beside its own state.
pub const CHANGED: [&str; 2] = ["/etc", "/usr"];

/// The agent's unit.
const AGENT: &str = "heaptrial-agent.service";

/// A host.
pub struct Bed {
    pub container: Container,
}

impl Bed {
    /// Boots one; `None`, after saying so, where this machine cannot.
    pub fn boot() -> Option<Self> {
        Some(Self::boot_on(&Testbed::for_test()?, Options::new()))
    }

    /// Boots one with these options.
    pub fn boot_on(base: &Base, options: Options) -> Self {
        let container = Container::boot(base, options.bind(build_folder(), BUILD)).unwrap();
        container.write("/root/.keep", "", 0o644).unwrap();
        Self { container }
    }

    /// Boots one with so many churn services that run.
    pub fn with_churn(count: usize) -> Option<(Self, Vec<String>)> {
        let bed = Self::boot()?;
        let units = bed.start_churn(count);
        Some((bed, units))
    }

    /// Installs and starts churn services of a megabyte each.
    pub fn start_churn(&self, count: usize) -> Vec<String> {
        self.start_churn_of(count, 1 << 20)
    }

    /// Installs and starts churn services that keep so many bytes each. From some 16 MB on, what an allocator needs for
    /// itself is little beside what the service asked it for.
    pub fn start_churn_of(&self, count: usize, live_bytes: u64) -> Vec<String> {
        let service = ChurnService { live_bytes, ..ChurnService::new(example("churn_service"), count) };
        let units = self.container.install_churn_service(&service).unwrap();
        let mut words = vec!["systemctl", "start"];
        words.extend(units.iter().map(String::as_str));
        self.container.ok(&words);
        units
    }

    /// The database, from outside and without the container's processes.
    pub fn database(&self) -> PathBuf {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let end = format!("/{}/root", self.container.name());
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let disk = places.into_iter().find(|place| place.ends_with(&end)).expect("the disk is mounted");
        PathBuf::from(disk).join("var/lib/heaptrial/heaptrial.db")
    }

    /// Runs the binary in `/root`; `arguments` are split at spaces.
    pub fn heaptrial(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The binary in `/root`; `arguments` are split at spaces.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = self.container.command("/usr/bin/env");
        command.args(["-C", "/root", "HOME=/root", &format!("{BUILD}/heaptrial")]);
        command.args(arguments.split_whitespace());
        command
    }

    /// Runs it and expects success.
    #[track_caller]
    pub fn succeeds(&self, arguments: &str) -> Output {
        let output = self.heaptrial(arguments);
        assert!(output.status.success(), "heaptrial {arguments}\n{}\n{}", stdout(&output), stderr(&output));
        output
    }

    /// Runs it, expects success, and reads its standard output as JSON.
    #[track_caller]
    pub fn json(&self, arguments: &str) -> Value {
        json(&self.succeeds(arguments))
    }

    /// Runs it, whatever its exit code, and reads its standard output as JSON.
    #[track_caller]
    pub fn json_of(&self, arguments: &str) -> Value {
        json(&self.heaptrial(arguments))
    }

    /// Writes a trial's description.
    pub fn write_trial(&self, name: &str, text: &str) {
        self.container.write(format!("/root/{name}.toml"), text, 0o644).unwrap();
    }

    /// Installs and starts the agent, which reads often.
    pub fn install_agent(&self) {
        let container = &self.container;
        let unit = stdout(&self.succeeds("agent --print-unit /ht/heaptrial"));
        container.write(format!("/etc/systemd/system/{AGENT}"), unit, 0o644).unwrap();
        let often = "[Service]\nRestartSec=1s\nExecStart=\nExecStart=/ht/heaptrial agent --interval 300ms\n";
        container.write(format!("/etc/systemd/system/{AGENT}.d/test.conf"), often, 0o644).unwrap();
        container.ok(&["mkdir", "-p", "-m", "750", "/var/lib/heaptrial"]);
        container.ok(&["systemctl", "daemon-reload"]);
        container.ok(&["systemctl", "enable", "--now", AGENT]);
    }

    /// Everything that a trial may change.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.container, &CHANGED).unwrap()
    }

    /// The value of a property of a unit.
    pub fn property(&self, unit: &str, property: &str) -> String {
        self.container.ok(&["systemctl", "show", "-P", property, unit]).trim().to_owned()
    }

    /// The libraries that a unit's main process maps.
    pub fn maps(&self, unit: &str) -> String {
        let pid = self.property(unit, "MainPID");
        self.container.ok(&["cat", &format!("/proc/{pid}/maps")])
    }

    /// Fails unless all of them are active, or become so: one may be in the middle of a restart.
    #[track_caller]
    pub fn assert_active(&self, units: &[String]) {
        let state = |unit: &&String| self.property(unit, "ActiveState") == "active";
        wait_for("every service is active", Duration::from_secs(30), || {
            units.iter().all(|unit| state(&unit)).then_some(())
        });
    }
}

/// The folder of the binaries under test.
pub fn build_folder() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_heaptrial")).parent().unwrap().to_owned()
}

/// Heaptrial's own package, of the program under test.
pub fn own_package(out: &Path) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/deb.sh");
    let mut command = Command::new(script);
    command.arg(build_folder().join("heaptrial")).arg(out).args(["-Zgzip", "-z1"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    PathBuf::from(stdout(&output).lines().last().unwrap())
}

/// An example program of this crate.
pub fn example(name: &str) -> PathBuf {
    build_folder().join("examples").join(name)
}
