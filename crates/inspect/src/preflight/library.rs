//! Whether the library can be loaded by the service, and by it alone be changed by root.

use heaptrial_allocator::{ObjectFacts, host_glibc};
use heaptrial_model::Version;

use super::{apparmor, system_calls, visibility};
use crate::preflight::finding::{Check, Findings};
use crate::preflight::planned::PlannedPreload;
use crate::preflight::subject::Subject;
use heaptrial_host::trusted::{closed_to_others, path_is_trustworthy};

pub(crate) fn check(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    if let Some(version) = &preload.other_glibc {
        findings.refuse(
            Check::LibraryNeeds,
            format!("{} has to be run under glibc {version}", preload.spec),
            "another C library comes with a loader of its own, which has to stand before the program in ExecStart; a drop-in with an environment cannot do that",
            "give another version, or compare C libraries in the lab (`heaptrial lab run`)",
        );
        return;
    }
    let Some(library) = &preload.library else { return };
    let scope = subject.unit().scope;
    let owner = if scope.is_system() { "root" } else { "root or you" };
    for path in preload.source.iter().chain([library]) {
        if let Err(why) = path_is_trustworthy(subject.root, path, scope) {
            findings.refuse(
                Check::LibraryPath,
                why.to_string(),
                format!("whoever can change {} runs code in the service", path.display()),
                format!(
                    "let {owner} own it and every folder above it, and take the right to write from group and others"
                ),
            );
        }
    }
    // A user that is not in /etc/passwd, such as a dynamic one, has only the rights of everybody.
    let user = subject.user().unwrap_or((u32::MAX, u32::MAX));
    let closed = if user.0 == 0 { None } else { closed_to_others(subject.root, library, user) };
    if let Some((closed, mode)) = closed {
        findings.refuse(
            Check::LibraryPath,
            format!(
                "the user {} cannot get through {} (mode {mode:04o})",
                subject.unit().user,
                closed.display()
            ),
            "the loader opens the library as the service's user; where it cannot, it goes on without it",
            format!("run `chmod o+rX {}`", closed.display()),
        );
    }
    glibc_is_new_enough(subject, preload, findings);
    let source = preload.source.as_ref().map(|source| subject.root.path(source));
    if let Some(Ok(facts)) = source.map(|source| subject.examiner.examine(&source)) {
        memory_deny_write_execute(subject, preload, &facts, findings);
    }
    visibility::check(subject, library, findings);
    apparmor::check(subject, library, findings);
    system_calls::check(subject, preload, findings);
}

fn glibc_is_new_enough(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    let Some(needed) = &preload.needed_glibc else { return };
    let (version, whose) = match process_glibc(subject) {
        Some(version) => (version, "it runs with"),
        None if subject.root_directory().is_none() => (host_glibc(), "this host has"),
        None => return,
    };
    if *needed > version {
        findings.refuse(
            Check::LibraryNeeds,
            format!("the library needs glibc {needed} and {whose} {version}"),
            "the loader ends a program whose preload wants symbols that its C library does not have: the service would not start",
            "give a version that was built for this host's release, or build it here (`--source crate,git`)",
        );
    }
}

/// The version of the C library that the process has mapped.
fn process_glibc(subject: &Subject<'_>) -> Option<Version> {
    let process = subject.process.as_ref()?;
    let is_libc = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        file == "libc.so.6" || (file.starts_with("libc-2.") && file.ends_with(".so"))
    };
    let mapping = subject.mappings.as_ref()?.iter().find(|mapping| is_libc(&mapping.name))?;
    let candidates = process.mapped_file_candidates(mapping);
    candidates.iter().find_map(|path| subject.examiner.examine(path).ok()?.defined_glibc)
}

fn memory_deny_write_execute(
    subject: &Subject<'_>,
    preload: &PlannedPreload,
    facts: &ObjectFacts,
    findings: &mut Findings,
) {
    if !subject.unit().sandbox.memory_deny_write_execute {
        return;
    }
    let fix =
        "build it as position-independent code with a stack that is not executable, as all distributions do";
    if facts.text_relocations {
        findings.refuse(
            Check::MemoryDenyWriteExecute,
            format!(
                "the library of {} has text relocations, and the unit has MemoryDenyWriteExecute=yes",
                preload.spec
            ),
            "the loader may not write to its code and ends the program: the service would not start",
            fix,
        );
    } else if facts.executable_stack {
        findings.refuse(
            Check::MemoryDenyWriteExecute,
            format!(
                "the library of {} wants an executable stack, and the unit has MemoryDenyWriteExecute=yes",
                preload.spec
            ),
            "the loader may not make one, and goes on without the library",
            fix,
        );
    }
}
