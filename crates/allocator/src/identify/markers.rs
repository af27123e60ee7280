//! What marks an allocator's code: function names, and texts that only it holds.

use std::sync::Arc;

use heaptrial_model::Version;
use memchr::memmem;

use crate::catalog::{Catalog, Family};
use crate::elf::Elf;
use crate::verify::jemalloc_version;

/// Options that mimalloc's code holds as texts, with the versions that have them; see the settings
/// in the catalog.
const MIMALLOC_OPTIONS: [(&str, &str); 4] = [
    ("page_full_retain", "3.x"),
    ("arena_purge_mult", "2.1.2 to 2.3.x"),
    ("segment_decommit_delay", "2.0.x to 2.1.1"),
    ("eager_region_commit", "1.7.x"),
];

/// How much of a file's constants is searched at most.
pub(super) const SEARCH_LIMIT_BYTES: u64 = 24 << 20;

/// Constants of a file, as far as they are searched.
pub(crate) struct Constants<'d> {
    parts: Vec<&'d [u8]>,
    pub(super) complete: bool,
}

impl<'d> Constants<'d> {
    pub(crate) fn of(elf: &Elf<'d>) -> Self {
        let (parts, complete) = elf.constants(SEARCH_LIMIT_BYTES);
        Self { parts, complete }
    }

    /// The bytes from a text on.
    pub(crate) fn find(&self, text: &str) -> Option<&'d [u8]> {
        let finder = memmem::Finder::new(text.as_bytes());
        self.parts.iter().find_map(|part| finder.find(part).map(|at| &part[at..]))
    }

    /// Whether a text is there as a whole, between NUL bytes.
    pub(super) fn holds_whole(&self, text: &str) -> bool {
        let whole = [b"\0", text.as_bytes(), b"\0"].concat();
        let finder = memmem::Finder::new(&whole);
        self.parts.iter().any(|part| finder.find(part).is_some())
    }

    /// jemalloc's version, of which its build writes `5.3.0-0-g` and the commit; the number is of commits since the release.
    pub(super) fn jemalloc_version(&self) -> Option<Version> {
        let finder = memmem::Finder::new(b"-g");
        self.parts.iter().find_map(|part| {
            finder.find_iter(part).find_map(|at| {
                let commit = part.get(at + 2..at + 42)?;
                let ends = part.get(at + 42).is_none_or(|byte| *byte == 0);
                if !(ends && commit.iter().all(|byte| byte.is_ascii_hexdigit())) {
                    return None;
                }
                let start = part[..at].iter().rposition(|byte| *byte == 0).map_or(0, |at| at + 1);
                let text = std::str::from_utf8(&part[start..at]).ok()?;
                let (version, since) = text.rsplit_once('-')?;
                // As C writes them: text that other constants happen to stand before has zeros or more in front.
                let is_number =
                    |text: &str| text.parse::<u32>().is_ok_and(|number| number.to_string() == text);
                let numbers = version.split('.').all(is_number);
                (numbers && version.contains('.') && is_number(since)).then(|| jemalloc_version(text))
            })
        })
    }

    /// The range of mimalloc versions whose option names are there.
    pub(super) fn mimalloc_range(&self) -> Option<&'static str> {
        if !["eager_commit_delay", "reserve_huge_os_pages", "use_numa_nodes"].iter().all(|name| {
            // The first was renamed in later versions.
            self.holds_whole(name) || self.holds_whole(&format!("deprecated_{name}"))
        }) {
            return None;
        }
        MIMALLOC_OPTIONS.iter().find(|(name, _)| self.holds_whole(name)).map(|(_, range)| *range)
    }

    /// Whether glibc's malloc is there, by its messages: those that all versions have.
    pub(super) fn has_glibc_malloc(&self) -> bool {
        let messages = ["malloc(): corrupted top size", "free(): invalid pointer"];
        messages.iter().all(|text| self.find(text).is_some())
    }
}

/// The families whose marks a shared library has. glibc is only the C library itself.
pub(super) fn families_of_library(elf: &Elf<'_>) -> Vec<Arc<Family>> {
    let catalog = Catalog::builtin();
    let is_exported = |family: &&Arc<Family>| family.symbols.iter().any(|name| elf.exported(name).is_some());
    let by_name: Vec<_> = catalog.families().filter(is_exported).cloned().collect();
    if !by_name.is_empty() {
        return by_name;
    }
    let constants = Constants::of(elf);
    if constants.jemalloc_version().is_some() {
        return catalog.family("jemalloc").cloned().into_iter().collect();
    }
    if constants.mimalloc_range().is_some() {
        return catalog.family("mimalloc").cloned().into_iter().collect();
    }
    let by_text = |family: &&Arc<Family>| {
        !family.strings.is_empty() && family.strings.iter().all(|text| constants.find(text).is_some())
    };
    catalog.families().filter(by_text).cloned().collect()
}
