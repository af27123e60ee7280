//! Whether an allocator reaches a program's memory: one rule for the lab, the preflight and trials.

use std::fmt;
use std::path::Path;

use heaptrial_model::{AllocatorSpec, Identity, Linkage};

use crate::catalog::Catalog;
use crate::elf::{ObjectFacts, examine_object};

/// Why an allocator does not reach a program's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreached {
    Go,
    Static,
    Musl(String),
    OwnMalloc,
    Carried(String, String),
    /// It gets or frees blocks by a function of a family, which no other may have given.
    Calls(&'static str, &'static str),
}

impl Unreached {
    /// What keeps a library of the family `preloaded`, or without one the C library with settings, from the memory of a
    /// program. `identity` is that of a process that runs it.
    pub fn of(facts: &ObjectFacts, identity: Option<&Identity>, preloaded: Option<&str>) -> Option<Self> {
        let loader = facts.interpreter.as_ref().filter(|loader| loader.contains("ld-musl"));
        let runs_own = identity.is_some_and(|identity| identity.linkage == Linkage::Static);
        let carried = facts.carried.iter().find(|carried| carried.family != "glibc");
        match (loader, carried) {
            (_, Some(carried)) if carried.family == "go" => Some(Self::Go),
            (Some(loader), _) => Some(Self::Musl(loader.clone())),
            _ if facts.is_static && preloaded.is_some() => Some(Self::Static),
            _ if facts.exports_malloc || (runs_own && !facts.is_static) => Some(Self::OwnMalloc),
            (_, Some(carried)) => Some(Self::Carried(carried.family.clone(), carried.evidence.clone())),
            _ => Self::by_calls(facts, preloaded?),
        }
    }

    /// What a program, or a library that it maps, has of this kind against a library of a family.
    pub fn by_calls(facts: &ObjectFacts, preloaded: &str) -> Option<Self> {
        let other = facts.own_functions.iter().find(|(_, family)| *family != preloaded);
        other.map(|(function, family)| Self::Calls(function, family))
    }

    /// The same of a file and what an arm asks for. What cannot be read as a program, such as a script, is left to the proof.
    pub fn of_program(program: &Path, allocator: Option<&AllocatorSpec>) -> Option<Self> {
        let family = Catalog::builtin().family(&allocator?.family)?;
        let facts = examine_object(program).ok()?;
        Self::of(&facts, None, Some(family.name.as_str()).filter(|_| !family.is_c_library))
    }

    pub fn why(&self) -> &'static str {
        match self {
            Self::Go => {
                "Go has a heap of its own and does not use `malloc` for it; a preload would reach C code in it only"
            }
            Self::Static => "it is started without a dynamic loader, so nothing can load a library into it",
            Self::Musl(_) => "no library and no setting for glibc reaches it",
            Self::OwnMalloc => {
                "the program's own `malloc` comes before any preload, which would be loaded and not used"
            }
            Self::Carried(..) => {
                "a treatment is of the C library's `malloc` and not of what the program calls by other names; which of the two holds its memory is not seen from outside"
            }
            Self::Calls(..) => {
                "its memory would stay with that allocator, or blocks of both would be mixed, and it would crash"
            }
        }
    }

    pub fn fix(&self) -> &'static str {
        match self {
            Self::Go => "leave it out; Go has GOGC and GOMEMLIMIT",
            Self::Musl(_) => "leave it out, or give a program that is built for glibc",
            Self::Static => "leave it out, or build the program with the allocator",
            Self::OwnMalloc | Self::Carried(..) => {
                "leave it out, or build the program without it; an arm that names no allocator runs it as it is"
            }
            Self::Calls(..) => {
                "leave it out, or give that allocator in another version or with other settings"
            }
        }
    }
}

/// Whether no treatment reaches a process, such as one of Go or musl. What such a helper runs says nothing about the service.
pub fn is_beyond_reach(found: &Identity) -> bool {
    found.linkage == Linkage::Static || found.family == "musl" || found.carried.is_some()
}

/// What follows the name of the program.
impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Go => f.write_str("is a Go program"),
            Self::Static => f.write_str("is linked statically"),
            Self::Musl(loader) => write!(f, "runs under musl ({loader})"),
            Self::OwnMalloc => f.write_str("has an allocator of its own"),
            Self::Carried(family, evidence) => write!(f, "carries {family}: {evidence}"),
            Self::Calls(function, family) => write!(f, "calls {function} of {family}"),
        }
    }
}
