//! The memory figures of a service's control group, versions 1 and 2.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{HostError, HostRoot, Process};

/// Where version 1 has its hierarchy of CPU time, or a link to it.
pub(crate) const CPU_MOUNT: &str = "/sys/fs/cgroup/cpuacct";
/// `memory.stat` has some 2 KiB in version 2.
const BUFFER_BYTES: usize = 16 << 10;

/// Which control group interface accounts for memory on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupVersion {
    V1,
    V2,
    None,
}

impl CgroupVersion {
    pub fn of(root: &HostRoot) -> Self {
        if root.path("/sys/fs/cgroup/cgroup.controllers").exists() {
            Self::V2
        } else if root.path("/sys/fs/cgroup/memory/memory.usage_in_bytes").exists() {
            Self::V1
        } else {
            Self::None
        }
    }

    pub(crate) fn mount(self) -> &'static str {
        match self {
            Self::V1 => "/sys/fs/cgroup/memory",
            _ => "/sys/fs/cgroup",
        }
    }
}

/// The memory control group that a process is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    version: CgroupVersion,
    dir: PathBuf,
    cpu_dir: Option<PathBuf>,
}

/// Anonymous memory of everything in a control group, each page once, in bytes. The kernel charges a page to the group
/// of the process that touched it first, also when that process has ended and another still maps the page.
///
/// It keeps these counts per processor and brings them together when they have moved by 64 pages for each processor,
/// and every 2 s: they may lag by that much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnonymousMemory {
    pub resident_bytes: u64,
    /// In swap; 0 where the kernel does not account for swap.
    pub swap_bytes: u64,
}

impl Cgroup {
    /// That of `pid`; `None` where the host does not account for memory. The group of a process that is ending may be unknown.
    pub fn of(root: &HostRoot, pid: i32) -> Result<Option<Self>, HostError> {
        let version = CgroupVersion::of(root);
        let path = root.process_dir(pid).join("cgroup");
        let text = fs::read_to_string(&path).map_err(HostError::read(&path))?;
        let own = group_in(&text, version, "memory");
        // Version 1 has every process that is ending in the root group, whatever it is charged to.
        if version == CgroupVersion::V1 && own == Some("/") && Process::new(root, pid).is_exiting()? {
            return Err(HostError::Gone { pid });
        }
        let Some(own) = own else { return Ok(None) };
        let dir = root.path(version.mount()).join(own.trim_start_matches('/'));
        // A group of another name has the CPU time of others as well.
        let cpu_dir =
            cpu_dir(root, &text, version).filter(|cpu| own != "/" && cpu.file_name() == dir.file_name());
        Ok(Some(Self { version, dir, cpu_dir }))
    }

    /// The group of `pid` in version 1's hierarchy of CPU time, whatever its name.
    pub(crate) fn cpu_dir_of(root: &HostRoot, pid: i32) -> Option<PathBuf> {
        let text = fs::read_to_string(root.process_dir(pid).join("cgroup")).ok()?;
        cpu_dir(root, &text, CgroupVersion::of(root))
    }

    /// Whether it is `other`, or below it: what is in it is accounted for in `other` as well.
    pub fn is_within(&self, other: &Self) -> bool {
        self.version == other.version && self.dir.starts_with(&other.dir)
    }

    /// The one whose files are in `dir`, and in `cpu_dir` those of its CPU time where that has a hierarchy of its own.
    pub(crate) fn at(version: CgroupVersion, dir: PathBuf, cpu_dir: Option<PathBuf>) -> Self {
        Self { version, dir, cpu_dir }
    }

    /// The folders of its files, in each hierarchy that it has a part in.
    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.dir).chain(&self.cpu_dir).map(PathBuf::as_path)
    }

    pub fn version(&self) -> CgroupVersion {
        self.version
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Processes of it that the kernel killed for want of memory, since it was made.
    pub fn oom_kills(&self) -> Option<u64> {
        match self.version {
            CgroupVersion::V1 => self.number("memory.oom_control", "oom_kill "),
            _ => self.number("memory.events", "oom_kill "),
        }
    }

    /// How often it was at its limit, since it was made.
    pub fn times_at_limit(&self) -> Option<u64> {
        match self.version {
            CgroupVersion::V1 => self.number("memory.failcnt", ""),
            _ => self.number("memory.events", "max "),
        }
    }

    /// The number in the first line of a file that begins with `name`.
    fn number(&self, file: &str, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.dir.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    }
}

