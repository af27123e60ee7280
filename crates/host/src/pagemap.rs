//! Which pages of a process are in memory, from proc_pid_pagemap(5).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::HostError;

pub const PAGE: u64 = 4096;

const ENTRY_BYTES: usize = 8;
const PRESENT: u64 = 1 << 63;
/// Swapped out, or for a moment on its way to another place in memory, as where the kernel compacts that.
const SWAPPED_OR_MOVED: u64 = 1 << 62;
const GUARD: u64 = 1 << 58;
/// Pages whose entries are kept: 32 MiB of addresses.
const WINDOW: u64 = 8192;

/// The page map of a process, read in windows. Pages come and go while it is read.
#[derive(Debug)]
pub struct PageMap {
    file: File,
    path: PathBuf,
    /// Bits of entries that say that a page is in memory.
    in_memory: u64,
    first: u64,
    entries: Vec<u64>,
}

impl PageMap {
    /// Of a process of which something is swapped out, or nothing: then a page that is not where it was is only moved.
    pub(crate) fn open(path: PathBuf, has_swapped: bool) -> Result<Self, HostError> {
        let file = File::open(&path).map_err(HostError::read(&path))?;
        let in_memory = if has_swapped { PRESENT } else { PRESENT | SWAPPED_OR_MOVED };
        Ok(Self { file, path, in_memory, first: 0, entries: Vec::new() })
    }

    /// Whether the page of an address is in memory. It is not where it is swapped out, was never touched, or was given back.
    pub fn is_resident(&mut self, address: u64) -> Result<bool, HostError> {
        let page = address / PAGE;
        if !(self.first..self.first + self.entries.len() as u64).contains(&page) {
            self.load(page)?;
        }
        let entry = self.entries.get((page - self.first) as usize).copied().unwrap_or(0);
        Ok(self.is_in_memory(entry))
    }

    /// Bytes in memory of the pages from `start` to `end`.
    pub fn resident_bytes(&mut self, start: u64, end: u64) -> Result<u64, HostError> {
        let (mut page, end) = (start / PAGE, end.div_ceil(PAGE));
        let mut resident = 0;
        while page < end {
            self.is_resident(page * PAGE)?;
            let known = self.entries.get((page - self.first) as usize..).unwrap_or_default();
            let known = &known[..known.len().min((end - page) as usize)];
            resident += known.iter().filter(|entry| self.is_in_memory(**entry)).count() as u64;
            // What lies beyond the last mapping has no entry.
            page += (known.len() as u64).max(1);
        }
        Ok(resident * PAGE)
    }

    /// Forgets what was read, so that the next question is answered from memory as it is then.
    pub fn refresh(&mut self) {
        self.entries.clear();
    }

    fn is_in_memory(&self, entry: u64) -> bool {
        entry & self.in_memory != 0 && entry & GUARD == 0
    }

    fn load(&mut self, page: u64) -> Result<(), HostError> {
        let mut bytes = vec![0; WINDOW as usize * ENTRY_BYTES];
        // What lies beyond the last mapping is not in the file.
        let length =
            self.file.read_at(&mut bytes, page * ENTRY_BYTES as u64).map_err(HostError::read(&self.path))?;
        let entry = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        self.entries = bytes[..length].chunks_exact(ENTRY_BYTES).map(entry).collect();
        self.first = page;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_the_kernel_moves_is_in_memory_and_a_guard_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pagemap");
        let entries = [PRESENT, SWAPPED_OR_MOVED, 0, SWAPPED_OR_MOVED | GUARD];
        std::fs::write(&path, entries.map(u64::to_ne_bytes).concat()).unwrap();
        let mut moved = PageMap::open(path.clone(), false).unwrap();
        assert_eq!(
            [0, 1, 2, 3, 4].map(|page| moved.is_resident(page * PAGE).unwrap()),
            [true, true, false, false, false]
        );
        assert_eq!(moved.resident_bytes(0, 5 * PAGE).unwrap(), 2 * PAGE);
        assert_eq!(PageMap::open(path, true).unwrap().resident_bytes(0, 5 * PAGE).unwrap(), PAGE);
    }
}
