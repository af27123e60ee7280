//! A running host.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::cgroup::wait_for;
use crate::error::{output, succeeded};
use crate::state::Place;
use crate::{Base, TestbedError, launch};

/// How long booting may take.
const BOOT_LIMIT: Duration = Duration::from_secs(90);

/// What a container is like.
#[derive(Debug, Clone)]
pub struct Options {
    name: Option<String>,
    binds: Vec<(PathBuf, PathBuf)>,
    shares: Vec<(PathBuf, PathBuf)>,
    disk_bytes: u64,
}

/// A booted host. Dropping it removes everything of it.
#[derive(Debug)]
pub struct Container {
    name: String,
    pub(crate) place: Place,
    /// Paths of this host and of the container.
    pub(crate) binds: Vec<(PathBuf, PathBuf)>,
    pub(crate) shares: Vec<(PathBuf, PathBuf)>,
    /// What started it, and the process id of its systemd, while it runs.
    supervisor: Option<Child>,
    leader: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { name: None, binds: Vec::new(), shares: Vec::new(), disk_bytes: 1 << 30 }
    }
}

impl Options {
    /// A name of its own, 1 GiB of disk, nothing of the host's files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the container see a file or folder of the host, read-only.
    #[must_use]
    pub fn bind(mut self, host: impl Into<PathBuf>, container: impl Into<PathBuf>) -> Self {
        self.binds.push((host.into(), container.into()));
        self
    }

    /// Lets the container see a folder of the host and write to it, as a file system that several hosts share.
    #[must_use]
    pub fn share(mut self, host: impl Into<PathBuf>, container: impl Into<PathBuf>) -> Self {
        self.shares.push((host.into(), container.into()));
        self
    }

    /// How much it can write before its disk is full. The disk is in memory and takes what is written.
    #[must_use]
    pub fn disk_bytes(mut self, bytes: u64) -> Self {
        self.disk_bytes = bytes;
        self
    }

