//! Dynamic symbols by name, through the hash tables that the dynamic loader uses: GNU's (`DT_GNU_HASH`), and that of System V
//! (`DT_HASH`), which alone is in files that were linked with `--hash-style=sysv`.

use object::elf;
use object::read::elf::Sym as _;

use super::{Elf, u32_at, u64_at};

/// More symbols than these are in no chain.
const LONGEST_CHAIN: u32 = 1 << 16;

impl Elf<'_> {
    /// Index of a symbol that the hash table covers: all that are defined.
    pub(super) fn hashed_index(&self, name: &str) -> Option<u32> {
        match self.tag(elf::DT_GNU_HASH) {
            Some(_) => self.gnu_hash_find(name),
            None => self.hash_find(name),
        }
    }

    /// Buckets and symbols of the table of System V.
    fn hash_header(&self) -> Option<(u32, u32)> {
        let bytes = self.at_address(self.tag(elf::DT_HASH)?, 8)?;
        Some((u32_at(bytes, 0, self.endian)?, u32_at(bytes, 4, self.endian)?))
    }

    fn hash_find(&self, name: &str) -> Option<u32> {
        let (buckets, symbols) = self.hash_header()?;
        let buckets_at = self.tag(elf::DT_HASH)?.checked_add(8)?;
        let word = |index: u64| {
            let bytes = self.at_address(buckets_at.checked_add(index * 4)?, 4)?;
            u32_at(bytes, 0, self.endian)
        };
        let mut index = word(u64::from(elf::hash(name.as_bytes()).checked_rem(buckets)?))?;
        // A damaged chain may be a ring; a whole one is a few symbols long.
        for _ in 0..symbols.min(LONGEST_CHAIN) {
            if index == 0 || index >= symbols {
                return None;
            }
            let symbol = self.dynamic_symbol(index)?;
            if self.string(u64::from(symbol.st_name(self.endian))).as_deref() == Some(name) {
                return Some(index);
            }
            index = word(u64::from(buckets) + u64::from(index))?;
        }
        None
    }

    /// Buckets, first covered symbol, words of the filter, shift.
    fn gnu_hash_header(&self) -> Option<(u32, u32, u32, u32)> {
        let bytes = self.at_address(self.tag(elf::DT_GNU_HASH)?, 16)?;
        let word = |index: usize| u32_at(bytes, index * 4, self.endian);
        Some((word(0)?, word(1)?, word(2)?, word(3)?))
    }

    fn gnu_hash_find(&self, name: &str) -> Option<u32> {
        let (buckets, first, filter_words, shift) = self.gnu_hash_header()?;
        if buckets == 0 || filter_words == 0 {
            return None;
        }
        let hash = elf::gnu_hash(name.as_bytes());
        let table = self.tag(elf::DT_GNU_HASH)?;
        let filter_at = table + 16 + u64::from((hash / 64) % filter_words) * 8;
        let filter = self.at_address(filter_at, 8).and_then(|bytes| u64_at(bytes, self.endian))?;
        if filter >> (hash % 64) & filter >> ((hash >> (shift & 31)) % 64) & 1 == 0 {
            return None;
        }
        let buckets_at = table + 16 + u64::from(filter_words) * 8;
        let chains_at = buckets_at + u64::from(buckets) * 4;
        let word = |address| self.at_address(address, 4).and_then(|bytes| u32_at(bytes, 0, self.endian));
        let mut index = word(buckets_at + u64::from(hash % buckets) * 4)?;
        while index >= first {
            let chained = word(chains_at + u64::from(index - first) * 4)?;
            if chained | 1 == hash | 1 {
                let symbol = self.dynamic_symbol(index)?;
                if self.string(u64::from(symbol.st_name(self.endian))).as_deref() == Some(name) {
                    return Some(index);
                }
            }
            if chained & 1 == 1 {
                return None;
            }
            index += 1;
        }
        None
    }
}
