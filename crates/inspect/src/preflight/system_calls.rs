//! SystemCallFilter against the calls that allocators make. Which calls each family makes that glibc's malloc does
//! not was traced with strace(1) on x86-64 over versions of the catalog.

use heaptrial_model::{AllocatorSpec, Setting, Version};

use crate::preflight::finding::{Check, Findings};
use crate::preflight::planned::PlannedPreload;
use crate::preflight::subject::Subject;

/// Every allocator needs them, at the latest when memory is given back.
const ALL: [&str; 4] = ["madvise", "mmap", "mprotect", "munmap"];

/// Calls that give memory back: an allocator goes on without them, and keeps the memory.
const GIVE_BACK: [&str; 2] = ["madvise", "munmap"];

pub(crate) fn check(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    let sandbox = &subject.unit().sandbox;
    if sandbox.system_calls.is_empty() {
        return;
    }
    let listed = |call: &str| sandbox.system_calls.iter().find(|entry| entry.split(':').next() == Some(call));
    let own_error = |call: &str| {
        listed(call).and_then(|entry| entry.split_once(':')).is_some_and(|(_, error)| error != "kill")
    };
    let with_error = subject
        .text
        .last("Service", "SystemCallErrorNumber")
        .is_some_and(|found| !found.value.eq_ignore_ascii_case("kill"));
    let denied: Vec<&str> = calls(&preload.spec, preload.version.as_ref())
        .into_iter()
        .filter(|call| listed(call).is_some() == sandbox.system_calls_deny)
        .collect();
    let (failing, killing): (Vec<&str>, Vec<&str>) =
        denied.into_iter().partition(|call| with_error || (sandbox.system_calls_deny && own_error(call)));
    if !killing.is_empty() {
        findings.refuse(
            Check::SystemCalls,
            format!(
                "SystemCallFilter does not allow {}, which {} calls",
                killing.join(", "),
                preload.spec.family
            ),
            "the kernel kills the service when it makes such a call",
            format!(
                "add SystemCallFilter={} to the unit; @system-service has all of them",
                killing.join(" ")
            ),
        );
    }
    let kept: Vec<&str> = failing.into_iter().filter(|call| GIVE_BACK.contains(call)).collect();
    if !kept.is_empty() {
        findings.warn(
            Check::SystemCalls,
            format!("SystemCallFilter makes {} fail", kept.join(", ")),
            "an allocator gives memory back with it; without it memory only grows, so that the trial would show the filter",
            format!("add SystemCallFilter={} to the unit", kept.join(" ")),
        );
    }
}

/// The calls that a family makes.
fn calls(spec: &AllocatorSpec, version: Option<&Version>) -> Vec<&'static str> {
    let family = spec.family.as_str();
    let since = |from: &str| version.is_none_or(|version| *version >= Version::new(from));
    let is_on = |setting: &Setting| setting.name == "background_thread" && setting.value != "false";
    let mut calls = ALL.to_vec();
    match family {
        "jemalloc" => {
            if since("5.3.0") {
                calls.push("sched_getaffinity");
            }
            if spec.settings.iter().any(is_on) {
                calls.push("prctl");
            }
        }
        "mimalloc" => calls.extend(["getrandom"]),
        "snmalloc" => calls.extend(["getrandom"]),
        "scudo" => calls.extend(["futex", "getrandom", "gettid"]),
        "tcmalloc" => calls.extend(["brk", "futex"]),
        _ => {}
    }
    // Machines of later design have no such calls, and libraries use others there.
    if cfg!(target_arch = "x86_64") {
        match family {
            "jemalloc" => calls.extend(["open", "readlink"]),
            "mimalloc" => {
                calls.push("access");
                if since("2.1") {
                    calls.push("open");
                }
            }
            _ => {}
        }
    }
    if family == "mimalloc" && since("2.2.4") {
        calls.push("sysinfo");
        // 3.0.x has no name for its memory.
        if !version.is_some_and(|version| version.as_str().starts_with("3.0.")) {
            calls.push("prctl");
        }
    }
    calls
}
