//! Which allocator a running process uses, without attaching to it.
//!
//! The mapped files are read through the process' own view of them. The object whose `malloc` comes
//! first in the dynamic loader's search order wins: the program's own file, then preloads, then
//! libraries, then the C library. Where the process' memory may be read, the resolved slots of
//! `malloc` in the mapped files prove it. What the evidence does not decide is `unknown`.

mod libraries;
mod markers;
mod objects;
mod program;
mod slots;
mod version;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use heaptrial_host::{HostError, Mapping, Process};
use heaptrial_model::{Identity, Linkage};

use crate::catalog::Catalog;
use crate::elf::ElfError;
use libraries::Packages;
pub(crate) use markers::Constants;
use objects::{MappedObject, MappedObjects};
pub(crate) use program::carried_allocators;
pub use program::{CarriedAllocator, OtherAllocator};
use slots::Bound;

#[derive(Debug, thiserror::Error)]
pub enum IdentifyError {
    #[error("cannot examine process {pid}: {source}{}", permission_hint(.source))]
    Host { pid: i32, source: HostError },
    #[error("cannot examine process {pid}: {source}")]
    Program { pid: i32, source: ElfError },
    #[error("process {pid} has no program mapped: it is a kernel thread or has ended")]
    NoProgram { pid: i32 },
}

impl IdentifyError {
    /// Whether another user may examine it.
    pub fn needs_permission(&self) -> bool {
        matches!(self, Self::Host { source, .. } if is_denied(source))
    }
}

fn is_denied(error: &HostError) -> bool {
    matches!(error, HostError::Read { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied)
}

fn permission_hint(error: &HostError) -> &'static str {
    let hint = "; run it as the process' user or as root, and outside of a container that may not trace (CAP_SYS_PTRACE)";
    if is_denied(error) { hint } else { "" }
}

/// What the evidence begins with where a program overwrote the memory of its environment.
pub(crate) const OVERWRITTEN: &str = "the memory of its environment is overwritten";

/// The family of an identity that the evidence does not decide.
pub(crate) const UNKNOWN: &str = "unknown";

pub fn identify(process: &Process) -> Result<Identity, IdentifyError> {
    Identifier::default().identify(process, &|| None)
}

/// Variables that a service was started with; `None` where nothing is known of them. They count, and are asked for, only where
/// the program overwrote the memory of its environment, as programs do that set their title. The evidence then says so.
pub type PassedVariables<'a> = &'a dyn Fn() -> Option<Vec<(String, String)>>;

/// Identifies processes, and looks up the packages of what several of them map only once.
#[derive(Debug, Default)]
pub struct Identifier {
    packages: Packages,
}

/// Allocators of a process alongside the one that serves `malloc`: in libraries and in the program, and heaps of languages.
/// A treatment does not reach what they hold.
pub fn other_allocators(
    process: &Process,
    identity: &Identity,
) -> Result<Vec<OtherAllocator>, IdentifyError> {
    let pid = process.pid();
    let mappings = process.mappings().map_err(|source| IdentifyError::Host { pid, source })?;
    let mut others = Vec::new();
    MappedObjects::open(process, &mappings).each(|object| {
        let serves_malloc = identity.path.as_deref() == Some(Path::new(&object.name));
        if !serves_malloc && !object.is_c_library() && !object.is_loader() {
            others.extend(program::others_in(object));
        }
    });
    Ok(others)
}

