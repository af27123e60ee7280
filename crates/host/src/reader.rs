//! The cheap part of a reading: `status` and `stat` of one process, through files kept open.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use heaptrial_model::{Sample, SlowSample};

use crate::{HostError, HostRoot};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessReading {
    /// Its part of the service's sample; `processes` is 1.
    pub sample: Sample,
    pub start_ticks: u64,
    pub parent: i32,
    pub zombie: bool,
    /// Huge pages of hugetlb, which its sample has in anonymous memory and RSS.
    pub hugetlb_bytes: u64,
    pub(crate) main_thread_ended: bool,
    /// Where its stack begins: another program has another one, since the kernel draws it.
    pub(crate) stack: u64,
}

/// Reads one process again and again. The files stay open: the kernel renews their content at each
/// read from offset 0, and a file of an ended process never turns into one of its id's next owner.
#[derive(Debug)]
pub struct ProcessReader {
    pid: i32,
    status: File,
    stat: File,
    smaps_rollup: Option<File>,
    dir: PathBuf,
    buffer: Vec<u8>,
    last: ProcessReading,
}

/// Enough for most; `status` is longer where a process has hundreds of supplementary groups.
const BUFFER_BYTES: usize = 4096;

impl ProcessReader {
    pub fn open(root: &HostRoot, pid: i32) -> Result<Self, HostError> {
        let dir = root.process_dir(pid);
        let open = |name: &str| {
            let path = dir.join(name);
            File::open(&path).map_err(HostError::read(path))
        };
        Ok(Self {
            pid,
            status: open("status")?,
            stat: open("stat")?,
            smaps_rollup: None,
            buffer: vec![0; BUFFER_BYTES],
            dir,
            last: ProcessReading::default(),
        })
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn last(&self) -> &ProcessReading {
        &self.last
    }

    pub fn read(&mut self) -> Result<ProcessReading, HostError> {
        let length = fill(&self.stat, &mut self.buffer).map_err(HostError::read(self.dir.join("stat")))?;
        let mut reading =
            parse_stat(&self.buffer[..length]).ok_or_else(|| self.bad("stat", "52 fields", length))?;
        reading.sample.processes = 1;
        if reading.main_thread_ended {
            return Err(HostError::Failed(format!(
                "process {} goes on without its main thread, so that its memory cannot be read",
                self.pid
            )));
        }
        let length =
            fill(&self.status, &mut self.buffer).map_err(HostError::read(self.dir.join("status")))?;
        parse_status(&self.buffer[..length], &mut reading)
            .ok_or_else(|| self.bad("status", "sizes as `VmRSS: N kB`, whole", length))?;
        self.last = reading;
        Ok(reading)
    }

    /// Reads `smaps_rollup`: about 20 ms per GB of the process, which is stalled meanwhile. Needs the
    /// same user or CAP_SYS_PTRACE. `cost_us` is left 0; the caller knows it.
    pub fn read_slow(&mut self) -> Result<SlowSample, HostError> {
        let mut slow = SlowSample::default();
        for (name, value) in size_lines(self.fill_smaps_rollup()?) {
            match name {
                b"Pss" | b"Shared_Hugetlb" | b"Private_Hugetlb" => slow.pss_bytes += value,
                b"Private_Dirty" => slow.private_dirty_bytes = value,
                b"LazyFree" => slow.lazyfree_bytes = value,
                b"AnonHugePages" => slow.anon_huge_bytes = value,
                _ => {}
            }
        }
        Ok(slow)
    }

    fn fill_smaps_rollup(&mut self) -> Result<&[u8], HostError> {
        let path = self.dir.join("smaps_rollup");
        let file = match self.smaps_rollup.take() {
            Some(file) => file,
            None => File::open(&path).map_err(HostError::read(&path))?,
        };
        let length = fill(&file, &mut self.buffer).map_err(HostError::read(&path));
        self.smaps_rollup = Some(file);
        Ok(&self.buffer[..length?])
    }

    fn bad(&self, name: &str, expected: &'static str, length: usize) -> HostError {
        let found = String::from_utf8_lossy(&self.buffer[..length.min(200)]).into_owned();
        HostError::Parse { path: self.dir.join(name), expected, found }
    }
}

/// Reads a file from its start. The kernel gives these files whole in one call where there is room for more than that.
fn fill(file: &File, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    loop {
        match file.read_at(buffer, 0)? {
            0 => return Err(std::io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error())),
            length if length < buffer.len() => return Ok(length),
            // What is cut off has figures as well.
            length => buffer.resize(2 * length, 0),
        }
    }
}

