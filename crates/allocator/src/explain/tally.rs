//! What the pages of a heap hold, counted chunk by chunk in the order of addresses.

use heaptrial_host::{HostError, PAGE, PageMap};

/// Bytes of memory that is resident, by what it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) in_use: u64,
    pub(super) free_in_pages: u64,
    pub(super) kept_free: u64,
}

/// What a range of addresses is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Used,
    Free,
    /// Free, but its page cannot be given back: the allocator's own notes of a free chunk.
    Note,
}

#[derive(Default)]
pub(super) struct Tally {
    sums: Sums,
    page: Option<u64>,
    used: u64,
    free: u64,
    keeps_page: bool,
}

impl Tally {
    pub(super) fn add(
        &mut self,
        pages: &mut PageMap,
        start: u64,
        end: u64,
        kind: Kind,
    ) -> Result<(), HostError> {
        let mut at = start;
        while at < end {
            let page = at / PAGE * PAGE;
            if self.page != Some(page) {
                self.close_page(pages)?;
            }
            let whole_end = end / PAGE * PAGE;
            if at == page && whole_end > at {
                let resident = pages.resident_bytes(at, whole_end)?;
                match kind {
                    Kind::Used => self.sums.in_use += resident,
                    Kind::Free => self.sums.kept_free += resident,
                    Kind::Note => self.sums.free_in_pages += resident,
                }
                at = whole_end;
                continue;
            }
            let to = end.min(page + PAGE);
            match kind {
                Kind::Used => self.used += to - at,
                Kind::Free | Kind::Note => self.free += to - at,
            }
            self.keeps_page |= kind != Kind::Free;
            self.page = Some(page);
            at = to;
        }
        Ok(())
    }

    fn close_page(&mut self, pages: &mut PageMap) -> Result<(), HostError> {
        let (used, free) = (std::mem::take(&mut self.used), std::mem::take(&mut self.free));
        let keeps_page = std::mem::take(&mut self.keeps_page);
        let Some(page) = self.page.take() else { return Ok(()) };
        match pages.is_resident(page)? {
            true if keeps_page => {
                self.sums.in_use += used;
                self.sums.free_in_pages += free;
            }
            true => self.sums.kept_free += free,
            false => {}
        }
        Ok(())
    }

    pub(super) fn finish(mut self, pages: &mut PageMap) -> Result<Sums, HostError> {
        self.close_page(pages)?;
        Ok(self.sums)
    }
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.in_use += other.in_use;
        self.free_in_pages += other.free_in_pages;
        self.kept_free += other.kept_free;
    }
}