/// Reads the figures of a group again and again, through files kept open.
#[derive(Debug)]
pub struct CgroupReader {
    cgroup: Cgroup,
    stat: File,
    swap: Option<File>,
    current: Option<File>,
    peak: Option<File>,
    cpu: Option<File>,
    listed: Option<Vec<u8>>,
    buffer: Vec<u8>,
    /// Page faults as of the last reading: all of them, and those that needed a disk.
    faults: Option<(u64, u64)>,
}

impl CgroupReader {
    pub fn open(cgroup: &Cgroup) -> Result<Self, HostError> {
        let path = cgroup.dir.join("memory.stat");
        let open_in = |dir: &Path, name: &str| {
            let path = dir.join(name);
            match File::open(&path).map_err(HostError::read(path)) {
                Err(error) if error.is_absent() => Ok(None),
                opened => opened.map(Some),
            }
        };
        let open = |name: &str| open_in(&cgroup.dir, name);
        let (swap, current, peak, cpu) = match cgroup.version {
            // Swap is in `memory.stat`.
            CgroupVersion::V1 => {
                let usage = cgroup.cpu_dir.as_ref().map(|dir| open_in(dir, "cpuacct.usage"));
                let (current, peak) = (open("memory.usage_in_bytes")?, open("memory.max_usage_in_bytes")?);
                (None, current, peak, usage.transpose()?.flatten())
            }
            _ => {
                let (swap, peak) = (open("memory.swap.current")?, open("memory.peak")?);
                (swap, open("memory.current")?, peak, open("cpu.stat")?)
            }
        };
        let stat = File::open(&path).map_err(HostError::read(path))?;
        let (cgroup, buffer) = (cgroup.clone(), vec![0; BUFFER_BYTES]);
        Ok(Self { cgroup, stat, swap, current, peak, cpu, listed: None, buffer, faults: None })
    }

    pub fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// Anonymous memory and swap of the group and all groups below it.
    pub fn anonymous(&mut self) -> Result<AnonymousMemory, HostError> {
        let path = self.cgroup.dir.join("memory.stat");
        let length = self.stat.read_at(&mut self.buffer, 0).map_err(HostError::read(&path))?;
        let text = &self.buffer[..length];
        let (resident, swap_bytes, faults, expected) = match self.cgroup.version {
            CgroupVersion::V1 => {
                let [resident, swap, all, major] =
                    fields(text, ["total_rss", "total_swap", "total_pgfault", "total_pgmajfault"]);
                (resident, swap.unwrap_or(0), all.zip(major), "a line `total_rss N`")
            }
            _ => {
                let swap = self.swap.as_ref().and_then(number_in).unwrap_or(0);
                let [resident, all, major] = fields(text, ["anon", "pgfault", "pgmajfault"]);
                let swap = swap.saturating_sub(mapped_and_swapped(text, swap));
                (resident, swap, all.zip(major), "a line `anon N`")
            }
        };
        self.faults = faults;
        let resident_bytes = resident.ok_or_else(|| {
            let found = String::from_utf8_lossy(text.split(|byte| *byte == b'\n').next().unwrap_or_default());
            HostError::Parse { path, expected, found: found.into_owned() }
        })?;
        Ok(AnonymousMemory { resident_bytes, swap_bytes })
    }

    /// Whether its list of processes is another one than when this was asked last; true where it cannot be read.
    pub(crate) fn processes_changed(&mut self) -> bool {
        // Opened each time: version 1 keeps the list of an open file for a second after each reading.
        let listed = fs::read(self.cgroup.dir.join("cgroup.procs")).ok();
        let changed = listed.is_none() || listed != self.listed;
        self.listed = listed;
        changed
    }

    /// Minor and major page faults of everything that was ever in the group, as of the last reading of its memory.
    pub fn faults(&self) -> Option<(u64, u64)> {
        self.faults.map(|(all, major)| (all.saturating_sub(major), major))
    }

