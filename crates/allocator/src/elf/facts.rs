//! What decides whether a library can be preloaded into a program.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use heaptrial_model::Version;
use object::read::elf::ProgramHeader as _;

use super::{Elf, ElfError, ElfFile, damaged};
use crate::catalog::{Catalog, Family};
use crate::identify::{CarriedAllocator, carried_allocators};

/// What a program or library is, as far as it bears on preloading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFacts {
    pub is_static: bool,
    pub interpreter: Option<String>,
    pub exports_malloc: bool,
    pub carried: Vec<CarriedAllocator>,
    /// Functions that one allocator alone has and that it calls, with that allocator's family.
    pub own_functions: Vec<(&'static str, &'static str)>,
}

/// Reads what bears on preloading of an ELF file of this machine. Reads a program's constants, 24 MiB at most.
pub fn examine_object(path: &Path) -> Result<ObjectFacts, ElfError> {
    let file = ElfFile::open(path)?;
    let elf = Elf::parse(&file)?;
    let is_program = elf.has_interpreter() || elf.is_static();
    Ok(ObjectFacts {
        is_static: elf.is_static(),
        interpreter: elf.interpreter(),
        exports_malloc: elf.exported("malloc").is_some(),
        carried: if is_program { carried_allocators(&elf) } else { Vec::new() },
        own_functions: own_functions().filter(|(function, _)| elf.requires(function)).collect(),
    })
}

/// Functions that one family alone has, with the families.
fn own_functions() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of = |family: &'static Arc<Family>| {
        family.own_functions.iter().map(|function| (function.as_str(), family.name.as_str()))
    };
    Catalog::builtin().families().flat_map(of)
}

/// Examines one file after the other, and reads only once what is asked for again.
#[derive(Debug, Default)]
pub struct Examiner {
    known: RefCell<HashMap<(u64, u64), ObjectFacts>>,
}

impl Examiner {
    pub fn examine(&self, path: &Path) -> Result<ObjectFacts, ElfError> {
        let Ok(metadata) = fs::metadata(path) else { return examine_object(path) };
        let key = (metadata.dev(), metadata.ino());
        if let Some(facts) = self.known.borrow().get(&key) {
            return Ok(facts.clone());
        }
        let facts = examine_object(path)?;
        self.known.borrow_mut().insert(key, facts.clone());
        Ok(facts)
    }
}

/// What has to be known of a shared library before it is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryFacts {
    pub build_id: Option<String>,
    pub needed_glibc: Option<Version>,
    pub needed: Vec<String>,
    pub symbol_versions: Vec<String>,
}

/// Checks that a file is a shared library of this machine and C library.
pub fn check_library(path: &Path) -> Result<LibraryFacts, ElfError> {
    let file = ElfFile::open(path)?;
    let elf = Elf::parse(&file)?;
    let unusable = |why: String| Err(ElfError::Unusable { path: path.to_owned(), why });
    if elf.is_position_dependent() {
        return unusable("is not a shared library (it is a program)".to_owned());
    }
    if elf.dynamic.is_empty() {
        return Err(damaged(path, "it has no dynamic section"));
    }
    let is_musl = |name: &str| name.starts_with("libc.musl") || name == "libc.so";
    let needed = elf.needed();
    if let Some(found) = needed.iter().find(|name| is_musl(name)) {
        return unusable(format!("is built for {found} (musl); programs of this system use glibc"));
    }
    let symbol_versions = elf.needed_versions().unwrap_or_default();
    let needed_glibc = symbol_versions.iter().filter_map(|version| glibc_version(version)).max();
    Ok(LibraryFacts { build_id: elf.build_id(), needed_glibc, needed, symbol_versions })
}

fn glibc_version(name: &str) -> Option<Version> {
    // Packed relocations, which older loaders cannot read.
    if name == "GLIBC_ABI_DT_RELR" {
        return Some(Version::new("2.36"));
    }
    let number = name.strip_prefix("GLIBC_")?;
    number.starts_with(|c: char| c.is_ascii_digit()).then(|| Version::new(number))
}

impl Elf<'_> {
    fn interpreter(&self) -> Option<String> {
        let name =
            self.segments.iter().find_map(|segment| segment.interpreter(self.endian, self.data).ok()?);
        super::text(name?)
    }
}
