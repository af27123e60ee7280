//! Whether the program is one that a preload reaches.

use heaptrial_allocator::{ElfError, ObjectFacts, Unreached};
use heaptrial_model::{Identity, Linkage};

use crate::preflight::finding::{Check, Findings};
use crate::preflight::planned::PlannedPreload;
use crate::preflight::subject::Subject;

const PROOF_DECIDES: &str =
    "whether a preload reaches the program is not known; the identity proof after the restart decides";

pub(crate) fn check(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    let Some(process) = &subject.service.process else { return };
    let path = process.program.display().to_string();
    if preload.library().is_some() || !preload.expected.settings.is_empty() {
        secure_execution(subject, &path, findings);
    }
    match subject.examiner.examine(&subject.program_file()) {
        Ok(facts) => examine(subject, preload, &path, &facts, findings),
        Err(ElfError::Architecture { found, expected, .. }) => findings.refuse(
            Check::Program,
            format!("{path} is a program for {found}, and the library is for {expected}"),
            "the loader ignores a library of another kind and goes on without it",
            "leave the service out",
        ),
        Err(ElfError::NotElf { .. }) => {}
        Err(error) => findings.warn(
            Check::Program,
            error.to_string(),
            PROOF_DECIDES,
            "run the preflight as root, on the host itself",
        ),
    }
}

/// The loader ignores `LD_PRELOAD` and the C library's tunables for programs that gain rights when they are started: setuid,
/// setgid, file capabilities (ld.so(8)). A probe has no such rights; the process that runs shows them.
fn secure_execution(subject: &Subject<'_>, path: &str, findings: &mut Findings) {
    const AT_SECURE: u64 = 23;
    let file = subject.process.as_ref().map(|process| subject.root.process_dir(process.pid()).join("auxv"));
    let auxv = file.and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
    if auxiliary(&auxv, AT_SECURE).is_some_and(|value| value != 0) {
        findings.refuse(
            Check::SecureExecution,
            format!("{path} gains rights when it is started: setuid, setgid or file capabilities"),
            "the loader ignores LD_PRELOAD for such a program (AT_SECURE in /proc/PID/auxv): the unit would be active on its old allocator",
            "take that from the file and give the service what it needs with AmbientCapabilities= in the unit, which does not have this effect",
        );
    }
}

/// An entry of the auxiliary vector (getauxval(3)).
fn auxiliary(bytes: &[u8], wanted: u64) -> Option<u64> {
    let number = |bytes: &[u8]| Some(u64::from_ne_bytes(bytes.try_into().ok()?));
    bytes.chunks_exact(16).find_map(|entry| (number(&entry[..8])? == wanted).then(|| number(&entry[8..]))?)
}

fn examine(
    subject: &Subject<'_>,
    preload: &PlannedPreload,
    path: &str,
    facts: &ObjectFacts,
    findings: &mut Findings,
) {
    let identity = subject.service.process.as_ref().and_then(|process| process.identity.as_ref());
    let family = preload.library().map(|_| preload.expected.spec.family.as_str());
    if let Some(unreached) = Unreached::of(facts, identity, family) {
        return refuse(path, &unreached, findings);
    }
    if let Some(family) = family {
        other_loader(path, facts, findings);
        if let Some((file, unreached)) = other_calls(subject, family) {
            return refuse(&file, &unreached, findings);
        }
    }
    if let Some(identity) = identity.filter(|identity| identity.linkage == Linkage::Linked) {
        linked(path, identity, preload, findings);
    }
}

fn refuse(file: &str, unreached: &Unreached, findings: &mut Findings) {
    let check = match unreached {
        Unreached::Go | Unreached::Static | Unreached::Musl(_) => Check::Program,
        Unreached::OwnMalloc | Unreached::Carried(..) | Unreached::Calls(..) => Check::OwnAllocator,
    };
    findings.refuse(check, format!("{file} {unreached}"), unreached.why(), unreached.fix());
}

fn other_loader(path: &str, facts: &ObjectFacts, findings: &mut Findings) {
    let Some(loader) = &facts.interpreter else { return };
    let file = loader.rsplit('/').next().unwrap_or(loader);
    if !["ld-linux", "ld64.so", "ld.so"].iter().any(|name| file.starts_with(name)) {
        findings.warn(
            Check::Program,
            format!("{path} runs under {loader}, which is not glibc's usual loader"),
            PROOF_DECIDES,
            "try one service first",
        );
    }
}

/// A library that the process maps and that calls functions of another allocator.
fn other_calls(subject: &Subject<'_>, family: &str) -> Option<(String, Unreached)> {
    let process = subject.process.as_ref()?;
    let mappings = process.mappings().ok()?;
    let mut code = mappings.iter().filter(|mapping| mapping.is_file() && mapping.is_executable());
    code.find_map(|mapping| {
        let files = process.mapped_file_candidates(mapping);
        let facts = files.iter().find_map(|file| subject.examiner.examine(file).ok())?;
        Some((mapping.name.clone(), Unreached::by_calls(&facts, family)?))
    })
}

fn linked(path: &str, identity: &Identity, preload: &PlannedPreload, findings: &mut Findings) {
    let what = format!("{path} is linked against {}", identity.label());
    match preload.library() {
        Some(_) => findings.warn(
            Check::OwnAllocator,
            what,
            "a preload comes first and wins, but functions that only the other one has, such as mallctl, still go there",
            "make sure that the service does not tune its allocator through such functions",
        ),
        None => findings.refuse(
            Check::OwnAllocator,
            what,
            format!("{} means the C library's own allocator, and the linked one stays in force", preload.expected.spec),
            "leave the arm out, or build the program without it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_an_auxiliary_vector() {
        let bytes = std::fs::read("/proc/self/auxv").unwrap();
        assert_eq!(auxiliary(&bytes, 23), Some(0));
        let page = auxiliary(&bytes, 6).unwrap();
        assert!(page.is_power_of_two() && page >= 4096);
        assert_eq!(auxiliary(&[1, 2, 3], 23), None);
    }
}
