//! Control groups that Heaptrial makes for what it starts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::{Cgroup, CgroupReader, CgroupVersion, HostRoot, Process};

/// Names of groups begin with this; the process id namespace, process id and start time of who made it follow.
const PREFIX: &str = "heaptrial-lab";
/// How long a group whose processes were killed may take to be empty.
const EMPTY_PATIENCE: Duration = Duration::from_secs(5);

/// A group below which this process may make others and move processes into them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupPlace(Cgroup);

impl CgroupPlace {
    /// Looks for a place: this process' own group, and then those above it. What processes that are gone left there is removed.
    pub fn find(root: &HostRoot) -> Result<Self, String> {
        let version = CgroupVersion::of(root);
        if version == CgroupVersion::None {
            return Err("no memory controller of cgroups is mounted in /sys/fs/cgroup".to_owned());
        }
        let own = group_of_this_process(root)?;
        let mount = root.path(version.mount());
        let cpu_dir = Cgroup::cpu_dir_of(root, std::process::id() as i32);
        let mut first_problem = None;
        for dir in own.dir().ancestors().take_while(|dir| dir.starts_with(&mount)) {
            let place = Self(Cgroup::at(version, dir.to_owned(), cpu_dir.clone()));
            match place.check(root) {
                Ok(()) => {
                    place.tidy(root);
                    return Ok(place);
                }
                Err(problem) => {
                    first_problem.get_or_insert(problem);
                }
            }
        }
        Err(first_problem
            .unwrap_or_else(|| format!("{} is not below {}", own.dir().display(), mount.display())))
    }

    pub fn version(&self) -> CgroupVersion {
        self.0.version()
    }

    /// The group that this process is alone in, such as a scope that systemd made for it. The process moves into a group
    /// below it, since groups of version 2 hold processes or other groups.
    pub fn delegated(root: &HostRoot) -> Result<Self, String> {
        let own = group_of_this_process(root)?;
        if own.version() == CgroupVersion::V2 {
            let leaf = own.dir().join("supervisor");
            fs::create_dir(&leaf).map_err(failed(&leaf))?;
            write(&leaf, "cgroup.procs", "0")?;
            write(own.dir(), "cgroup.subtree_control", "+memory")?;
        }
        Ok(Self(Cgroup::at(own.version(), own.dir().to_owned(), None)))
    }

    /// Tries it: a group is made, a process moved into it, its memory read.
    fn check(&self, root: &HostRoot) -> Result<(), String> {
        let group = OwnCgroup::create(root, self, None)?;
        let mut child = Command::new("true");
        child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        group.enter_before_exec(&mut child)?;
        let moved = child.status().map_err(failed(group.cgroup.dir()))?;
        if !moved.success() {
            return Err(format!("{}: a process in it {moved}", group.cgroup.dir().display()));
        }
        let read = CgroupReader::open(&group.cgroup).and_then(|mut reader| reader.anonymous());
        read.map(drop).map_err(|error| error.to_string())
    }

    /// Ends and removes what a process that is gone left behind.
    fn tidy(&self, root: &HostRoot) {
        // Whether a maker in another namespace lives is unknown here.
        let Ok(prefix) = names_of_namespace(root) else { return };
        let maker = |name: &str| -> Option<(i32, u64)> {
            let (pid, start_ticks) = name.strip_prefix(&prefix)?.split_once('-')?;
            Some((pid.parse().ok()?, start_ticks.parse().ok()?))
        };
        for entry in self.0.dirs().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten()) {
            let Some((pid, start_ticks)) = entry.file_name().to_str().and_then(maker) else { continue };
            if !Process::new(root, pid).life_key().is_ok_and(|key| key.start_ticks == start_ticks) {
                remove(&entry.path());
            }
        }
    }
}

/// A group that this process made; it and whatever runs in it end with the value.
#[derive(Debug)]
pub struct OwnCgroup {
    cgroup: Cgroup,
}

