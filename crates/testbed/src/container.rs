//! A running host.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::cgroup::{Cgroups, wait_for};
use crate::error::{output, succeeded};
use crate::folder::{Lock, testbed_folder};
use crate::state::{self, State};
use crate::{Base, TestbedError, disk, launch};

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
    folder: PathBuf,
    state: State,
    supervisor: Option<Child>,
    owner: Option<Lock>,
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
        if name.is_empty()
            || name.len() > 40
            || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            || name.starts_with('-')
        {
            return Err(TestbedError::Refused(format!(
                "`{name}` cannot be the name of a container: up to 40 letters, digits and -"
            )));
        }
        let binds = options.binds.into_iter().map(checked_bind).collect::<Result<_, _>>()?;
        let shares = options.shares.into_iter().map(checked_bind).collect::<Result<_, _>>()?;
        let state = State {
            cgroups: Cgroups::for_container(&name)?,
            name,
            binds,
            shares,
            disk_bytes: options.disk_bytes,
            leader: None,
            kept: false,
        };
        let (folder, owner) = {
            let _alone = Lock::wait(&base.folder.join("lock"))?;
            state::create_folder(&base.folder, &state.name)?
        };
        // From here on dropping it undoes what has been done.
        let mut container = Self { folder, state, supervisor: None, owner: Some(owner) };
        container.state.write(&container.folder)?;
        disk::mount_new(&container.folder, base.root(), container.state.disk_bytes)?;
        container.boot_again()?;
        Ok(container)
    }

    /// A container that was kept by an earlier process. Dropping it leaves it as it is.
    pub fn attach(name: &str) -> Result<Self, TestbedError> {
        let folder = state::run_folder(&testbed_folder()?).join(name);
        if name.contains('/') || !folder.is_dir() {
            return Err(TestbedError::Refused(format!("there is no container `{name}`")));
        }
        let state = State::read(&folder)?;
        Ok(Self { folder, state, supervisor: None, owner: None })
    }

    /// Lets it outlive this process, for [`Container::attach`] by a later one.
    pub fn keep(mut self) -> Result<(), TestbedError> {
        self.state.kept = true;
        self.state.write(&self.folder)?;
        self.owner = None;
        Ok(())
    }

    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Process id of its systemd, as the host counts; `None` when it is switched off.
    pub fn leader(&self) -> Option<u32> {
        self.state.leader
    }

    /// Its root folder as the host sees it. Symbolic links with absolute targets lead out of it: use
    /// [`Container::read`] and [`Container::write`] where a path may have some.
    pub fn root(&self) -> PathBuf {
        match self.state.leader {
            Some(leader) => PathBuf::from(format!("/proc/{leader}/root")),
            None => disk::root(&self.folder),
        }
    }

    /// What its console showed since the last boot.
    pub fn console(&self) -> String {
        std::fs::read_to_string(self.folder.join("console")).unwrap_or_default()
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
        let leader = self.state.leader.ok_or_else(off)?;
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
        let leader = self.state.leader.take().and_then(|leader| Pid::from_raw(leader as i32));
        // Should it have ended by itself, then its number may be another process' now.
        if let Some(leader) = leader.filter(|leader| self.state.cgroups.processes().contains(leader)) {
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
        } else {
            self.state.cgroups.wait_until_empty();
        }
        self.state.cgroups.end_all()?;
        self.state.cgroups.remove()?;
        self.state.write(&self.folder)
    }

    /// Switches it on again, with the disk that it had.
    pub fn boot_again(&mut self) -> Result<(), TestbedError> {
        if self.state.leader.is_some() {
            return Err(TestbedError::Refused(format!("the container `{}` runs already", self.name())));
        }
        let (supervisor, leader) = launch::launch(&self.folder, &self.state, BOOT_LIMIT)?;
        self.supervisor = Some(supervisor);
        self.state.leader = Some(leader);
        self.state.write(&self.folder)?;
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
            said: format!("{said}\n{jobs}{}", self.console()),
        })
    }

    pub fn remove(mut self) -> Result<(), TestbedError> {
        self.state.kept = false;
        self.tear_down()
    }

    fn tear_down(&mut self) -> Result<(), TestbedError> {
        // Should cutting power fail, the rest is still removed.
        let cut = self.power_cut();
        self.state.remove(&self.folder)?;
        cut
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if self.state.kept || !self.folder.exists() {
            return;
        }
        if let Err(error) = self.tear_down() {
            eprintln!("the container {} could not be removed: {error}", self.state.name);
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
