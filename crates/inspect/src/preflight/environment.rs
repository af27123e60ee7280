//! What else decides on the environment that a treatment sets, and what the treatment takes away.

use std::path::Path;

use heaptrial_host::{DROP_IN, is_drop_in};

use crate::NextStart;
use crate::preflight::finding::{Check, Findings};
use crate::preflight::planned::PlannedPreload;
use crate::preflight::subject::Subject;
use crate::services::host_preloads;
use crate::unit_environment::{assignments, sets};

const PRELOAD: &str = "LD_PRELOAD";
/// What systemd gives every process of a service (systemd.exec(5)).
const GIVEN: [&str; 3] = ["INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID"];

pub(crate) fn check(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    cleared(subject, preload, findings);
    overridden(subject, preload, findings);
    taken_away(subject, preload, findings);
    for library in host_preloads(subject.root) {
        findings.warn(
            Check::PresentPreload,
            format!("/etc/ld.so.preload names {}", library.display()),
            "every program loads it, after LD_PRELOAD, and the treatment leaves it there",
            "if it is an allocator, take it out for the time of the trial",
        );
    }
}

/// What starts the program may clear the environment, as pg_ctlcluster of Debian's PostgreSQL does. A probe, which is started
/// in its place, does not show that; the running process has none of the variables that its unit gives.
fn cleared(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    let Some(process) = subject.process.as_ref().filter(|_| !preload.environment().is_empty()) else {
        return;
    };
    if process.environ_is_overwritten().unwrap_or(true) {
        return;
    }
    let of_unit = subject.unit().variables();
    let is_given = |name: &str| GIVEN.contains(&name) || of_unit.iter().any(|(given, _)| given == name);
    if process.environ().is_ok_and(|environ| !environ.iter().any(|(name, _)| is_given(name))) {
        findings.refuse(
            Check::Environment,
            "its process has none of the variables that systemd gave it: what starts it clears the environment",
            "variables of a treatment would not reach it",
            "have the unit start the program itself: for Debian's PostgreSQL a drop-in with Type=notify, User=postgres and \
             ExecStart= of `postgres`",
        );
    }
}

/// Drop-ins apply in the order of their file names, whatever folder they are in; the unit file comes first. A probe does not show
/// this order: systemd hands out the sum of all files.
fn overridden(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    let environment = preload.environment();
    for file in subject.unit().drop_ins.iter().filter(|file| !is_drop_in(file) && is_later(file)) {
        for value in assignments(subject.root, file, "Environment") {
            let what = match environment.iter().find(|(name, _)| sets(&value, name)) {
                Some((name, _)) => format!("{} sets {name}", file.display()),
                None if value.is_empty() && !environment.is_empty() => {
                    format!("{} has an empty Environment=", file.display())
                }
                None => continue,
            };
            findings.refuse(
                Check::Environment,
                what,
                format!("it comes after the drop-in {DROP_IN} and wins over it, so the treatment would not take hold"),
                format!("rename the file so that it sorts before {DROP_IN}, or take the line out"),
            );
        }
    }
}

fn is_later(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.as_encoded_bytes() > DROP_IN.as_bytes())
}

/// What a service has today and would not have with the treatment.
fn taken_away(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    let next = NextStart::of(subject.root, subject.unit());
    let identity = subject.service.process.as_ref().and_then(|process| process.identity.as_ref());
    let removed = preload.unset.iter().filter_map(|name| {
        let of_process = || identity?.settings.get(name).map(String::as_str);
        Some((name.clone(), next.value(name).or_else(of_process)?.to_owned(), "removed".to_owned()))
    });
    let of_unit = subject.unit().variables();
    let replaced = preload.environment().into_iter().filter_map(|(name, wanted)| {
        let (_, value) = of_unit.iter().find(|(set, value)| *set == name && *value != wanted)?;
        Some((name, value.clone(), format!("replaced by `{wanted}`")))
    });
    for (name, value, how) in removed.chain(replaced).filter(|(_, value, _)| !is_of_a_treatment(value)) {
        let check = if name == PRELOAD { Check::PresentPreload } else { Check::ForeignSetting };
        findings.warn(
            check,
            format!("{name} is `{value}` today and is {how}"),
            "it is no part of the treatment, so this arm runs without it",
            "if the service needs it, take another arm: one without an allocator leaves it, and a spec can name settings",
        );
    }
}

/// Whether a value is of an earlier treatment, which is reported as such.
fn is_of_a_treatment(value: &str) -> bool {
    value.contains("/heaptrial/allocators/")
}
