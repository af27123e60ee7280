//! What decides whether a library can be preloaded into a program.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

use object::read::elf::ProgramHeader as _;

use super::{Elf, ElfError, ElfFile};
use crate::file_key::FileKey;
use crate::identify::{CarriedAllocator, carried_allocators};

/// What a program or library is, as far as it bears on preloading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFacts {
    /// Whether it is linked against nothing, so that no dynamic loader takes part.
    pub is_static: bool,
    /// The dynamic loader it names, as programs do (`PT_INTERP`).
    pub interpreter: Option<String>,
    /// Whether it defines `malloc` for others.
    pub exports_malloc: bool,
    /// Allocators whose code or marks are in the file itself.
    pub carried: Vec<CarriedAllocator>,
    /// Functions of one allocator with which it frees or resizes blocks, and that allocator's family.
    pub frees_by: Vec<(&'static str, &'static str)>,
}

/// Reads what bears on preloading of an ELF file of this machine. Reads a program's constants, 24 MiB at most.
fn examine_object(path: &Path) -> Result<ObjectFacts, ElfError> {
    let file = ElfFile::open(path)?;
    let elf = Elf::parse(&file)?;
    let is_program = elf.has_interpreter() || elf.is_static();
    Ok(ObjectFacts {
        is_static: elf.is_static(),
        interpreter: elf.interpreter(),
        exports_malloc: elf.exported("malloc").is_some(),
        carried: if is_program { carried_allocators(&elf) } else { Vec::new() },
        frees_by: FREES.into_iter().filter(|(function, _)| elf.requires(function)).collect(),
    })
}

/// Functions that take a block of their own allocator alone: what another `malloc` gave crashes in them. A program may get blocks
/// from `malloc` and free them by these, as long as both are of one library.
const FREES: [(&str, &str); 9] = [
    ("sdallocx", "jemalloc"),
    ("dallocx", "jemalloc"),
    ("rallocx", "jemalloc"),
    ("xallocx", "jemalloc"),
    ("mi_free", "mimalloc"),
    ("mi_realloc", "mimalloc"),
    ("tc_free", "tcmalloc"),
    ("tc_free_sized", "tcmalloc"),
    ("scalable_free", "tbbmalloc"),
];

/// Examines one file after the other, and reads only once what is asked for again.
#[derive(Debug, Default)]
pub struct Examiner {
    known: RefCell<HashMap<FileKey, ObjectFacts>>,
}

impl Examiner {
    pub fn examine(&self, path: &Path) -> Result<ObjectFacts, ElfError> {
        let Ok(metadata) = fs::metadata(path) else { return examine_object(path) };
        let key = FileKey::of(&metadata);
        if let Some(facts) = self.known.borrow().get(&key) {
            return Ok(facts.clone());
        }
        let facts = examine_object(path)?;
        self.known.borrow_mut().insert(key, facts.clone());
        Ok(facts)
    }
}

impl Elf<'_> {
    fn interpreter(&self) -> Option<String> {
        let name =
            self.segments.iter().find_map(|segment| segment.interpreter(self.endian, self.data).ok()?)?;
        String::from_utf8(name.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_dynamic_and_carries_no_allocator() {
        let facts = examine_object(&std::env::current_exe().unwrap()).unwrap();
        assert!(!facts.is_static && !facts.exports_malloc && facts.frees_by.is_empty());
        assert!(facts.interpreter.unwrap().contains("/ld-linux"));
    }
}
