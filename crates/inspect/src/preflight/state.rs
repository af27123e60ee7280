//! Whether the unit is one that can be restarted and observed.

use crate::preflight::finding::{Check, Findings};
use crate::preflight::subject::Subject;

/// Whether there is anything more to examine.
pub(crate) fn check(subject: &Subject<'_>, findings: &mut Findings) -> bool {
    let unit = subject.unit();
    let name = &unit.name;
    let unloaded = match unit.load_state.as_str() {
        "loaded" => None,
        "not-found" => Some((
            "there is no unit of this name".to_owned(),
            "check the name with `heaptrial services` or `systemctl list-units --type=service`; the name of an instance is exact, such as `tor@relay1.service`".to_owned(),
        )),
        "masked" => Some((
            "the unit is masked".to_owned(),
            format!("run `systemctl unmask {name}` if it is meant to run"),
        )),
        state => Some((
            format!("systemd could not load the unit ({state})"),
            format!("see `systemctl status {name}`"),
        )),
    };
    if let Some((what, fix)) = unloaded {
        findings.refuse(Check::UnitState, what, "systemd would not start it again after a restart", fix);
        return false;
    }
    running(subject, findings);
    kind(subject, findings);
    restartable(subject, findings);
    true
}

fn running(subject: &Subject<'_>, findings: &mut Findings) {
    let (unit, status) = (subject.unit(), &subject.unit().status);
    if status.sub_state == "auto-restart" {
        findings.refuse(
            Check::UnitState,
            format!(
                "systemd restarts it again and again ({} times; last result: {})",
                status.restarts, status.result
            ),
            "a service that fails by itself cannot show what an allocator does",
            format!("see `journalctl -u {}` and repair it first", unit.name),
        );
    } else if status.active_state != "active" {
        findings.refuse(
            Check::UnitState,
            format!("it is {} and not active", status.active_state),
            "there is no process to compare with, and no state to go back to",
            format!("start it with `systemctl start {}`, or leave it out", unit.name),
        );
    } else if status.main_pid.is_none() {
        findings.refuse(
            Check::ServiceType,
            format!("it is active ({}) without a main process", status.sub_state),
            "memory and allocator are read from the main process, and there is none",
            "leave it out; for Type=forking set PIDFile= so that systemd knows the main process",
        );
    }
}

fn kind(subject: &Subject<'_>, findings: &mut Findings) {
    let unit = subject.unit();
    if unit.service_type == "oneshot" {
        findings.refuse(
            Check::ServiceType,
            "it is a Type=oneshot service",
            "it does something and ends; there is no life to observe",
            "leave it out",
        );
    }
    if unit.unit_file.as_ref().is_some_and(|file| file.starts_with("/run/systemd/transient")) {
        findings.refuse(
            Check::ServiceType,
            "it is a transient unit (systemd-run)",
            "it is gone when it stops and cannot be started again, so that a restart that fails could not be put right",
            "write a unit file for it",
        );
    }
}

fn restartable(subject: &Subject<'_>, findings: &mut Findings) {
    let unit = subject.unit();
    let refusing =
        [("RefuseManualStart", unit.refuse_manual_start), ("RefuseManualStop", unit.refuse_manual_stop)];
    for (key, _) in refusing.into_iter().filter(|(_, refuses)| *refuses) {
        findings.refuse(
            Check::UnitState,
            format!("{key}=yes"),
            "a treatment takes hold by a restart, which systemd will refuse",
            "take it out, or leave the unit out",
        );
    }
    if unit.needs_reload {
        findings.warn(
            Check::UnitState,
            "its files were changed and systemd has not read them yet",
            "applying a treatment reloads them, and the other changes take hold at the same time",
            format!("run `systemctl daemon-reload`, restart {} and look at it first", unit.name),
        );
    }
}