/// Fields of `/proc/PID/stat` by their number in proc_pid_stat(5), from 3 to 28.
pub(crate) fn parse_stat(text: &[u8]) -> Option<ProcessReading> {
    let mut reading = ProcessReading::default();
    let after_name = text.iter().rposition(|b| *b == b')')? + 2;
    let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second();
    for (number, field) in (3..=28).zip(text.get(after_name..)?.split(|b| *b == b' ')) {
        match number {
            3 => reading.zombie = matches!(field, b"Z" | b"X"),
            4 => reading.parent = digits(field)? as i32,
            // Of itself, and of the children it waited for.
            10 | 11 => reading.sample.minor_faults += digits(field)?,
            12 | 13 => reading.sample.major_faults += digits(field)?,
            14..=17 => reading.sample.cpu_us += digits(field)? * tick_us,
            20 => reading.sample.threads = digits(field)? as u32,
            22 => reading.start_ticks = digits(field)?,
            // 0 where one may not know.
            28 => reading.stack = digits(field).unwrap_or(0),
            _ => {}
        }
    }
    reading.main_thread_ended = reading.zombie && reading.sample.threads > 1;
    reading.zombie &= !reading.main_thread_ended;
    (reading.start_ticks > 0 || reading.parent == 0).then_some(reading)
}

/// Sizes of `/proc/PID/status`. A kernel thread or zombie has none, which is a reading of 0; who has a size has all of them.
fn parse_status(text: &[u8], reading: &mut ProcessReading) -> Option<()> {
    let sample = &mut reading.sample;
    let (mut virtual_size, mut resident, mut anonymous) = (false, false, false);
    for (name, value) in size_lines(text) {
        match name {
            b"VmSize" => (virtual_size, sample.vsize_bytes) = (true, value),
            b"VmHWM" => sample.hwm_bytes = value,
            b"VmRSS" => (resident, sample.rss_bytes) = (true, value),
            b"RssAnon" => (anonymous, sample.anon_bytes) = (true, value),
            b"RssFile" => sample.file_bytes = value,
            b"RssShmem" => sample.shmem_bytes = value,
            b"VmSwap" => sample.swap_bytes = value,
            b"HugetlbPages" => {
                reading.hugetlb_bytes = value;
                sample.rss_bytes += value;
                sample.anon_bytes += value;
                break;
            }
            _ => {}
        }
    }
    let whole = text.starts_with(b"Name:") && text.ends_with(b"\n");
    (whole && (!virtual_size || resident && anonymous)).then_some(())
}

/// Lines `NAME: N kB`, as name and bytes.
fn size_lines(text: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    text.split(|b| *b == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b" kB")?;
        let colon = line.iter().position(|b| *b == b':')?;
        Some((&line[..colon], digits(line[colon + 1..].trim_ascii_start())? * 1024))
    })
}

fn digits(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text.strip_prefix(b"-").unwrap_or(text)).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = b"42 (a) b (c) S 7 42 42 0 -1 4194560 11 2 3 1 5 6 7 8 20 0 9 0 12345 1 2";
        let reading = parse_stat(stat).unwrap();
        assert_eq!((reading.parent, reading.start_ticks, reading.zombie), (7, 12345, false));
        assert_eq!((reading.sample.minor_faults, reading.sample.major_faults), (13, 4));
        assert_eq!(reading.sample.threads, 9);
        assert_eq!(reading.sample.cpu_us, 26 * 1_000_000 / rustix::param::clock_ticks_per_second());
    }

    #[test]
    fn sizes_are_bytes() {
        let status = b"Name:\ttor\nVmSize:\t  500 kB\nVmHWM:\t 400 kB\nVmRSS:\t 300 kB\nRssAnon:\t 200 kB\nRssFile:\t  90 kB\nRssShmem:\t  10 kB\nVmSwap:\t   4 kB\n";
        let mut reading = ProcessReading::default();
        parse_status(status, &mut reading).unwrap();
        let sample = reading.sample;
        assert_eq!(sample.rss_bytes, 300 * 1024);
        assert_eq!(sample.anon_bytes + sample.file_bytes + sample.shmem_bytes, sample.rss_bytes);
        assert_eq!(sample.swap_bytes, 4096);
        let mut with_huge = ProcessReading::default();
        parse_status(&[status, &b"HugetlbPages:\t  64 kB\n"[..]].concat(), &mut with_huge).unwrap();
        assert_eq!(with_huge.sample.anon_bytes, sample.anon_bytes + 64 * 1024);
        assert_eq!(with_huge.sample.rss_bytes, sample.rss_bytes + 64 * 1024);
    }

    #[test]
    fn memory_stands_behind_any_number_of_groups() {
        let (folder, root) = fixture::host(&[]);
        fixture::process(folder.path(), 42, 1, 'S', 50);
        let write = |status: &str| fixture::write(folder.path(), "proc/42/status", status);
        let groups = "4000000 ".repeat(65_536);
        let status =
            format!("Name:\tx\nGroups:\t{groups}\nVmSize:\t  90 kB\nVmRSS:\t  50 kB\nRssAnon:\t  40 kB\n");
        write(&status);
        let mut reader = ProcessReader::open(&root, 42).unwrap();
        let sample = reader.read().unwrap().sample;
        assert_eq!((sample.rss_bytes, sample.anon_bytes), (50 << 10, 40 << 10));
        for cut in ["VmRSS", "RssAnon"] {
            write(status.split_once(cut).unwrap().0);
            let read = reader.read();
            assert!(matches!(read, Err(HostError::Parse { .. })), "{cut}: {read:?}");
        }
    }
}
