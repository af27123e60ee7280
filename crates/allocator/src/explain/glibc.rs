//! The arenas and heaps of glibc's malloc, by their chunk headers (malloc/malloc.c and malloc/arena.c of glibc 2.31 to 2.43, on 64
//! bits). Nothing is stopped, so that a heap may change while it is walked.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use heaptrial_host::{HostError, Mapping, PAGE, PageMap, ProcessMemory};

use super::tally::{Kind, Sums, Tally};
use super::window::{PAGES_IN_A_ROW, Window};

/// The usual `mmap_threshold`: larger blocks can be mappings of their own.
const LARGE: u64 = 128 << 10;
/// `HEAP_MAX_SIZE`: heaps of other arenas than the main one begin at multiples of it.
const HEAP: u64 = 64 << 20;
/// `sizeof(heap_info)` before 2.35 and from then on: an arena begins behind it.
const HEAP_INFO: [u64; 2] = [32, 48];
/// Where the bins of an arena are: behind fast bins, and from 2.43 on without those.
const BINS_AT: [u64; 2] = [BEHIND_FASTBINS, 24];
const BEHIND_FASTBINS: u64 = 112;
/// `bins` of an arena has as many words.
const BINS: u64 = 254;
/// A bin is a ring of chunks, or points to itself. So many of them are no accident.
const RINGS: u64 = 8;
const MOST_ARENAS: usize = 1 << 16;
/// From the bins of an arena to the word that links it with the next one, and to the bytes that it got from the system.
const NEXT: u64 = BINS * 8 + 16;
const SYSTEM_BYTES: u64 = NEXT + 24;
/// From the bins of an arena to its end.
const ARENA_END: u64 = SYSTEM_BYTES + 16;
/// Before the bins: the last remainder, and the chunk at the end.
const TOP: u64 = 16;
const FASTBINS: u64 = 10;
const SMALLEST: u64 = 32;
const FENCE: u64 = 16;
/// A free chunk's header with all its links.
const NOTES: u64 = 48;
/// Bits of a size: whether the chunk before is in use, and whether the chunk is a mapping of its own.
const PREVIOUS_IN_USE: u64 = 1;
const MAPPED: u64 = 2;
const FLAGS: u64 = 7;
/// Where the first chunk may be, from where it is looked for.
const FIRST_WITHIN: u64 = 64 << 10;
/// Chunks of a list that are followed.
const LONGEST_LIST: usize = 1 << 18;
/// Where so much was followed from a chunk, other first chunks lead to the same ones or nowhere.
const FOLLOWED_BYTES: u64 = 1 << 20;
/// More chunks than these are no caches of threads.
const MOST_CACHES: usize = 1 << 16;

/// Bins of a thread's cache for one size each; those after them are for larger ones.
const SMALL_BINS: u64 = 64;

/// How the cache of a thread is laid out: its size as a chunk, and how many counts of two bytes and then lists it has.
struct CacheLayout {
    chunk: u64,
    bins: u64,
}

/// glibc 2.30 to 2.41, and from 2.42 on, with bins of large sizes.
const CACHES: [CacheLayout; 2] =
    [CacheLayout { chunk: 0x290, bins: SMALL_BINS }, CacheLayout { chunk: 0x300, bins: 76 }];

/// Bytes of free blocks that look like blocks in use, by their arena; `None` is the main one.
type Cached = BTreeMap<Option<u64>, u64>;

impl CacheLayout {
    /// Where a cache has the first block of a bin.
    fn list(&self, cache: u64, bin: u64) -> u64 {
        cache + 16 + self.bins * 2 + 8 * bin
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Arena {
    pub(super) sums: Sums,
    /// Free bytes of its end, resident.
    pub(super) top: u64,
    /// Whole free pages of large free blocks elsewhere, resident.
    pub(super) large: u64,
    pub(super) cached: u64,
    pub(super) parsed: u64,
    pub(super) not_parsed: u64,
}

/// What is found of the arenas, and of blocks that are mappings of their own.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    pub(super) arenas: BTreeMap<u64, Arena>,
    pub(super) mapped: u64,
    pub(super) mapped_blocks: u64,
}

pub(super) struct Walker<'m> {
    window: Window<'m>,
    pages: PageMap,
    mappings: &'m [Mapping],
    data: Vec<(u64, u64)>,
    /// Whether links of lists of free chunks are mixed with their addresses, as from 2.32 on.
    mixed_links: bool,
    /// For lists, whose chunks lie anywhere.
    links: Window<'m>,
    caches: Vec<u64>,
    /// Bytes and number of blocks that are mappings of their own. To find them all anonymous memory is read, so that it is done once.
    mapped: Option<(u64, u64)>,
}