impl Identifier {
    pub fn identify(
        &self,
        process: &Process,
        passed: PassedVariables<'_>,
    ) -> Result<Identity, IdentifyError> {
        let pid = process.pid();
        let host = |source| IdentifyError::Host { pid, source };
        let mappings = process.mappings().map_err(host)?;
        // The environment shows how the allocator came in and its settings, not which it is.
        let overwritten = process.environ_is_overwritten().unwrap_or(false);
        let passed = if overwritten { passed() } else { None };
        let known = passed.is_some();
        let environ = passed.or_else(|| process.environ().ok()).unwrap_or_default();
        let objects = MappedObjects::open(process, &mappings);
        let parsed = objects.parse();
        let Some(program) = objects::program(&parsed) else {
            let unread = objects::unread_program(process).filter(|_| !mappings.is_empty());
            return Err(match unread {
                Some(source) => IdentifyError::Program { pid, source },
                None if process.state().is_ok_and(|state| state == 'Z') => host(HostError::Gone { pid }),
                None => IdentifyError::NoProgram { pid },
            });
        };
        let mut findings = nothing_known();
        if overwritten {
            let settings = match known {
                true => "its settings are those that it was started with",
                false => "its settings cannot be proved from it",
            };
            findings.evidence.push(format!("{OVERWRITTEN}: {settings}"));
        }
        let unreadable: Vec<&String> = objects.unreadable().collect();
        let unread = unreadable.iter().map(|name| format!("{name} is mapped but could not be read"));
        findings.evidence.extend(unread);
        if program.elf.is_static() {
            program::examine_static(program, &mut findings);
        } else {
            let (mappings, objects, environ) = (&mappings, &parsed, &environ);
            let subject = Subject { process, mappings, objects, program, unreadable, environ };
            subject.examine(&mut findings);
        }
        findings.libraries = libraries::mapped(process, &parsed, program, &self.packages);
        findings.settings = settings_of(&findings.family, &environ);
        Ok(findings)
    }
}

/// A process whose program is linked dynamically.
struct Subject<'a, 'd> {
    process: &'a Process,
    mappings: &'a [Mapping],
    objects: &'a [MappedObject<'d>],
    program: &'a MappedObject<'d>,
    unreadable: Vec<&'a String>,
    environ: &'a [(String, String)],
}

impl<'d> Subject<'_, 'd> {
    fn examine(&self, findings: &mut Identity) {
        let Self { process, program, objects, .. } = self;
        let provider = match self.provider(findings) {
            Ok(object) => object,
            Err(why) => {
                findings.evidence.push(why);
                return;
            }
        };
        let is_program = provider.name == program.name;
        if !is_program {
            program::note_carried(program, findings);
        }
        findings.evidence.push(format!("`malloc` is defined by {}", provider.name));
        findings.linkage = linkage(process, provider, program, objects, self.environ);
        match is_program {
            true => program::describe(program, findings),
            false => describe(provider, findings),
        }
    }

    fn provider(&self, findings: &mut Identity) -> Result<&MappedObject<'d>, String> {
        match slots::resolved(self, findings) {
            Bound::To(name) => {
                let object = self.objects.iter().find(|object| object.name == name);
                object.ok_or_else(|| format!("{name} is no longer mapped"))
            }
            Bound::Undecided(why) => Err(why),
            Bound::Unread => {
                let defines = |object: &&MappedObject<'_>| {
                    object.elf.exported("malloc").is_some() && !object.is_loader()
                };
                let providers: Vec<&MappedObject<'_>> = self.objects.iter().filter(defines).collect();
                // What else is mapped with code in it (`/memfd:...`, `/dev/zero`) the loader knows nothing of.
                let is_library =
                    |name: &&&String| name.rsplit('/').next().is_some_and(|name| name.contains(".so"));
                if let Some(name) = self.unreadable.iter().find(is_library) {
                    return Err(format!("{name} could define `malloc` as well"));
                }
                by_search_order(&providers, self.program)
            }
        }
    }
}

fn preloads(environ: &[(String, String)]) -> impl Iterator<Item = &str> {
    let named = environ.iter().filter(|(name, _)| name == "LD_PRELOAD");
    named.flat_map(|(_, value)| value.split([':', ' '])).filter(|path| !path.is_empty())
}