impl OwnCgroup {
    /// Makes one; `limit_bytes` is for memory and swap together. The error says in words why not.
    pub fn create(root: &HostRoot, place: &CgroupPlace, limit_bytes: Option<u64>) -> Result<Self, String> {
        let key =
            Process::new(root, std::process::id() as i32).life_key().map_err(|error| error.to_string())?;
        let name = format!("{}{}-{}", names_of_namespace(root)?, key.pid, key.start_ticks);
        let mut dirs = place.0.dirs().map(|dir| dir.join(&name));
        let dir = dirs.next().unwrap_or_default();
        fs::create_dir(&dir).map_err(failed(&dir))?;
        // Without it CPU time is that of its processes.
        let cpu_dir = dirs.next().filter(|dir| fs::create_dir(dir).is_ok());
        let group = Self { cgroup: Cgroup::at(place.version(), dir, cpu_dir) };
        if let Some(bytes) = limit_bytes {
            group.limit(bytes)?;
        }
        Ok(group)
    }

    fn limit(&self, bytes: u64) -> Result<(), String> {
        let set = |file: &str, value: &str| write(self.cgroup.dir(), file, value);
        let swap = |file: &str, value: &str| match self.cgroup.dir().join(file).exists() {
            true => set(file, value),
            // The kernel does not account for swap; without any there is nothing to limit.
            false if no_swap() => Ok(()),
            false => Err(format!(
                "the kernel does not limit swap here ({file} is missing) and this host has swap: switch it off (swapoff -a), or boot with swapaccount=1"
            )),
        };
        match self.cgroup.version() {
            CgroupVersion::V1 => {
                set("memory.limit_in_bytes", &bytes.to_string())?;
                swap("memory.memsw.limit_in_bytes", &bytes.to_string())
            }
            _ => {
                set("memory.max", &bytes.to_string())?;
                swap("memory.swap.max", "0")
            }
        }
    }

    pub fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// Has a child be in it before its program starts.
    pub fn enter_before_exec(&self, child: &mut Command) -> Result<(), String> {
        let open = |dir: &Path| {
            let path = dir.join("cgroup.procs");
            OpenOptions::new().write(true).open(&path).map_err(failed(&path))
        };
        let procs: Vec<File> = self.cgroup.dirs().map(open).collect::<Result<_, _>>()?;
        // "0" is the process that writes.
        let enter = move || procs.iter().try_for_each(|mut procs| procs.write_all(b"0"));
        // SAFETY: between fork and exec the closure makes a system call for each file and allocates nothing.
        unsafe { child.pre_exec(enter) };
        Ok(())
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        self.cgroup.dirs().for_each(remove);
    }
}

/// What the names of groups begin with that processes of this one's process id namespace make.
fn names_of_namespace(root: &HostRoot) -> Result<String, String> {
    let path = root.path("/proc/self/ns/pid");
    let link = fs::read_link(&path).map_err(failed(&path))?;
    let inode: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    Ok(format!("{PREFIX}-{inode}-"))
}

fn group_of_this_process(root: &HostRoot) -> Result<Cgroup, String> {
    let own = Cgroup::of(root, std::process::id() as i32).map_err(|error| error.to_string())?;
    own.ok_or_else(|| "this process is in no memory cgroup".to_owned())
}

fn write(dir: &Path, file: &str, text: &str) -> Result<(), String> {
    let path = dir.join(file);
    fs::write(&path, text).map_err(failed(&path))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

fn no_swap() -> bool {
    // The first line is a heading.
    fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() <= 1)
}

/// Kills what is in a group and below it, and removes them.
fn remove(dir: &Path) {
    let deadline = Instant::now() + EMPTY_PATIENCE;
    loop {
        for below in fs::read_dir(dir).into_iter().flatten().flatten() {
            if below.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(&below.path());
            }
        }
        let members = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        match fs::remove_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => return,
        }
    }
}
