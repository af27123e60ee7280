//! Cgroups of a container, in which it may do what it likes.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::TestbedError;

const MOUNT: &str = "/sys/fs/cgroup";
/// How long killed processes and their cgroups may take to disappear.
const LIMIT: Duration = Duration::from_secs(20);

/// How the container's processes are put into cgroups of their own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Cgroups {
    /// Made by us: one in each hierarchy of version 1, or a single one of version 2 on a host without systemd.
    Own(Vec<PathBuf>),
    /// A scope that this host's systemd makes and delegates, as it wants it on version 2.
    Scope { unit: String, path: PathBuf },
}

impl Cgroups {
    /// Those that suit this host.
    pub(crate) fn for_container(name: &str) -> Result<Self, TestbedError> {
        let own = format!("heaptrial-testbed-{name}");
        if !is_version_2()? {
            let mount = Path::new(MOUNT);
            let hierarchies = fs::read_dir(mount).map_err(TestbedError::file("cannot list", mount))?;
            let hierarchies = hierarchies.filter_map(|entry| Some(entry.ok()?.path()));
            let usable = hierarchies.filter(|hierarchy| hierarchy.join("cgroup.procs").exists());
            return Ok(Self::Own(usable.map(|hierarchy| hierarchy.join(&own)).collect()));
        }
        if Path::new("/run/systemd/system").is_dir() {
            let unit = format!("{own}.scope");
            return Ok(Self::Scope { path: Path::new(MOUNT).join("system.slice").join(&unit), unit });
        }
        Ok(Self::Own(vec![Path::new(MOUNT).join(own)]))
    }

    /// Makes them where that is up to us.
    pub(crate) fn create(&self) -> Result<(), TestbedError> {
        let Self::Own(paths) = self else { return Ok(()) };
        for path in paths {
            if !path.exists() {
                fs::create_dir(path).map_err(TestbedError::file("cannot create", path))?;
            }
            // A new cpuset has neither processors nor memory, and nobody can enter it.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let (of_parent, own) = (path.with_file_name(file), path.join(file));
                if let Ok(value) = fs::read(of_parent) {
                    fs::write(&own, value).map_err(TestbedError::file("cannot write", &own))?;
                }
            }
        }
        Ok(())
    }

    /// Files to which a process writes `0` to move itself into the container's cgroups.
    pub(crate) fn entrances(&self) -> Result<Vec<File>, TestbedError> {
        let Self::Own(paths) = self else { return Ok(Vec::new()) };
        let open = |path: &PathBuf| {
            let path = path.join("cgroup.procs");
            OpenOptions::new().write(true).open(&path).map_err(TestbedError::file("cannot open", path))
        };
        paths.iter().map(open).collect()
    }

    /// Kills all processes in them and waits until they have ended.
    pub(crate) fn end_all(&self) -> Result<(), TestbedError> {
        wait("the end of all processes", || {
            let processes = self.processes();
            for process in &processes {
                // It may have ended meanwhile.
                let _ = kill_process(*process, Signal::KILL);
            }
            match processes.is_empty() {
                true => Ok(()),
                false => Err(format!("still there: {processes:?}")),
            }
        })
    }

    /// Removes them, once they are empty.
    pub(crate) fn remove(&self) -> Result<(), TestbedError> {
        // systemd removes a scope when its last process has ended.
        let Self::Own(paths) = self else { return Ok(()) };
        for path in paths {
            wait("the removal of a cgroup", || match remove_tree(path) {
                Ok(()) => Ok(()),
                Err(error) => Err(format!("{}: {error}", path.display())),
            })?;
        }
        Ok(())
    }

    pub(crate) fn processes(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        match self {
            Self::Own(paths) => paths.iter().for_each(|path| collect(path, &mut found)),
            Self::Scope { path, .. } => collect(path, &mut found),
        }
        found.sort_by_key(|pid| pid.as_raw_nonzero());
        found.dedup();
        found
    }
}

fn is_version_2() -> Result<bool, TestbedError> {
    const CGROUP2_MAGIC: u64 = 0x6367_7270;
    let found = rustix::fs::statfs(MOUNT)
        .map_err(|error| TestbedError::file("cannot examine", MOUNT)(error.into()))?;
    Ok(found.f_type as u64 == CGROUP2_MAGIC)
}

fn collect(cgroup: &Path, found: &mut Vec<Pid>) {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    found.extend(text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)));
    for child in children(cgroup) {
        collect(&child, found);
    }
}

fn children(cgroup: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cgroup).into_iter().flatten().filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove_tree(cgroup: &Path) -> std::io::Result<()> {
    for child in children(cgroup) {
        remove_tree(&child)?;
    }
    match fs::remove_dir(cgroup) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn wait(what: &str, done: impl FnMut() -> Result<(), String>) -> Result<(), TestbedError> {
    wait_for(what, LIMIT, done)
}

/// Asks again until it is done or the time is over.
pub(crate) fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut done: impl FnMut() -> Result<T, String>,
) -> Result<T, TestbedError> {
    let started = Instant::now();
    // Quick at first, then no burden on what is waited for.
    let mut pause = Duration::from_millis(2);
    loop {
        pause = (pause * 5 / 4).min(Duration::from_millis(250));
        match done() {
            Ok(value) => return Ok(value),
            Err(said) if started.elapsed() > limit => {
                return Err(TestbedError::Timeout { what: what.to_owned(), limit, said });
            }
            Err(_) => std::thread::sleep(pause),
        }
    }
}
