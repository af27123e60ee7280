//! Where the memory of a running process is: in use, free and kept, or elsewhere. It is read from outside, nothing is stopped and
//! nothing is written; what is swapped out stays so.

mod advice;
mod glibc;
mod tally;
mod window;

use heaptrial_host::{HostError, HostRoot, Mapping, PAGE, Process, ProcessTree, ServiceProcesses};
use heaptrial_model::{Identity, MemorySplit, Version};
use serde::Serialize;

pub use self::advice::Advice;
use self::glibc::{Found, Walker};
use crate::identify::{Identifier, IdentifyError, OtherAllocator, other_allocators};

/// Links of lists of free chunks are mixed with their addresses from this version of glibc on.
const MIXED_LINKS: &str = "2.32";
/// The process goes on while it is read, so that it is read as often.
const READS: usize = 3;
/// Where less was parsed, there is no split.
pub const PARSED_AT_LEAST: f64 = 0.95;

/// Where the memory of a process is, in bytes of resident memory.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    pub pid: i32,
    pub allocator: String,
    #[serde(skip)]
    pub family: String,
    pub threads: u32,
    pub rss_bytes: u64,
    pub anon_bytes: u64,
    pub swap_bytes: u64,
    pub stack_bytes: u64,
    /// Anonymous memory that is neither malloc's nor a stack; 0 where the heap could not be read.
    pub other_bytes: u64,
    #[serde(flatten)]
    pub split: Option<Split>,
    pub why_no_split: Option<String>,
    /// Allocators beside the one that serves malloc, which may hold what is other.
    pub other_allocators: Vec<OtherAllocator>,
    pub advice: Vec<Advice>,
}

/// What the heap of glibc holds: the medians of three reads.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Split {
    pub arenas: u32,
    pub in_use_bytes: u64,
    /// Whole pages that are free.
    pub kept_free_bytes: u64,
    /// Of those, at the ends of arenas.
    pub kept_at_ends_bytes: u64,
    /// Of those, elsewhere in free blocks of 128 KiB or more.
    pub kept_in_large_bytes: u64,
    /// Free bytes in pages that hold something else as well.
    pub free_in_pages_bytes: u64,
    /// Of those, in caches of threads and fast bins.
    pub cached_bytes: u64,
    /// Of `in_use_bytes`, blocks that are mappings of their own.
    pub mapped_bytes: u64,
    pub mapped_blocks: u64,
    pub parsed_share: f64,
    /// How far three reads were apart, as a share of `in_use_bytes`.
    pub spread: f64,
}

/// Reads a process whose allocator is known.
pub fn explain(process: &Process, identity: &Identity) -> Result<Explanation, IdentifyError> {
    let read = read(process, identity);
    // What is left of one that ends meanwhile is no answer.
    let ended = read.is_ok() && process.state().is_ok_and(|state| matches!(state, 'Z' | 'X'));
    let read = if ended { Err(HostError::Gone { pid: process.pid() }) } else { read };
    read.map_err(|source| IdentifyError::Host { pid: process.pid(), source })
}

/// Where the memory of a service's processes together is; `None` where the heap of one of them cannot be read.
pub fn memory_split(
    root: &HostRoot,
    processes: ServiceProcesses,
    passed: &[(String, String)],
) -> Option<MemorySplit> {
    let tree = ProcessTree::scan(root).ok()?;
    let (identifier, passed) = (Identifier::default(), || Some(passed.to_vec()));
    let mut parts = [0; 4];
    for pid in processes.running(&tree) {
        let process = Process::new(root, pid);
        let found = explain(&process, &identifier.identify(&process, &passed).ok()?).ok()?;
        let split = found.split?;
        let own = [
            split.in_use_bytes,
            split.free_in_pages_bytes,
            split.kept_free_bytes,
            found.stack_bytes + found.other_bytes,
        ];
        parts.iter_mut().zip(own).for_each(|(part, own)| *part += own);
    }
    Some(MemorySplit::from_parts(parts))
}