    /// Name of the container instead of a generated one: letters, digits, `-`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl Container {
    /// Boots a new host and waits until all that is to start has been started.
    pub fn boot(base: &Base, options: Options) -> Result<Self, TestbedError> {
        static BOOTED: AtomicU32 = AtomicU32::new(0);
        let name = options
            .name
            .unwrap_or_else(|| format!("t{}-{}", std::process::id(), BOOTED.fetch_add(1, Ordering::Relaxed)));
        let binds = options.binds.into_iter().map(checked_bind).collect::<Result<_, _>>()?;
        let shares = options.shares.into_iter().map(checked_bind).collect::<Result<_, _>>()?;
        let place = Place::new(base, &name, options.disk_bytes)?;
        let mut container = Self { name, place, binds, shares, supervisor: None, leader: None };
        container.boot_again()?;
        Ok(container)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Process id of its systemd, as the host counts; `None` when it is switched off.
    pub fn leader(&self) -> Option<u32> {
        self.leader
    }

    /// Its root folder as the host sees it. Symbolic links with absolute targets lead out of it: use
    /// [`Container::read`] and [`Container::write`] where a path may have some.
    pub fn root(&self) -> PathBuf {
        match self.leader {
            Some(leader) => PathBuf::from(format!("/proc/{leader}/root")),
            None => self.place.root(),
        }
    }

    /// A command that runs inside as root, with an environment of its own. It is in the container's namespaces
    /// but in the caller's cgroup; `systemd-run` inside gives it a unit of its own.
    ///
    /// # Panics
    ///
    /// If the container is switched off.
    #[track_caller]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        match self.try_command(program) {
            Ok(command) => command,
            Err(error) => panic!("{error}"),
        }
    }

    /// [`Container::command`], or an error if the container is switched off.
    pub fn try_command(&self, program: impl AsRef<OsStr>) -> Result<Command, TestbedError> {
        let off = || TestbedError::Refused(format!("the container `{}` is switched off", self.name()));
        let leader = self.leader.ok_or_else(off)?;
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &leader.to_string(), "--all", "--"])
            .arg(program)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", "/root")
            .env("LANG", "C.UTF-8");
        Ok(command)
    }

    /// Runs a command inside to its end.
    ///
    /// # Panics
    ///
    /// If the container is switched off, or there is no `nsenter`.
    #[track_caller]
    pub fn run<W: AsRef<OsStr>>(&self, words: &[W]) -> Output {
        match self.words(words).and_then(|mut command| output(&mut command)) {
            Ok(output) => output,
            Err(error) => panic!("{error}"),
        }
    }

    /// Runs a command inside and gives its standard output.
    ///
    /// # Panics
    ///
    /// With everything the command said, if it fails.
    #[track_caller]
    pub fn ok<W: AsRef<OsStr>>(&self, words: &[W]) -> String {
        match self.try_ok(words) {
            Ok(said) => said,
            Err(error) => panic!("{error}"),
        }
    }

    /// Runs a command inside and gives its standard output, or an error with everything that it said.
    pub fn try_ok<W: AsRef<OsStr>>(&self, words: &[W]) -> Result<String, TestbedError> {
        let mut command = self.words(words)?;
        let output = output(&mut command)?;
        succeeded(&command, &output)
    }

    fn words<W: AsRef<OsStr>>(&self, words: &[W]) -> Result<Command, TestbedError> {
        let [program, arguments @ ..] = words else {
            return Err(TestbedError::Refused("a command needs a program".to_owned()));
        };
        let mut command = self.try_command(program)?;
        command.args(arguments);
        Ok(command)
    }

    /// Ends everything inside at once, as if power failed. The disk keeps what was written to it; also what was
    /// not synced, since the kernel goes on.
    pub fn power_cut(&mut self) -> Result<(), TestbedError> {
        let cgroups = &self.place.cgroups;
        let leader = self.leader.take().and_then(|leader| Pid::from_raw(leader as i32));
        // Should it have ended by itself, then its number may be another process' now.
        if let Some(leader) = leader.filter(|leader| cgroups.processes().contains(leader)) {
            // The kernel kills the whole process namespace with its first process.
            let _ = kill_process(leader, Signal::KILL);
        }
        if let Some(mut supervisor) = self.supervisor.take() {
            // systemd-nspawn removes its own temporary folders when it ends by itself.
            let ended = wait_for("the end of systemd-nspawn", Duration::from_secs(10), || {
                supervisor.try_wait().map_err(|error| error.to_string())?.ok_or_else(String::new)
            });
            if ended.is_err() {
                let _ = supervisor.kill();
                let _ = supervisor.wait();
            }
        }
        cgroups.end_all()?;
        cgroups.remove()
    }

    /// Switches it on again, with the disk that it had.
    pub fn boot_again(&mut self) -> Result<(), TestbedError> {
        if self.leader.is_some() {
            return Err(TestbedError::Refused(format!("the container `{}` runs already", self.name())));
        }
        let (supervisor, leader) = launch::launch(self, BOOT_LIMIT)?;
        self.supervisor = Some(supervisor);
        self.leader = Some(leader);
        let limit = format!("{}s", BOOT_LIMIT.as_secs());
        // A failed unit makes the host `degraded`; it has booted all the same.
        let mut asked = self.words(&["timeout", &limit, "systemctl", "is-system-running", "--wait"])?;
        let output = output(&mut asked)?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if said == "running" || said == "degraded" {
            return Ok(());
        }
        let jobs = self.try_ok(&["systemctl", "list-jobs", "--no-pager"])?;
        Err(TestbedError::Timeout {
            what: "booting".to_owned(),
            limit: BOOT_LIMIT,
            said: format!("{said}\n{jobs}{}", self.place.console()),
        })
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Should cutting power fail, the rest is still removed.
        if let Err(error) = self.power_cut() {
            eprintln!("the power of the container {} could not be cut: {error}", self.name);
        }
    }
}

pub(crate) fn checked_bind(
    (host, container): (PathBuf, PathBuf),
) -> Result<(PathBuf, PathBuf), TestbedError> {
    let host = host.canonicalize().map_err(TestbedError::file("cannot find", &host))?;
    for path in [&host, &container] {
        if path.to_string_lossy().contains([':', '\\', '"']) || !path.is_absolute() {
            return Err(TestbedError::Refused(format!(
                "{} cannot be bound: it must be absolute, without colons, quotes and backslashes",
                path.display()
            )));
        }
    }
    Ok((host, container))
}
