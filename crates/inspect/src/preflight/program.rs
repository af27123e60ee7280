//! Whether the program is one that a preload reaches.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use heaptrial_allocator::{ElfError, ObjectFacts};
use heaptrial_model::Linkage;

use crate::preflight::finding::{Check, Findings};
use crate::preflight::planned::PlannedPreload;
use crate::preflight::secure_execution;
use crate::preflight::subject::Subject;
use crate::preflight::unit_text::words;

/// Programs that start another one, and may change its environment or user.
const WRAPPERS: [&str; 18] = [
    "sh",
    "bash",
    "dash",
    "zsh",
    "env",
    "sudo",
    "su",
    "runuser",
    "setpriv",
    "nice",
    "ionice",
    "chrt",
    "taskset",
    "numactl",
    "nohup",
    "chroot",
    "unshare",
    "start-stop-daemon",
];

/// Of them, those that clear the environment unless told otherwise.
const CLEARING: [&str; 3] = ["sudo", "su", "runuser"];

pub(crate) fn check(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    helpers(subject, preload, findings);
    let Some(started) = subject.started() else { return };
    let wrapped = wrapper(subject, &started);
    if let Some(how) = &wrapped {
        wrapped_finding(subject, &started, how, findings);
    }
    let program = match (&wrapped, &subject.service.process) {
        (None, _) => started,
        (Some(_), Some(process)) => process.program.clone(),
        (Some(_), None) => return,
    };
    secure_execution::check(subject, preload, &program, findings);
    match subject.file(&program).map(|file| subject.examiner.examine(&file)) {
        Some(Ok(facts)) => examine(subject, preload, &program, &facts, findings),
        Some(Err(ElfError::Architecture { found, expected, .. })) => findings.refuse(
            Check::Program,
            format!("{} is a program for {found}, and the library is for {expected}", program.display()),
            "the loader ignores a library of another kind and goes on without it",
            "leave the service out",
        ),
        Some(Err(ElfError::NotElf { .. })) => {}
        Some(Err(error)) => unreadable(error.to_string(), findings),
        None => not_found(subject, &program, findings),
    }
}

fn unreadable(what: String, findings: &mut Findings) {
    findings.warn(
        Check::Program,
        what,
        "whether a preload reaches the program cannot be told; the identity proof after the restart decides",
        "run the preflight as root, on the host itself",
    );
}

fn not_found(subject: &Subject<'_>, program: &Path, findings: &mut Findings) {
    let why =
        "whether a preload reaches the program cannot be told; the identity proof after the restart decides";
    if program.is_absolute() {
        let what = format!("{} was not found", program.display());
        return findings.warn(
            Check::Program,
            what,
            why,
            "see that the file is there, and that you may see it",
        );
    }
    let folders: Vec<String> =
        subject.search_path().iter().map(|folder| folder.display().to_string()).collect();
    findings.warn(
        Check::Program,
        format!("{} was not found where systemd looks for it ({})", program.display(), folders.join(", ")),
        why,
        "name the program by its full path in ExecStart=",
    );
}

/// How ExecStart starts something else than itself.
fn wrapper(subject: &Subject<'_>, started: &Path) -> Option<String> {
    let name = started.file_name()?.to_string_lossy().into_owned();
    if WRAPPERS.contains(&name.as_str()) {
        return Some(name);
    }
    let mut start = [0; 2];
    File::open(subject.file(started)?).ok()?.read_exact(&mut start).ok()?;
    (&start == b"#!").then(|| "a script".to_owned())
}

fn wrapped_finding(subject: &Subject<'_>, started: &Path, how: &str, findings: &mut Findings) {
    let clears = CLEARING.contains(&how)
        || subject.unit().exec_start.iter().flatten().any(|word| word == "-i" && how == "env");
    let why = match clears {
        true => {
            "it clears the environment, so that LD_PRELOAD does not arrive at the program; the identity proof after the restart decides"
        }
        false => {
            "the library is loaded into it and into all that it starts, and it may change the environment on the way; the identity proof after the restart decides"
        }
    };
    findings.warn(
        Check::Wrapper,
        format!("ExecStart runs {} ({how}), which starts the program", started.display()),
        why,
        "name the program itself in ExecStart=; systemd has User=, Nice=, CPUAffinity= and the like for what wrappers do",
    );
}

