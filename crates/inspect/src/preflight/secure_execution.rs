//! Programs for which the loader ignores `LD_PRELOAD` and the C library's tunables: those that gain rights when they are
//! started (AT_SECURE, ld.so(8)). The rules are those of the kernel's `cap_bprm_creds_from_file`.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::preflight::finding::{Check, Findings};
use crate::preflight::mounts::mount_of;
use crate::preflight::planned::PlannedPreload;
use crate::preflight::subject::Subject;

const AT_SECURE: u64 = 23;

pub(crate) fn check(
    subject: &Subject<'_>,
    preload: &PlannedPreload,
    program: &Path,
    findings: &mut Findings,
) {
    let settings: Vec<&str> = preload.settings.iter().map(|(name, _)| name.as_str()).collect();
    let ignored = match (&preload.library, settings.as_slice()) {
        (Some(_), _) => "LD_PRELOAD".to_owned(),
        (None, []) => return,
        (None, settings) => settings.join(" and "),
    };
    let why = format!(
        "the loader ignores {ignored} for a program that gains rights when it is started (AT_SECURE): the unit would be active on its old allocator, as it was"
    );
    if let Some(how) = gains_rights(subject, program) {
        findings.refuse(
            Check::SecureExecution,
            format!("{} {how}", program.display()),
            why,
            "take that from the file and give the service what it needs with AmbientCapabilities= in the unit, which does not have this effect",
        );
    } else if subject
        .process_file("auxv")
        .and_then(|bytes| auxiliary(&bytes, AT_SECURE))
        .is_some_and(|value| value != 0)
    {
        findings.refuse(
            Check::SecureExecution,
            "its main process runs in secure-execution mode (AT_SECURE is 1 in /proc/PID/auxv)",
            why,
            "find out what raises its rights: file capabilities, setuid, or a security module",
        );
    }
}

/// How starting a program as the service's user raises its rights.
fn gains_rights(subject: &Subject<'_>, program: &Path) -> Option<String> {
    let file = subject.file(program)?;
    if mount_of(subject, program).is_some_and(|mount| mount.has("nosuid")) {
        return None;
    }
    let metadata = std::fs::metadata(&file).ok()?;
    let user = subject.user();
    let new_privileges = !subject.unit().sandbox.no_new_privileges;
    let setuid = metadata.mode() & 0o4000 != 0 && user.is_none_or(|(uid, _)| uid != metadata.uid());
    // Without the group's right to run it, the bit means mandatory locking.
    let setgid = metadata.mode() & 0o2010 == 0o2010 && user.is_none_or(|(_, gid)| gid != metadata.gid());
    if setuid && new_privileges {
        return Some(format!("is setuid to user {}", metadata.uid()));
    }
    if setgid && new_privileges {
        return Some(format!("is setgid to group {}", metadata.gid()));
    }
    let mut value = [0_u8; 64];
    let length = rustix::fs::getxattr(&file, "security.capability", &mut value[..]).ok()?;
    let capabilities = FileCapabilities::parse(value.get(..length)?)?;
    let root = user.is_some_and(|(uid, _)| uid == 0);
    // NoNewPrivileges takes the capabilities away, but the flag alone is enough for AT_SECURE.
    let counts = capabilities.effective || (capabilities.permitted != 0 && new_privileges);
    (counts && !root).then(|| "has file capabilities".to_owned())
}

/// The extended attribute `security.capability` (capabilities(7)).
struct FileCapabilities {
    effective: bool,
    permitted: u64,
}

impl FileCapabilities {
    fn parse(bytes: &[u8]) -> Option<Self> {
        const EFFECTIVE: u32 = 1;
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let high = word(12).unwrap_or(0);
        Some(Self {
            effective: word(0)? & EFFECTIVE != 0,
            permitted: u64::from(word(4)?) | u64::from(high) << 32,
        })
    }
}

/// An entry of the auxiliary vector (getauxval(3)).
fn auxiliary(bytes: &[u8], wanted: u64) -> Option<u64> {
    let number = |bytes: &[u8]| Some(u64::from_ne_bytes(bytes.try_into().ok()?));
    bytes.chunks_exact(16).find_map(|entry| (number(&entry[..8])? == wanted).then(|| number(&entry[8..]))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_capabilities_are_read() {
        // cap_net_bind_service+ep as setcap(8) writes it.
        let bytes = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let found = FileCapabilities::parse(&bytes).unwrap();
        assert!(found.effective && found.permitted == 1 << 10);
        assert!(FileCapabilities::parse(&[1, 0]).is_none());
    }

    #[test]
    fn this_process_has_an_auxiliary_vector() {
        let bytes = std::fs::read("/proc/self/auxv").unwrap();
        assert_eq!(auxiliary(&bytes, AT_SECURE), Some(0));
        let page = auxiliary(&bytes, 6).unwrap();
        assert!(page.is_power_of_two() && page >= 4096);
        assert_eq!(auxiliary(&[1, 2, 3], AT_SECURE), None);
    }
}
