//! AppArmor: whether the profile of the service lets the library be mapped. As far as that can be told from the text
//! of profiles, without the compiler that turns them into what the kernel enforces.

mod pattern;
mod profile;

use std::fs;
use std::path::Path;

use crate::preflight::finding::{Check, Findings};
use crate::preflight::subject::Subject;

pub(crate) use pattern::glob;
use profile::{Permission, Profiles};

const WHY: &str = "the kernel does not let the library be mapped, and the loader goes on without it: the unit would be active on its old allocator";

/// A profile that confines the service, and how it is known.
struct Confinement {
    profile: String,
    how: &'static str,
}

pub(crate) fn check(subject: &Subject<'_>, library: &Path, findings: &mut Findings) {
    let Ok(loaded) = fs::read_to_string(subject.root.path("/sys/kernel/security/apparmor/profiles")) else {
        if let Some(confined) = confinement(subject).first() {
            cannot_tell(
                &format!("{} {}", confined.how, confined.profile),
                "the profiles in force cannot be read",
                findings,
            );
        }
        return;
    };
    for confined in confinement(subject) {
        let mode = mode(&loaded, &confined.profile);
        // A profile that only reports lets everything through.
        match mode {
            Some("enforce" | "kill") => judge(subject, library, &confined, findings),
            Some(_) => {}
            None => not_loaded(subject, &confined, findings),
        }
    }
}

/// A profile that is asked for and not loaded keeps the service from starting, unless it is optional.
fn not_loaded(subject: &Subject<'_>, confined: &Confinement, findings: &mut Findings) {
    let asked = subject.unit().sandbox.apparmor_profile.as_ref();
    if asked.is_some_and(|asked| asked.name == confined.profile && !asked.optional) {
        findings.refuse(
            Check::Apparmor,
            format!("the unit asks for the AppArmor profile {}, which is not loaded", confined.profile),
            "systemd does not start a service without the profile that it asks for: it would not come back from a restart",
            format!("load it with apparmor_parser, or write AppArmorProfile=-{} in the unit", confined.profile),
        );
    }
}

fn judge(subject: &Subject<'_>, library: &Path, confined: &Confinement, findings: &mut Findings) {
    let Confinement { profile, how } = confined;
    let profiles = Profiles::read(subject.root);
    match profiles.permission(profile, library) {
        Permission::Allowed => {}
        Permission::Denied(reason) => findings.refuse(
            Check::Apparmor,
            format!("the AppArmor profile {profile} ({how}) does not let {} be mapped: {reason}", library.display()),
            WHY,
            format!(
                "add `{} mr,` to /etc/apparmor.d/local/{} and reload the profile with `apparmor_parser -r`; or install below /usr/lib, which abstractions/base allows",
                library.display(),
                profile.rsplit('/').next().unwrap_or(profile),
            ),
        ),
        Permission::Unknown(reason) => cannot_tell(&format!("{how} {profile}"), &reason, findings),
    }
}

fn cannot_tell(what: &str, reason: &str, findings: &mut Findings) {
    findings.warn(
        Check::Apparmor,
        format!("AppArmor profile: {what}; {reason}"),
        "whether the profile lets the library be mapped cannot be told; the identity proof after the restart decides",
        "look at the profile in /etc/apparmor.d, or try one service first and see `journalctl -k | grep apparmor`",
    );
}

/// The profiles that confine the main process, or that the next one gets.
fn confinement(subject: &Subject<'_>) -> Vec<Confinement> {
    let mut found = Vec::new();
    let label =
        subject.process_file("attr/apparmor/current").or_else(|| subject.process_file("attr/current"));
    if let Some(label) = label {
        let label = String::from_utf8_lossy(&label);
        let label = label.trim_end_matches(['\0', '\n']);
        let name = label.rsplit_once(" (").map_or(label, |(name, _)| name);
        // Other security modules use the same file and write labels with colons.
        let is_apparmor = label.ends_with(')') || subject.process_file("attr/apparmor/current").is_some();
        if is_apparmor && name != "unconfined" {
            for name in name.split("//&") {
                found.push(Confinement { profile: name.to_owned(), how: "the process is confined by it" });
            }
        }
    }
    let asked = subject.unit().sandbox.apparmor_profile.as_ref();
    if let Some(asked) = asked.filter(|asked| asked.name != "unconfined") {
        if !found.iter().any(|known| known.profile == asked.name) {
            found.push(Confinement { profile: asked.name.clone(), how: "the unit asks for it" });
        }
    }
    found
}

/// The mode of a loaded profile: `enforce`, `complain`, `kill`, `unconfined`.
fn mode<'a>(loaded: &'a str, profile: &str) -> Option<&'a str> {
    loaded.lines().find_map(|line| {
        let (name, mode) = line.rsplit_once(" (")?;
        (name == profile).then(|| mode.trim_end_matches(')'))
    })
}
