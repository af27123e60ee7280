//! Allocators inside the program's own file: statically linked programs, and programs that carry
//! an allocator under other names beside the C library's.

use std::path::PathBuf;

use heaptrial_model::{Identity, Linkage};
use serde::Serialize;

use super::markers::{Constants, SEARCH_LIMIT_BYTES};
use super::objects::MappedObject;
use super::version;
use crate::catalog::Catalog;
use crate::elf::Elf;

/// Heaps of languages, by a function that the file with the language exports.
const LANGUAGES: [(&str, &str); 3] = [
    ("JNI_CreateJavaVM", "Java's heap"),
    ("node_module_register", "V8's heap"),
    ("PyObject_Malloc", "Python's arenas"),
];

/// An allocator of a process beside the one that serves `malloc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OtherAllocator {
    pub name: String,
    pub object: String,
}

/// An allocator whose code or marks are in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedAllocator {
    pub family: String,
    pub evidence: String,
    mi_version: Option<u64>,
}

/// Families whose code or marks are in a program's file.
pub(crate) fn carried_allocators(elf: &Elf<'_>) -> Vec<CarriedAllocator> {
    carried(elf, &Constants::of(elf))
}

/// Allocators in a mapped file that does not serve `malloc`.
pub(super) fn others_in(object: &MappedObject<'_>) -> Vec<OtherAllocator> {
    let found = carried(&object.elf, &Constants::of(&object.elf)).into_iter();
    let families = found.map(|carried| carried.family);
    let languages = LANGUAGES.iter().filter(|(function, _)| object.elf.exported(function).is_some());
    let names = families.chain(languages.map(|(_, name)| (*name).to_owned()));
    names.map(|name| OtherAllocator { name, object: object.name.clone() }).collect()
}

pub(super) fn examine_static(program: &MappedObject<'_>, findings: &mut Identity) {
    findings.evidence.push(format!("{} is linked statically", program.name));
    findings.linkage = Linkage::Static;
    describe(program, findings);
}

/// The allocator whose marks the program's file has, and no other's.
pub(super) fn describe(program: &MappedObject<'_>, findings: &mut Identity) {
    findings.path = Some(PathBuf::from(&program.name));
    findings.build_id = program.elf.build_id();
    let constants = Constants::of(&program.elf);
    let found = carried(&program.elf, &constants);
    match found.as_slice() {
        [only] => {
            findings.evidence.push(only.evidence.clone());
            findings.family.clone_from(&only.family);
            // A static program seldom holds glibc's banner.
            let family = Catalog::builtin().family(&only.family).filter(|family| !family.is_c_library);
            if let Some(family) = family {
                version::find(family, &program.elf, only.mi_version, findings);
            }
        }
        several => {
            findings.evidence.extend(several.iter().map(|carried| carried.evidence.clone()));
            let what = if several.is_empty() {
                "no mark of a known allocator"
            } else {
                "marks of several allocators"
            };
            findings.evidence.push(format!("{what} in its functions and constants"));
        }
    }
    if !constants.complete {
        findings
            .evidence
            .push(format!("only the first {} MiB of its constants were searched", SEARCH_LIMIT_BYTES >> 20));
    }
}

/// What a dynamically linked program has beside the `malloc` that it is bound to.
pub(super) fn note_carried(program: &MappedObject<'_>, findings: &mut Identity) {
    let own = carried(&program.elf, &Constants::of(&program.elf));
    findings.evidence.extend(own.iter().map(|carried| carried.evidence.clone()));
    findings.carried = own.into_iter().next().map(|carried| carried.family);
}

fn carried(elf: &Elf<'_>, constants: &Constants<'_>) -> Vec<CarriedAllocator> {
    let mut found: Vec<CarriedAllocator> = Vec::new();
    let mut mi_version = None;
    let mut add = |name: &str, evidence: String| {
        if !found.iter().any(|carried| carried.family == name) {
            found.push(CarriedAllocator { family: name.to_owned(), evidence, mi_version: None });
        }
    };
    // A dynamically linked program may export what is the C library's.
    let families = || Catalog::builtin().families().filter(|family| !family.is_c_library);
    let functions = || families().flat_map(|family| family.functions().map(move |name| (name, &family.name)));
    elf.symbol_table(|name, address| {
        if name == b"mi_version" {
            mi_version = Some(address);
        }
        if let Some((function, family)) = functions().find(|(function, _)| function.as_bytes() == name) {
            add(family, format!("the program has the function {function}"));
        }
    });
    for (function, family) in functions() {
        if elf.exported(function).is_some() {
            add(family, format!("the program exports the function {function}"));
        }
    }
    mi_version = mi_version.or_else(|| elf.exported("mi_version"));
    if let Some(version) = constants.jemalloc_version() {
        add("jemalloc", format!("the program holds the version text of jemalloc {version}"));
    }
    if let Some(range) = constants.mimalloc_range() {
        add("mimalloc", format!("the program holds the option names of mimalloc {range}"));
    }
    if is_go(constants) {
        add("go", "the program holds the build information of Go".to_owned());
    }
    if elf.is_static() && constants.has_glibc_malloc() {
        add("glibc", "the program holds the messages of glibc's malloc".to_owned());
    }
    // CPython 3.13 and later carries mimalloc for objects alone. Like its pymalloc, it does not stand in for `malloc`.
    let is_python = || constants.find("PYTHONMALLOC").is_some();
    found.retain(|carried| carried.family != "mimalloc" || !is_python());
    for carried in &mut found {
        carried.mi_version = mi_version;
    }
    found
}

/// Go's linker writes its version after a mark, which programs that read such files hold as well; see Go's debug/buildinfo.
fn is_go(constants: &Constants<'_>) -> bool {
    let found = constants.find(" Go buildinf:");
    found.and_then(|bytes| bytes.get(32..34)).is_some_and(|version| version == b"go")
}
