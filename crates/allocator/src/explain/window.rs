//! Memory of a process, read page by page where it is resident: what is swapped out stays there.

use heaptrial_host::{HostError, PAGE, PageMap, ProcessMemory};

/// Pages that are read at once where one is read after the other.
pub(super) const PAGES_IN_A_ROW: u64 = 32;

pub(super) struct Window<'m> {
    memory: &'m ProcessMemory,
    pages: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<'m> Window<'m> {
    pub(super) fn new(memory: &'m ProcessMemory, pages: u64) -> Self {
        Self { memory, pages, start: 0, bytes: Vec::new() }
    }

    /// The word at an address; `None` where its page is not resident.
    pub(super) fn word(&mut self, pages: &mut PageMap, address: u64) -> Result<Option<u64>, HostError> {
        if !self.has(address) && !self.load(pages, address)? {
            return Ok(None);
        }
        let at = (address - self.start) as usize;
        let word = self.bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        Ok(word.map(u64::from_ne_bytes))
    }

    fn has(&self, address: u64) -> bool {
        address >= self.start && address - self.start < (self.bytes.len() as u64).saturating_sub(7)
    }

    fn load(&mut self, pages: &mut PageMap, address: u64) -> Result<bool, HostError> {
        let first = address / PAGE * PAGE;
        let mut end = first;
        while end < first.saturating_add(self.pages * PAGE) && pages.is_resident(end)? {
            end += PAGE;
        }
        self.bytes.clear();
        if end == first {
            return Ok(false);
        }
        self.bytes.resize((end - first) as usize, 0);
        self.start = first;
        // It may have been given back meanwhile.
        if self.memory.read_at(first, &mut self.bytes).is_err() {
            self.bytes.clear();
            return Ok(false);
        }
        Ok(true)
    }

    pub(super) fn refresh(&mut self) {
        self.bytes.clear();
    }
}
