//! One process, read without attaching to it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heaptrial_model::LifeKey;

use crate::pagemap::PageMap;
use crate::{HostError, HostRoot, Instant, boot_id};

/// A process by its id. Holding one does not keep the process alive; each call may find it gone.
#[derive(Debug, Clone)]
pub struct Process {
    pid: i32,
    dir: PathBuf,
    root: HostRoot,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// `rwxp` as the kernel writes it.
    pub permissions: [u8; 4],
    pub device: String,
    /// Inode of the mapped file; 0 for anonymous memory.
    pub inode: u64,
    /// Path of the file, or a name in brackets, or empty; without ` (deleted)`.
    pub name: String,
    pub deleted: bool,
}

impl Mapping {
    pub fn is_executable(&self) -> bool {
        self.permissions[2] == b'x'
    }

    pub fn is_file(&self) -> bool {
        self.name.starts_with('/')
    }
}

impl Process {
    pub fn new(root: &HostRoot, pid: i32) -> Self {
        Self { pid, dir: root.process_dir(pid), root: root.clone() }
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn life_key(&self) -> Result<LifeKey, HostError> {
        Ok(LifeKey { boot_id: boot_id(&self.root)?, pid: self.pid, start_ticks: self.start_ticks()? })
    }

    fn start_ticks(&self) -> Result<u64, HostError> {
        self.stat_field(22, "the start time in clock ticks as field 22")
    }

    /// The state letter: `R`, `S`, `D`, `Z`, ...
    pub fn state(&self) -> Result<char, HostError> {
        self.stat_field(3, "the state as field 3")
    }

    pub fn threads(&self) -> Result<u32, HostError> {
        self.stat_field(20, "the number of threads as field 20")
    }

    /// How long ago it was started, without the time that the host was suspended.
    pub fn age(&self) -> Result<Duration, HostError> {
        Ok(Duration::from_secs_f64(Instant::now().age_seconds(self.start_ticks()?)))
    }

    pub fn processors(&self) -> Result<u32, HostError> {
        let set = rustix::thread::sched_getaffinity(rustix::process::Pid::from_raw(self.pid));
        Ok(set.map_err(|error| HostError::read(self.dir.join("status"))(error.into()))?.count())
    }

    /// Whether it is on its way out, from the first step of its end until nothing is left of it (`PF_EXITING` of the kernel's
    /// `include/linux/sched.h`, in the flags of proc_pid_stat(5)).
    pub fn is_exiting(&self) -> Result<bool, HostError> {
        const PF_EXITING: u32 = 0x4;
        let flags: u32 = self.stat_field(9, "the kernel's flags as field 9")?;
        Ok(flags & PF_EXITING != 0)
    }

    /// How long its threads that live were ready to run and had no processor, since each of them began; `None` where the
    /// kernel does not count it (proc_pid_schedstat(5)).
    pub fn waited_for_processors(&self) -> Option<Duration> {
        let threads = fs::read_dir(self.dir.join("task")).ok()?;
        let waited = |thread: fs::DirEntry| -> Option<u64> {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_ascii_whitespace().nth(1)?.parse().ok()
        };
        let waited: Vec<u64> = threads.flatten().filter_map(waited).collect();
        (!waited.is_empty()).then(|| Duration::from_nanos(waited.iter().sum()))
    }

    fn stat_field<T: std::str::FromStr>(
        &self,
        number: usize,
        expected: &'static str,
    ) -> Result<T, HostError> {
        let text = self.read_text("stat")?;
        // The second field is the name in parentheses and may hold spaces and parentheses.
        let after_name = text.rfind(')').map_or("", |at| &text[at + 1..]);
        let field = after_name.split_ascii_whitespace().nth(number - 3);
        field.and_then(|field| field.parse().ok()).ok_or_else(|| {
            let (path, found) = (self.dir.join("stat"), text.trim_end().to_owned());
            HostError::Parse { path, expected, found }
        })
    }

    fn read_text(&self, name: &str) -> Result<String, HostError> {
        let bytes = self.read_bytes(name)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn read_bytes(&self, name: &str) -> Result<Vec<u8>, HostError> {
        let path = self.dir.join(name);
        fs::read(&path).map_err(|source| {
            if self.dir.exists() {
                HostError::Read { path, source }
            } else {
                HostError::Gone { pid: self.pid }
            }
        })
    }

    /// The path of the program that runs, as the process sees it.
    pub fn exe(&self) -> Result<PathBuf, HostError> {
        let path = self.dir.join("exe");
        fs::read_link(&path).map_err(HostError::read(&path))
    }

    /// A file that opens the very program that runs, even when its path was replaced.
    pub fn exe_file(&self) -> PathBuf {
        self.dir.join("exe")
    }

    pub fn cmdline(&self) -> Result<Vec<OsString>, HostError> {
        Ok(split_nul(self.read_bytes("cmdline")?))
    }

    /// The environment the program was started with, in its order. Needs the same user or root.
    pub fn environ(&self) -> Result<Vec<(String, String)>, HostError> {
        let variable = |entry: OsString| {
            let entry = entry.to_string_lossy();
            entry.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        Ok(split_nul(self.read_bytes("environ")?).into_iter().filter_map(variable).collect())
    }

    /// Whether the program wrote something else, such as its title (setproctitle(3)), where its environment was. What it
    /// was started with can then not be read any more. Needs the same user or root.
    pub fn environ_is_overwritten(&self) -> Result<bool, HostError> {
        Ok(is_overwritten(&self.read_bytes("environ")?))
    }

    /// All mappings, in address order. Needs the same user or root.
    pub fn mappings(&self) -> Result<Vec<Mapping>, HostError> {
        let bad = |line: &str| {
            let (path, found) = (self.dir.join("maps"), line.to_owned());
            HostError::Parse { path, expected: "a mapping (proc_pid_maps(5))", found }
        };
        let text = self.read_text("maps")?;
        text.lines().map(|line| parse_mapping(line).ok_or_else(|| bad(line))).collect()
    }

    /// Files through which a mapped file can be opened, best first: the mapping itself (right even
    /// when the file was replaced; needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE), then its path as
    /// the process sees it.
    pub fn mapped_file_candidates(&self, mapping: &Mapping) -> Vec<PathBuf> {
        let own = self.dir.join("map_files").join(format!("{:x}-{:x}", mapping.start, mapping.end));
        let mut candidates = vec![own];
        if !mapping.deleted {
            candidates.push(self.seen_path(Path::new(&mapping.name)));
            if !self.root.is_live() {
                candidates.push(self.root.path(&mapping.name));
            }
        }
        candidates
    }

    /// The place of an absolute path as the process sees it, in its own mounts. Needs ptrace-level permission.
    pub fn seen_path(&self, absolute: &Path) -> PathBuf {
        self.dir.join("root").join(absolute.strip_prefix("/").unwrap_or(absolute))
    }

    /// The root that it sees, with its packages; the host's own where that may not be entered.
    pub fn seen_root(&self) -> HostRoot {
        let seen = self.dir.join("root");
        if self.root.is_live() && seen.join("etc").is_dir() { HostRoot::at(seen) } else { self.root.clone() }
    }

    /// Opens the memory for reading. Needs ptrace-level permission; attaches to nothing.
    pub fn memory(&self) -> Result<ProcessMemory, HostError> {
        let path = self.dir.join("mem");
        let file = File::open(&path).map_err(HostError::read(&path))?;
        Ok(ProcessMemory { file, path })
    }

    /// Resident memory, its anonymous part, and swap, in bytes.
    pub fn memory_totals(&self) -> Result<[u64; 3], HostError> {
        let text = self.read_text("status")?;
        Ok(["VmRSS:", "RssAnon:", "VmSwap:"].map(|name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
            kib.unwrap_or(0) * 1024
        }))
    }

    /// Which of its pages are in memory. Needs ptrace-level permission.
    pub fn pages(&self) -> Result<PageMap, HostError> {
        let [.., swapped] = self.memory_totals()?;
        PageMap::open(self.dir.join("pagemap"), swapped > 0)
    }
}

#[derive(Debug)]
pub struct ProcessMemory {
    file: File,
    path: PathBuf,
}

impl ProcessMemory {
    pub fn read_at(&self, address: u64, buffer: &mut [u8]) -> Result<(), HostError> {
        self.file.read_exact_at(buffer, address).map_err(HostError::read(&self.path))
    }
}

fn split_nul(bytes: Vec<u8>) -> Vec<OsString> {
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts.map(|part| OsString::from_vec(part.to_vec())).collect()
}

/// The kernel writes `NAME=VALUE` and a NUL each; titles are padded with NULs or spaces.
fn is_overwritten(environ: &[u8]) -> bool {
    let Some(entries) = environ.strip_suffix(b"\0") else { return !environ.is_empty() };
    entries.split(|b| *b == 0).any(|entry| !matches!(entry.iter().position(|b| *b == b'='), Some(1..)))
}

fn parse_mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions: [u8; 4] = fields.next()?.as_bytes().try_into().ok()?;
    let device = fields.nth(1)?.to_owned();
    let inode = fields.next()?.parse().ok()?;
    let name = fields.next().unwrap_or("").trim_start();
    let (name, deleted) = name.strip_suffix(" (deleted)").map_or((name, false), |name| (name, true));
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        permissions,
        device,
        inode,
        name: name.to_owned(),
        deleted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_taken_apart() {
        let line = "7f1c2a000000-7f1c2a021000 r-xp 00001000 fe:00 1234   /usr/lib/lib a.so (deleted)";
        let mapping = parse_mapping(line).unwrap();
        assert_eq!(mapping.name, "/usr/lib/lib a.so");
        assert!(mapping.deleted && mapping.is_executable() && mapping.is_file());
        assert_eq!(mapping.inode, 1234);
        let anonymous = parse_mapping("00400000-00401000 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!(anonymous.name, "");
        assert!(parse_mapping("nonsense").is_none());
    }

    #[test]
    fn a_title_in_the_place_of_the_environment_is_noticed() {
        for intact in [&b""[..], b"A=1\0", b"A=1\0B=\0C=x=y\0"] {
            assert!(!is_overwritten(intact), "{intact:?}");
        }
        for title in [&b"\0\0\0\0"[..], b"cess\0\0\0\0", b"master process    ", b"ess\0\0\0B=2\0", b"=2\0"] {
            assert!(is_overwritten(title), "{title:?}");
        }
    }
}