/// The provider that the dynamic loader binds to, where that is known without reading memory.
fn by_search_order<'a, 'd>(
    providers: &[&'a MappedObject<'d>],
    program: &MappedObject<'d>,
) -> Result<&'a MappedObject<'d>, String> {
    if let Some(object) = providers.iter().find(|object| object.name == program.name) {
        return Ok(object);
    }
    let others: Vec<_> = providers.iter().filter(|object| !object.is_c_library()).collect();
    match (others.as_slice(), providers.iter().find(|object| object.is_c_library())) {
        ([], Some(c_library)) => Ok(c_library),
        ([], None) => Err("no mapped file defines `malloc`".to_owned()),
        ([only], _) => Ok(only),
        _ => {
            let names: Vec<&str> = others.iter().map(|object| object.name.as_str()).collect();
            Err(format!(
                "several mapped files define `malloc` and none is proved to be in use: {}",
                names.join(", ")
            ))
        }
    }
}

/// Family, version and file of the object that holds `malloc`.
fn describe(provider: &MappedObject<'_>, findings: &mut Identity) {
    findings.path = Some(PathBuf::from(&provider.name));
    findings.build_id = provider.elf.build_id();
    let families = markers::families_of_library(&provider.elf);
    match families.as_slice() {
        [family] => {
            findings.family.clone_from(&family.name);
            version::find(family, &provider.elf, provider.elf.exported("mi_version"), findings);
        }
        [] => findings.evidence.push(format!("{} has no mark of a known allocator", provider.name)),
        several => {
            let names: Vec<&str> = several.iter().map(|family| family.name.as_str()).collect();
            findings.evidence.push(format!("{} has marks of {}", provider.name, names.join(" and ")));
        }
    }
    if !provider.is_c_library() {
        findings.sha256 = provider.sha256();
    }
}

fn linkage(
    process: &Process,
    provider: &MappedObject<'_>,
    program: &MappedObject<'_>,
    objects: &[MappedObject<'_>],
    environ: &[(String, String)],
) -> Linkage {
    if provider.name == program.name {
        return Linkage::Static;
    }
    if provider.is_c_library() {
        return Linkage::Libc;
    }
    let soname = provider.elf.soname();
    // A preload is often given by a link, whose name is the library's own name.
    let needed =
        |object: &MappedObject<'_>| object.elf.needed().iter().any(|name| soname.as_ref() == Some(name));
    let is_needed = objects.iter().any(needed);
    // What is needed anyway is there too where the loader refused a preload of that name.
    let names_it = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_named = !name.is_empty() && (name == provider.file_name() || soname.as_deref() == Some(name));
        let is_path = path.contains('/');
        is_named && (!is_needed || !is_path || provider.is_file_of(&process.seen_path(Path::new(path))))
    };
    let arguments = process.cmdline().unwrap_or_default();
    let by_loader = arguments
        .windows(2)
        .take(12)
        .any(|pair| pair[0] == "--preload" && pair[1].to_string_lossy().split([':', ' ']).any(names_it));
    if by_loader || preloads(environ).any(names_it) {
        return Linkage::Preloaded;
    }
    if is_needed { Linkage::Linked } else { Linkage::Unknown }
}

fn nothing_known() -> Identity {
    Identity {
        family: UNKNOWN.to_owned(),
        version: None,
        version_range: None,
        path: None,
        build_id: None,
        sha256: None,
        linkage: Linkage::Unknown,
        settings: BTreeMap::new(),
        evidence: Vec::new(),
        libraries: Vec::new(),
        carried: None,
    }
}

/// The variables that a family reads. Of a name that is there twice getenv(3) gives the first.
fn settings_of(family: &str, environ: &[(String, String)]) -> BTreeMap<String, String> {
    let family = Catalog::builtin().family(family);
    let is_read = |name: &str| family.is_some_and(|family| family.reads_variable(name));
    environ.iter().rev().filter(|(name, _)| is_read(name)).cloned().collect()
}
