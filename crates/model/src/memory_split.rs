//! Where the memory of a service was.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Resident anonymous memory of a service by what it holds, in bytes, as it was read from its processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySplit {
    /// Blocks that the program has not freed.
    pub in_use_bytes: u64,
    /// Free blocks in pages that hold blocks in use as well.
    pub free_in_pages_bytes: u64,
    /// Whole free pages that the allocator has not returned.
    pub kept_free_bytes: u64,
    /// Stacks, and what is not the allocator's.
    pub other_bytes: u64,
}

impl MemorySplit {
    /// Names of the observations that a database has of it, in the order of its parts.
    pub const OBSERVATIONS: [&'static str; 4] =
        ["memory_in_use", "memory_free_in_pages", "memory_kept_free", "memory_other"];

    /// Its parts, in that order.
    pub fn parts(&self) -> [u64; 4] {
        [self.in_use_bytes, self.free_in_pages_bytes, self.kept_free_bytes, self.other_bytes]
    }

    /// Of its parts, in that order.
    pub fn from_parts([in_use_bytes, free_in_pages_bytes, kept_free_bytes, other_bytes]: [u64; 4]) -> Self {
        Self { in_use_bytes, free_in_pages_bytes, kept_free_bytes, other_bytes }
    }

    /// The mean of each part; `None` of nothing.
    pub fn mean(splits: &[Self]) -> Option<Self> {
        let count = splits.len() as u64;
        let mean =
            |part: usize| splits.iter().map(|split| split.parts()[part]).sum::<u64>().checked_div(count);
        Some(Self::from_parts([mean(0)?, mean(1)?, mean(2)?, mean(3)?]))
    }
}