/// What else of the unit runs under the treatment.
fn helpers(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    if preload.library.is_none() {
        return;
    }
    let started = subject.started();
    let mut names: Vec<String> = Vec::new();
    for key in ["ExecStartPre", "ExecStartPost", "ExecReload", "ExecStop", "ExecStopPost"] {
        for found in subject.text.collected("Service", key) {
            let Some(word) = words(&found.value).into_iter().next() else { continue };
            let program = subject.program(&word);
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if started.as_ref() != Some(&program) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if !names.is_empty() {
        findings.warn(
            Check::Wrapper,
            format!("the unit runs other programs too: {}", names.join(", ")),
            "LD_PRELOAD reaches them as well; they are short and work with any allocator, but they are tried with it too",
            "nothing to do, unless one of them is setuid or does heavy work",
        );
    }
}

fn examine(
    subject: &Subject<'_>,
    preload: &PlannedPreload,
    program: &Path,
    facts: &ObjectFacts,
    findings: &mut Findings,
) {
    let path = program.display();
    if let Some(library) = preload.library.as_ref().filter(|_| facts.is_static) {
        findings.refuse(
            Check::Program,
            format!("{path} is linked statically"),
            format!("it is started without a dynamic loader, so nothing can load {}", library.display()),
            "leave the service out, or build the program with the allocator",
        );
        return;
    }
    if preload.library.is_some() {
        if facts.carried.iter().any(|carried| carried.family == "go") {
            findings.refuse(
                Check::Program,
                format!("{path} is a Go program"),
                "Go has a heap of its own and does not use `malloc` for it; a preload would reach C code in it only",
                "leave the service out; Go has GOGC and GOMEMLIMIT",
            );
            return;
        }
        other_c_library(&path.to_string(), facts, findings);
    }
    own_allocator(subject, preload, &path.to_string(), facts, findings);
}

fn other_c_library(path: &str, facts: &ObjectFacts, findings: &mut Findings) {
    let musl = facts.interpreter.as_deref().filter(|name| name.contains("ld-musl"));
    let other = facts.interpreter.as_deref().filter(|name| !is_glibc_loader(name));
    if let Some(loader) = musl {
        findings.refuse(
            Check::Program,
            format!("{path} runs under musl ({loader})"),
            "a library built for glibc lacks symbols there, and musl ends a program whose preload does: the service would not start",
            "leave the service out, or give a library that is built for musl",
        );
    } else if let Some(loader) = other {
        findings.warn(
            Check::Program,
            format!("{path} runs under {loader}, which is not glibc's usual loader"),
            "whether it heeds LD_PRELOAD cannot be told; the identity proof after the restart decides",
            "try one service first",
        );
    }
}

fn is_glibc_loader(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.starts_with("ld-linux") || file.starts_with("ld64.so") || file.starts_with("ld.so")
}

fn own_allocator(
    subject: &Subject<'_>,
    preload: &PlannedPreload,
    path: &str,
    facts: &ObjectFacts,
    findings: &mut Findings,
) {
    let identity = subject.service.process.as_ref().and_then(|process| process.identity.as_ref());
    let runs_own = identity.is_some_and(|identity| identity.linkage == Linkage::Static);
    if facts.exports_malloc || runs_own {
        let evidence =
            facts.carried.first().map_or(String::new(), |carried| format!(" ({})", carried.family));
        findings.refuse(
            Check::OwnAllocator,
            format!("{path} has an allocator of its own{evidence}"),
            "the program's own `malloc` comes before any preload, which would be loaded and not used",
            "leave the service out, or build the program without it",
        );
        return;
    }
    for carried in facts.carried.iter().filter(|carried| carried.family != "glibc") {
        findings.refuse(
            Check::OwnAllocator,
            format!("{path} carries {}: {}", carried.family, carried.evidence),
            "a treatment is of the C library's `malloc` and not of what the program calls by other names; which of the two holds its memory cannot be told from outside, so the proof after the restart refuses every life",
            "leave the service out, or build the program without it",
        );
    }
    if let Some(bound) = facts.bound_to.as_ref().filter(|bound| bound.family != preload.spec.family) {
        findings.refuse(
            Check::OwnAllocator,
            format!("{path} is bound to {}: {}", bound.family, bound.evidence),
            "blocks of another allocator would end up in that function, and the service would crash at once or later",
            "leave the service out, or try versions and settings of that allocator",
        );
    }
    let linked = identity.filter(|identity| identity.linkage == Linkage::Linked);
    if let Some(identity) = linked {
        let what = format!("{path} is linked against {}", identity.label());
        match preload.library {
            Some(_) => findings.warn(
                Check::OwnAllocator,
                what,
                "a preload comes first and wins, but functions that only the other one has, such as mallctl, still go there",
                "make sure that the service does not tune its allocator through such functions",
            ),
            None => findings.refuse(
                Check::OwnAllocator,
                what,
                format!("{} means the C library's own allocator, and the linked one stays in force", preload.spec),
                "leave the arm out, or build the program without it",
            ),
        }
    }
}