    /// CPU time of everything that was ever in the group, in microseconds; in version 1 of some groups.
    pub fn cpu_us(&self) -> Option<u64> {
        if self.cgroup.version == CgroupVersion::V1 {
            return self.cpu.as_ref().and_then(number_in).map(|nanoseconds| nanoseconds / 1000);
        }
        let mut buffer = [0; 512];
        let length = self.cpu.as_ref()?.read_at(&mut buffer, 0).ok()?;
        let [used] = fields(&buffer[..length], ["usage_usec"]);
        used
    }

    pub fn current_bytes(&self) -> Option<u64> {
        self.current.as_ref().and_then(number_in)
    }

    pub fn peak_bytes(&self) -> Option<u64> {
        self.peak.as_ref().and_then(number_in)
    }
}

fn cpu_dir(root: &HostRoot, text: &str, version: CgroupVersion) -> Option<PathBuf> {
    let group = group_in(text, version, "cpuacct").filter(|_| version == CgroupVersion::V1)?;
    Some(root.path(CPU_MOUNT).join(group.trim_start_matches('/')))
}

/// The group of a process in the hierarchy of a controller, by cgroups(7): `hierarchy:controllers:path`, hierarchy 0 without
/// controllers for version 2.
pub(crate) fn group_in<'t>(text: &'t str, version: CgroupVersion, controller: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let wanted = match version {
            CgroupVersion::V2 => hierarchy == "0",
            CgroupVersion::V1 => controllers.split(',').any(|name| name == controller),
            CgroupVersion::None => false,
        };
        wanted.then_some(path)
    })
}

/// Anonymous pages of a group of version 2 that are mapped and have a place in swap as well, in bytes: those that were read back
/// and not written to since. `anon` and the swap's figure both have them. Those whose writing to swap is under way
/// are in the swap cache and not in `anon`, which has mapped pages only. Both are on the lists of anonymous pages, which
/// have shared memory too. Kernels before 5.12 do not count the swap cache.
fn mapped_and_swapped(stat: &[u8], swap_bytes: u64) -> u64 {
    if swap_bytes == 0 {
        return 0;
    }
    let names = ["anon", "shmem", "swapcached", "inactive_anon", "active_anon"];
    let [mapped, shared, in_swap_cache, inactive, active] =
        fields(stat, names).map(|value| value.unwrap_or(0));
    let unmapped = (inactive + active).saturating_sub(shared + mapped);
    in_swap_cache.saturating_sub(unmapped)
}

/// Values of lines `NAME VALUE`.
fn fields<const N: usize>(text: &[u8], names: [&str; N]) -> [Option<u64>; N] {
    names.map(|name| {
        let mut lines = text.split(|byte| *byte == b'\n');
        let found = lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b" "))?;
        std::str::from_utf8(found).ok()?.trim().parse().ok()
    })
}

