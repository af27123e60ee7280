//! What decides whether a library can be preloaded into a program.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

use heaptrial_model::Version;
use object::elf;
use object::read::elf::ProgramHeader as _;

use super::{Elf, ElfError, ElfFile, MOST_NEEDED_FILES, u16_at, u32_at};
use crate::file_key::FileKey;
use crate::identify::{CarriedAllocator, carried_allocators};

/// What a program or library is, as far as it bears on preloading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFacts {
    /// Whether it is linked against nothing, so that no dynamic loader takes part.
    pub is_static: bool,
    /// The dynamic loader it names, as programs do (`PT_INTERP`).
    pub interpreter: Option<String>,
    /// Names of the files it needs.
    pub needed: Vec<String>,
    /// The newest glibc whose symbols it needs.
    pub needed_glibc: Option<Version>,
    /// The newest glibc whose symbols it has: the version of a C library.
    pub defined_glibc: Option<Version>,
    /// Whether it defines `malloc` for others.
    pub exports_malloc: bool,
    /// Allocators whose code or marks are in the file itself.
    pub carried: Vec<CarriedAllocator>,
    /// Whether the loader has to write to its code (`DT_TEXTREL`).
    pub text_relocations: bool,
    /// Whether it wants a stack that code can run on (`PT_GNU_STACK`, or none).
    pub executable_stack: bool,
}

/// Reads what bears on preloading of an ELF file of this machine. Reads a program's constants, 24 MiB at most.
pub fn examine_object(path: &Path) -> Result<ObjectFacts, ElfError> {
    let file = ElfFile::open(path)?;
    let elf = Elf::parse(&file)?;
    let is_program = elf.has_interpreter() || elf.is_static();
    Ok(ObjectFacts {
        is_static: elf.is_static(),
        interpreter: elf.interpreter(),
        needed: elf.needed(),
        needed_glibc: elf.needed_glibc(),
        defined_glibc: elf.defined_glibc(),
        exports_malloc: elf.exported("malloc").is_some(),
        carried: if is_program { carried_allocators(&elf) } else { Vec::new() },
        text_relocations: elf.has_text_relocations(),
        executable_stack: elf.wants_executable_stack(),
    })
}

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

    fn has_text_relocations(&self) -> bool {
        self.tag(elf::DT_TEXTREL).is_some()
            || self.tag(elf::DT_FLAGS).is_some_and(|flags| flags & u64::from(elf::DF_TEXTREL) != 0)
    }

    fn wants_executable_stack(&self) -> bool {
        let stack = self.segments.iter().find(|segment| segment.p_type(self.endian) == elf::PT_GNU_STACK);
        stack.is_none_or(|segment| segment.p_flags(self.endian) & elf::PF_X != 0)
    }

    /// The newest `GLIBC_` version of the symbols it defines.
    fn defined_glibc(&self) -> Option<Version> {
        let bytes = self.at_address(self.tag(elf::DT_VERDEF)?, 64 * 1024)?;
        let count = self.tag(elf::DT_VERDEFNUM)?;
        let mut newest: Option<Version> = None;
        let mut entry = 0_usize;
        for _ in 0..count.min(MOST_NEEDED_FILES) {
            // The first name of an entry is its own; further ones are its parents.
            if u16_at(bytes, entry + 6, self.endian)? > 0 {
                let auxiliary = entry.checked_add(u32_at(bytes, entry + 12, self.endian)? as usize)?;
                let name = self.string(u64::from(u32_at(bytes, auxiliary, self.endian)?))?;
                if let Some(version) =
                    name.strip_prefix("GLIBC_").filter(|text| text.starts_with(|c: char| c.is_ascii_digit()))
                {
                    newest = newest.max(Some(Version::new(version)));
                }
            }
            match u32_at(bytes, entry + 16, self.endian)? as usize {
                0 => break,
                next => entry = entry.checked_add(next)?,
            }
        }
        newest
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::c_library::host_glibc;

    #[test]
    fn this_program_is_dynamic_and_carries_no_allocator() {
        let facts = examine_object(&std::env::current_exe().unwrap()).unwrap();
        assert!(!facts.is_static && !facts.exports_malloc && !facts.text_relocations);
        assert!(!facts.executable_stack);
        assert!(facts.interpreter.unwrap().contains("/ld-linux"));
        assert_eq!(facts.defined_glibc, None);
    }

    #[test]
    fn a_c_library_tells_its_own_version() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path: PathBuf = maps
            .lines()
            .find_map(|line| line.split(' ').next_back().filter(|p| p.contains("/libc.so")))
            .unwrap()
            .into();
        let facts = examine_object(&path).unwrap();
        assert!(facts.exports_malloc);
        let (defined, host) = (facts.defined_glibc.unwrap(), host_glibc());
        // A release may add no symbol of its own.
        assert!(defined <= host && defined >= Version::new("2.30"), "{defined} {host}");
    }
}