struct Heap {
    start: u64,
    end: u64,
    arena: u64,
}

impl<'m> Walker<'m> {
    pub(super) fn new(
        memory: &'m ProcessMemory,
        pages: PageMap,
        mappings: &'m [Mapping],
        data: Vec<(u64, u64)>,
        mixed_links: bool,
    ) -> Self {
        Self {
            window: Window::new(memory, PAGES_IN_A_ROW),
            links: Window::new(memory, 1),
            pages,
            mappings,
            data,
            mixed_links,
            caches: Vec::new(),
            mapped: None,
        }
    }

    pub(super) fn read(&mut self) -> Result<Found, HostError> {
        self.window.refresh();
        self.links.refresh();
        self.pages.refresh();
        self.caches.clear();
        let mut found = Found::default();
        let heaps = self.heaps()?;
        let Some((main, bins_at)) = self.main(&heaps)? else { return Ok(found) };
        let arena = self.main_arena(main + bins_at)?;
        found.arenas.insert(main, arena);
        for heap in &heaps {
            let part = self.heap(heap, heap.arena + bins_at)?;
            *found.arenas.entry(heap.arena).or_default() += part;
        }
        let mut cached = BTreeMap::new();
        for arena in found.arenas.keys().filter(|_| bins_at == BEHIND_FASTBINS) {
            self.fast_bins(arena + bins_at, &heaps, &mut cached)?;
        }
        for cache in std::mem::take(&mut self.caches) {
            for (first, sizes) in self.lists_of(cache)? {
                self.follow(first, &sizes, &heaps, &mut cached)?;
            }
        }
        for (arena, bytes) in cached {
            let Some(arena) = found.arenas.get_mut(&arena.unwrap_or(main)) else { continue };
            let bytes = bytes.min(arena.sums.in_use);
            arena.sums.in_use -= bytes;
            arena.sums.free_in_pages += bytes;
            arena.cached += bytes;
        }
        let mapped = match self.mapped {
            Some(mapped) => mapped,
            None => self.mapped_blocks(&heaps)?,
        };
        self.mapped = Some(mapped);
        (found.mapped, found.mapped_blocks) = mapped;
        Ok(found)
    }

    fn word(&mut self, address: u64) -> Result<Option<u64>, HostError> {
        self.window.word(&mut self.pages, address)
    }

    fn link(&mut self, address: u64) -> Result<Option<u64>, HostError> {
        self.links.word(&mut self.pages, address)
    }