fn number_in(file: &File) -> Option<u64> {
    let mut buffer = [0; 32];
    let length = file.read_at(&mut buffer, 0).ok()?;
    std::str::from_utf8(&buffer[..length]).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::host;

    #[test]
    fn version_2_is_read() {
        let (_dir, root) = host(&[
            ("proc/7/cgroup", "0::/system.slice/tor@a.service\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
            ("sys/fs/cgroup/system.slice/tor@a.service/memory.current", "4096\n"),
            ("sys/fs/cgroup/system.slice/tor@a.service/memory.peak", "8192\n"),
            (
                "sys/fs/cgroup/system.slice/tor@a.service/memory.events",
                "max 9\noom 3\noom_kill 2\noom_group_kill 0\n",
            ),
            ("sys/fs/cgroup/system.slice/tor@a.service/memory.stat", "anon 1000\nfile 7\nanon_thp 3\n"),
            ("sys/fs/cgroup/system.slice/tor@a.service/memory.swap.current", "24\n"),
            ("sys/fs/cgroup/system.slice/tor@a.service/cpu.stat", "usage_usec 1234567\nuser_usec 1000000\n"),
        ]);
        let cgroup = Cgroup::of(&root, 7).unwrap().unwrap();
        let mut reader = CgroupReader::open(&cgroup).unwrap();
        assert_eq!((reader.current_bytes(), reader.peak_bytes()), (Some(4096), Some(8192)));
        assert_eq!((cgroup.oom_kills(), cgroup.times_at_limit()), (Some(2), Some(9)));
        let anonymous = AnonymousMemory { resident_bytes: 1000, swap_bytes: 24 };
        assert_eq!(reader.anonymous().unwrap(), anonymous);
        assert_eq!(reader.cpu_us(), Some(1_234_567));
    }

    /// Figures of Linux 6.1, of 36 MiB of which 12 were swapped out, in units of 4 KiB.
    #[test]
    fn a_page_in_memory_and_in_swap_counts_once() {
        // The writing to swap is under way, the pages were given up, and they were read again.
        for (anon, in_swap_cache, inactive) in [(6191, 3072, 9266), (6191, 0, 6194), (9263, 3072, 9266)] {
            let stat = format!(
                "anon {anon}\nshmem 5\nswapcached {in_swap_cache}\ninactive_anon {inactive}\nactive_anon 1\n"
            );
            let in_memory = anon - mapped_and_swapped(stat.as_bytes(), 3072);
            assert!((9262..=9264).contains(&(in_memory + 3072)), "{stat}");
        }
    }

    #[test]
    fn version_1_is_read() {
        let (_dir, root) = host(&[
            ("proc/7/cgroup", "5:cpu,cpuacct:/x.service\n3:memory:/system.slice/x.service\n"),
            ("proc/8/cgroup", "5:cpu,cpuacct:/other\n3:memory:/system.slice/x.service\n"),
            ("sys/fs/cgroup/cpuacct/x.service/cpuacct.usage", "5000\n"),
            ("sys/fs/cgroup/cpuacct/other/cpuacct.usage", "7000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n"),
            ("sys/fs/cgroup/memory/system.slice/x.service/memory.usage_in_bytes", "4096\n"),
            (
                "sys/fs/cgroup/memory/system.slice/x.service/memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
            ),
            (
                "sys/fs/cgroup/memory/system.slice/x.service/memory.stat",
                "cache 5\nrss 1\nswap 1\ntotal_cache 6\ntotal_rss 500\ntotal_rss_huge 2\ntotal_swap 12\ntotal_pgfault 9\ntotal_pgmajfault 2\n",
            ),
            ("sys/fs/cgroup/memory/system.slice/x.service/memory.failcnt", "4\n"),
        ]);
        let cgroup = Cgroup::of(&root, 7).unwrap().unwrap();
        assert_eq!((cgroup.oom_kills(), cgroup.times_at_limit()), (Some(1), Some(4)));
        let anonymous = AnonymousMemory { resident_bytes: 500, swap_bytes: 12 };
        let mut reader = CgroupReader::open(&cgroup).unwrap();
        assert_eq!(reader.anonymous().unwrap(), anonymous);
        assert_eq!((reader.current_bytes(), reader.peak_bytes()), (Some(4096), None));
        assert_eq!((reader.cpu_us(), reader.faults()), (Some(5), Some((7, 2))));
        // Of a group of another name it has its CPU time with others.
        let other = Cgroup::of(&root, 8).unwrap().unwrap();
        assert_eq!(CgroupReader::open(&other).unwrap().cpu_us(), None);
    }

    /// For a process that is ending version 1 names the root group, which has all of the host.
    #[test]
    fn a_process_that_is_ending_is_in_no_group_of_others() {
        let stat = |flags: u32| format!("7 (a) b) R 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n");
        for (flags, group) in [(0x40_0100, Some("sys/fs/cgroup/memory/")), (0x40_0104, None)] {
            let (dir, root) = host(&[
                ("proc/7/cgroup", "3:memory:/\n"),
                ("proc/7/stat", &stat(flags)),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n"),
            ]);
            let found = Cgroup::of(&root, 7);
            let expected = group.map(|group| dir.path().join(group));
            assert_eq!(found.ok().flatten().map(|found| found.dir), expected, "{flags:#x}");
        }
    }

    #[test]
    fn a_figure_that_is_not_there_is_an_error_and_never_0() {
        let (_dir, root) = host(&[
            ("proc/7/cgroup", "0::/x\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
            ("sys/fs/cgroup/x/memory.stat", "anonymous 1\n"),
        ]);
        let cgroup = Cgroup::of(&root, 7).unwrap().unwrap();
        let read = CgroupReader::open(&cgroup).unwrap().anonymous();
        assert!(read.unwrap_err().to_string().contains("anon N"));
    }
}