fn read(process: &Process, identity: &Identity) -> Result<Explanation, HostError> {
    let mappings = process.mappings()?;
    let [rss_bytes, anon_bytes, swap_bytes] = process.memory_totals()?;
    let (split, why_no_split) = match identity.family.as_str() {
        "glibc" => match split(process, identity, &mappings)? {
            split if split.parsed_share >= PARSED_AT_LEAST => (Some(split), None),
            split => {
                let swapped = if swap_bytes > 0 { ", as what is swapped out is not read" } else { "" };
                (None, Some(format!("{:.0}% of its heap could be read{swapped}", 100.0 * split.parsed_share)))
            }
        },
        "unknown" => (None, Some("its allocator is not known".to_owned())),
        family => (None, Some(format!("the heap of {family} cannot be read from outside"))),
    };
    let stack_bytes = stacks(process, &mappings)?;
    let other_bytes =
        split.as_ref().map_or(0, |split| anon_bytes.saturating_sub(split.heap_bytes() + stack_bytes));
    let mut explanation = Explanation {
        pid: process.pid(),
        allocator: identity.label(),
        family: identity.family.clone(),
        threads: process.threads()?,
        rss_bytes,
        anon_bytes,
        swap_bytes,
        stack_bytes,
        other_bytes,
        split,
        why_no_split,
        // Nothing but their names is missing where they cannot be read.
        other_allocators: other_allocators(process, identity).unwrap_or_default(),
        advice: Vec::new(),
    };
    explanation.advice = advice::advice(&explanation);
    Ok(explanation)
}

fn split(process: &Process, identity: &Identity, mappings: &[Mapping]) -> Result<Split, HostError> {
    let memory = process.memory()?;
    let mixed = identity.version.as_ref().is_none_or(|version| *version >= Version::new(MIXED_LINKS));
    let data = data_of(identity, mappings);
    let mut walker = Walker::new(&memory, process.pages()?, mappings, data, mixed);
    let mut reads = Vec::new();
    for _ in 0..READS {
        reads.push(Split::of(&walker.read()?));
    }
    reads.sort_by_key(|read| read.in_use_bytes);
    let spread = reads[READS - 1].in_use_bytes - reads[0].in_use_bytes;
    let middle = reads.swap_remove(READS / 2);
    let spread = spread as f64 / middle.in_use_bytes.max(1) as f64;
    Ok(Split { spread, ..middle })
}

/// Writable parts of the file that holds malloc, with the variables behind them.
fn data_of(identity: &Identity, mappings: &[Mapping]) -> Vec<(u64, u64)> {
    let path = identity.path.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
    let writable = |mapping: &&Mapping| mapping.permissions.starts_with(b"rw") && mapping.name == path;
    let mut data: Vec<(u64, u64)> = Vec::new();
    for mapping in mappings.iter().filter(writable) {
        data.push((mapping.start, mapping.end));
        let behind = mappings.iter().find(|next| next.start == mapping.end && next.name.is_empty());
        data.extend(behind.map(|behind| (behind.start, behind.end)));
    }
    data
}

/// Resident bytes of stacks: mappings right above a guard page, and that of the main thread.
fn stacks(process: &Process, mappings: &[Mapping]) -> Result<u64, HostError> {
    let mut pages = process.pages()?;
    let mut bytes = 0;
    for (before, mapping) in mappings.iter().zip(mappings.iter().skip(1)) {
        let guarded = before.permissions == *b"---p" && before.name.is_empty() && before.end == mapping.start;
        let small_guard = before.end - before.start <= 16 * PAGE;
        let is_thread =
            guarded && small_guard && mapping.permissions.starts_with(b"rw") && mapping.name.is_empty();
        if is_thread || mapping.name == "[stack]" {
            bytes += pages.resident_bytes(mapping.start, mapping.end)?;
        }
    }
    Ok(bytes)
}

impl Split {
    pub fn heap_bytes(&self) -> u64 {
        self.in_use_bytes + self.kept_free_bytes + self.free_in_pages_bytes
    }

    fn of(found: &Found) -> Self {
        let mut split = Self {
            arenas: found.arenas.len() as u32,
            in_use_bytes: found.mapped,
            mapped_bytes: found.mapped,
            mapped_blocks: found.mapped_blocks,
            ..Self::default()
        };
        let (mut parsed, mut not_parsed) = (found.mapped, 0);
        for arena in found.arenas.values() {
            split.in_use_bytes += arena.sums.in_use;
            split.kept_free_bytes += arena.sums.kept_free;
            split.kept_at_ends_bytes += arena.top;
            split.kept_in_large_bytes += arena.large;
            split.free_in_pages_bytes += arena.sums.free_in_pages;
            split.cached_bytes += arena.cached;
            parsed += arena.parsed;
            not_parsed += arena.not_parsed;
        }
        split.parsed_share = match parsed + not_parsed {
            0 => 0.0,
            all => parsed as f64 / all as f64,
        };
        split
    }
}