    /// The main arena, which is a variable, and where the bins of an arena are.
    fn main(&mut self, heaps: &[Heap]) -> Result<Option<(u64, u64)>, HostError> {
        for bins_at in BINS_AT {
            if let Some(heap) = heaps.first() {
                let ring = self.ring(heap.arena, bins_at)?;
                if let Some(main) = ring.into_iter().find(|arena| arena % HEAP > HEAP_INFO[1]) {
                    return Ok(Some((main, bins_at)));
                }
                continue;
            }
            for (start, end) in self.data.clone() {
                for arena in (start..end.saturating_sub(bins_at + ARENA_END)).step_by(8) {
                    if self.word(arena + bins_at + NEXT)? == Some(arena) && self.are_bins(arena + bins_at)? {
                        return Ok(Some((arena, bins_at)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Arenas are linked in a ring: all of them, if their bins are there.
    fn ring(&mut self, first: u64, bins_at: u64) -> Result<Vec<u64>, HostError> {
        let mut arenas = vec![first];
        while arenas.len() < MOST_ARENAS {
            match self.word(arenas[arenas.len() - 1].wrapping_add(bins_at + NEXT))? {
                Some(next) if next == first => return Ok(arenas),
                Some(next) if next % 8 == 0 => arenas.push(next),
                _ => break,
            }
        }
        Ok(Vec::new())
    }

    fn are_bins(&mut self, bins: u64) -> Result<bool, HostError> {
        let mut rings = 0;
        for pair in (0..BINS).step_by(2) {
            let own = bins + pair * 8 - TOP;
            let (Some(first), Some(last)) = (self.word(own + 16)?, self.word(own + 24)?) else { continue };
            let back = (self.link(first.wrapping_add(24))?, self.link(last.wrapping_add(16))?);
            rings += u64::from(back == (Some(own), Some(own)));
            if rings == RINGS {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The main arena's heap, which the program's break bounds.
    fn main_arena(&mut self, bins: u64) -> Result<Arena, HostError> {
        let Some(top) = self.word(bins - TOP)? else { return Ok(Arena::default()) };
        let Some(mapping) = self.mappings.iter().find(|mapping| mapping.start <= top && top < mapping.end)
        else {
            return Ok(Arena::default());
        };
        let (start, mapping_end) = (mapping.start, mapping.end);
        let Some(size) = self.word(top + 8)? else { return Ok(Arena::default()) };
        let end = (top + (size & !FLAGS)).min(mapping_end);
        let from_system = self.word(bins + SYSTEM_BYTES)?.map(|bytes| end.wrapping_sub(bytes));
        let by_size = from_system.filter(|first| (start..end).contains(first) && first % 16 == 0);
        // A program that is linked statically has its thread's data before the first chunk.
        let searched = (start..end.min(start + FIRST_WITHIN)).step_by(16);
        self.best(by_size.into_iter().chain(searched), start, end, Some(top))
    }

    /// The heaps of other arenas.
    fn heaps(&mut self) -> Result<Vec<Heap>, HostError> {
        let mut heaps = Vec::new();
        for (start, end) in self.anonymous().collect::<Vec<_>>() {
            for at in (start.next_multiple_of(HEAP)..end).step_by(HEAP as usize) {
                if let Some((arena, size)) = self.heap_at(at)? {
                    heaps.push(Heap { start: at, end: end.min(at + size), arena });
                }
            }
        }
        Ok(heaps)
    }

    /// Writable memory of no file, and not the program's break.
    fn anonymous(&self) -> impl Iterator<Item = (u64, u64)> + 'm {
        let mappings = self.mappings.iter().filter(|mapping| {
            mapping.permissions == *b"rw-p" && (mapping.name.is_empty() || mapping.name.starts_with("[anon:"))
        });
        mappings.map(|mapping| (mapping.start, mapping.end))
    }

    /// The arena of a heap that begins here, and how many bytes of it are in use.
    fn heap_at(&mut self, at: u64) -> Result<Option<(u64, u64)>, HostError> {
        let [Some(arena), Some(previous), Some(size), Some(most)] =
            [self.word(at)?, self.word(at + 8)?, self.word(at + 16)?, self.word(at + 24)?]
        else {
            return Ok(None);
        };
        let first = arena / HEAP * HEAP;
        let is_heap = HEAP_INFO.contains(&(arena - first))
            && (PAGE..=HEAP).contains(&size)
            && (size..=HEAP).contains(&most)
            && size % PAGE == 0
            && previous % HEAP == 0
            // The first heap of the arena says the same.
            && self.word(first)? == Some(arena);
        Ok(is_heap.then_some((arena, size)))
    }

    fn heap(&mut self, heap: &Heap, bins: u64) -> Result<Arena, HostError> {
        let top = self.word(bins - TOP)?;
        let is_first = heap.arena / HEAP * HEAP == heap.start;
        let notes_end = if is_first { bins + ARENA_END } else { heap.start + HEAP_INFO[0] };
        let first = notes_end.next_multiple_of(16);
        self.best((first..first + 256).step_by(16), heap.start, heap.end, top)
    }

    /// What the chunks from one of these places on are: the first from where most of the heap can be followed. It may change while it is
    /// read, so that not all of it can.
    fn best(
        &mut self,
        firsts: impl Iterator<Item = u64>,
        start: u64,
        end: u64,
        top: Option<u64>,
    ) -> Result<Arena, HostError> {
        let mut best = Arena::default();
        for first in firsts {
            let (arena, caches, followed) = self.count(start, first, end, top)?;
            if arena.parsed >= arena.not_parsed || followed >= FOLLOWED_BYTES {
                self.caches.extend(caches);
                return Ok(arena);
            }
            if arena.parsed + arena.not_parsed > best.parsed + best.not_parsed {
                best = arena;
            }
        }
        Ok(best)
    }

    /// Counts what the pages of a heap hold, from its start with the allocator's own notes to its end, and finds what may be caches.
    /// The last figure is how far its chunks could be followed.
    fn count(
        &mut self,
        start: u64,
        first: u64,
        end: u64,
        top: Option<u64>,
    ) -> Result<(Arena, Vec<u64>, u64), HostError> {
        let mut tally = Tally::default();
        let mut arena = Arena::default();
        let mut caches = Vec::new();
        tally.add(&mut self.pages, start, first, Kind::Used)?;
        let mut at = first;
        let mut field = self.word(at + 8)?;
        while let Some(own) = field {
            let size = own & !FLAGS;
            if Some(at) == top {
                tally.add(&mut self.pages, at, end.min(at + NOTES), Kind::Note)?;
                tally.add(&mut self.pages, at + NOTES, end, Kind::Free)?;
                arena.top = self.pages.resident_bytes((at + NOTES).next_multiple_of(PAGE), end)?;
                at = end;
                break;
            }
            if size == FENCE && end - at <= PAGE {
                tally.add(&mut self.pages, at, end, Kind::Used)?;
                at = end;
                break;
            }
            let next = at.wrapping_add(size);
            if size < SMALLEST || size % 16 != 0 || next <= at || next + 16 > end {
                break;
            }
            field = self.word(next + 8)?;
            let Some(after) = field else { break };
            if after & PREVIOUS_IN_USE == 0 {
                tally.add(&mut self.pages, at, next.min(at + NOTES), Kind::Note)?;
                tally.add(&mut self.pages, next.min(at + NOTES), next, Kind::Free)?;
                if size >= LARGE {
                    let (first, end) = ((at + NOTES).next_multiple_of(PAGE), next / PAGE * PAGE);
                    arena.large += self.pages.resident_bytes(first, end)?;
                }
            } else {
                tally.add(&mut self.pages, at, next, Kind::Used)?;
                if caches.len() < MOST_CACHES && self.may_be_cache(at, size)? {
                    caches.push(at);
                }
            }
            at = next;
        }
        arena.sums = tally.finish(&mut self.pages)?;
        arena.parsed = self.pages.resident_bytes(start, at)?;
        arena.not_parsed =
            if at < end { self.pages.resident_bytes(at.next_multiple_of(PAGE), end)?.max(1) } else { 0 };
        Ok((arena, caches, at - first))
    }

    /// Blocks that are mappings of their own. The kernel joins mappings, so that one may hold several, and something else between them.
    fn mapped_blocks(&mut self, heaps: &[Heap]) -> Result<(u64, u64), HostError> {
        let (mut bytes, mut blocks) = (0, 0);
        for (start, end) in self.anonymous().collect::<Vec<_>>() {
            let mut at = start;
            while at < end {
                if heaps.binary_search_by_key(&at, |heap| heap.start).is_ok() {
                    at += HEAP;
                    continue;
                }
                let (before, field) = (self.word(at)?, self.word(at + 8)?);
                let size = field
                    .filter(|field| before == Some(0) && field & FLAGS == MAPPED)
                    .map(|field| field & !FLAGS);
                let Some(size) = size.filter(|size| *size > 0 && size % PAGE == 0 && *size <= end - at)
                else {
                    at += PAGE;
                    continue;
                };
                bytes += self.pages.resident_bytes(at, at + size)?;
                blocks += 1;
                at += size;
            }
        }
        Ok((bytes, blocks))
    }

    /// The lists of small free chunks that an arena keeps as if they were in use.
    fn fast_bins(&mut self, bins: u64, heaps: &[Heap], cached: &mut Cached) -> Result<(), HostError> {
        for list in 0..FASTBINS {
            let Some(first) = self.link(bins - TOP - 8 * (FASTBINS - list))? else { continue };
            let size = SMALLEST + 16 * list;
            self.follow(first.wrapping_add(16), &(size..=size), heaps, cached)?;
        }
        Ok(())
    }

    /// Follows a list of free blocks of these sizes from the address of the first block's memory. One that leads back into itself is none.
    fn follow(
        &mut self,
        first: u64,
        sizes: &RangeInclusive<u64>,
        heaps: &[Heap],
        cached: &mut Cached,
    ) -> Result<(), HostError> {
        let mut own = Cached::new();
        let (mut at, mut seen) = (first, 0);
        for step in 1..=LONGEST_LIST {
            let Some(size) = self.size_of_block(at)?.filter(|size| sizes.contains(size)) else { break };
            let Some(link) = self.link(at)? else { break };
            let heap = heaps.binary_search_by_key(&(at / HEAP * HEAP), |heap| heap.start);
            *own.entry(heap.ok().map(|index| heaps[index].arena)).or_default() += size;
            at = if self.mixed_links { link ^ (at >> 12) } else { link };
            if at == seen {
                return Ok(());
            }
            if step.is_power_of_two() {
                seen = at;
            }
        }
        own.into_iter().for_each(|(arena, bytes)| *cached.entry(arena).or_default() += bytes);
        Ok(())
    }

    /// The size of the chunk whose memory begins at an address, if one may.
    fn size_of_block(&mut self, at: u64) -> Result<Option<u64>, HostError> {
        if at < PAGE || at % 16 != 0 {
            return Ok(None);
        }
        Ok(self.link(at - 8)?.map(|field| field & !FLAGS))
    }

    /// Whether a chunk of this size may be the cache of a thread: each of its words leads to a block or nowhere, and one to a block.
    fn may_be_cache(&mut self, at: u64, size: u64) -> Result<bool, HostError> {
        let Some(layout) = CACHES.iter().find(|layout| layout.chunk == size) else { return Ok(false) };
        let mut has_blocks = false;
        for bin in 0..layout.bins {
            match self.word(layout.list(at, bin))? {
                Some(0) => {}
                Some(block) if block >= PAGE && block % 16 == 0 => has_blocks = true,
                _ => return Ok(false),
            }
        }
        Ok(has_blocks)
    }

    /// The lists of a thread's cache with the sizes of their blocks; none where it is an object of the same size, whose words lead to
    /// other blocks or to none.
    fn lists_of(&mut self, cache: u64) -> Result<Vec<(u64, RangeInclusive<u64>)>, HostError> {
        let size = self.link(cache + 8)?.map(|field| field & !FLAGS);
        let Some(layout) = CACHES.iter().find(|layout| Some(layout.chunk) == size) else {
            return Ok(Vec::new());
        };
        let mut lists = Vec::new();
        for bin in 0..layout.bins {
            let first = self.link(layout.list(cache, bin))?;
            let Some(first) = first.filter(|first| *first != 0) else { continue };
            let smallest = SMALLEST + 16 * bin;
            let sizes =
                if bin < SMALL_BINS { smallest..=smallest } else { SMALLEST + 16 * SMALL_BINS..=HEAP };
            if !self.size_of_block(first)?.is_some_and(|size| sizes.contains(&size)) {
                return Ok(Vec::new());
            }
            lists.push((first, sizes));
        }
        Ok(lists)
    }
}

impl std::ops::AddAssign for Arena {
    fn add_assign(&mut self, other: Self) {
        self.sums += other.sums;
        self.top += other.top;
        self.large += other.large;
        self.cached += other.cached;
        self.parsed += other.parsed;
        self.not_parsed += other.not_parsed;
    }
}
